import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { SmallDisk } from '../faults/small-disk.ts'
import { AgentStage, gameSpec } from './agent-stage.ts'

const REASON = 'The disk of the server, or of its node, is full: make room there, then try again'

it('an installation for which the disk of the node has no room says so, and succeeds when there is some', {
  timeout: 60_000,
}, async ({ skip }) => {
  const disk = await SmallDisk.mount(4)
  if (disk === undefined) return skip('needs root, to mount a small disk')
  const stage = await AgentStage.enter()
  try {
    await mkdir(stage.dataDir, { recursive: true, mode: 0o711 })
    await disk.link(join(stage.dataDir, 'servers'))
    await stage.startAgent()
    const install = { script: 'echo here > made', entrypoint: 'sh', timeoutMs: 30_000 }
    await disk.fill()
    const full = gameSpec('srv_full', 1, { install })
    const refused = await stage.peer.order('srv_full', 1, { op: 'install', spec: full, wipe: false, thenStart: false })
    expect(refused).toMatchObject({ ok: false, error: { code: 'NO_SPACE', message: REASON } })
    await stage.peer.report('srv_full', 'the reason', (report) => report.installError === REASON)
    await disk.clear()
    const again = gameSpec('srv_full', 2, { install })
    const done = await stage.peer.order('srv_full', 2, { op: 'install', spec: again, wipe: false, thenStart: false })
    expect(done).toMatchObject({ ok: true })
  } finally {
    await stage.leave(['srv_full'])
    await disk.unmount()
  }
})
