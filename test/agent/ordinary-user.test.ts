import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentStage, gameSpec } from './agent-stage.ts'

let stage: AgentStage
const used: string[] = []

beforeAll(async () => {
  stage = await AgentStage.enterAsOrdinaryUser()
  await stage.startAgent()
}, 60_000)

afterAll(async () => {
  await stage.leave(used)
}, 60_000)

function serverNamed(name: string): string {
  used.push(`srv_${name}`)
  return `srv_${name}`
}

describe('an agent of an ordinary user', () => {
  it('says that servers are not kept apart', () => {
    const [report] = stage.peer.of('hello')[0]?.runtimes ?? []
    expect(report).toMatchObject({
      isolation: 'none',
      mounts: 'shared',
      capabilities: ['isolation: none', 'limits: watchdog'],
    })
  })

  it('installs into the folder, starts, stops and deletes', async () => {
    const id = serverNamed('plain')
    const install = { script: 'cd "$MNT_SERVER" && pwd > where.txt', entrypoint: 'sh', timeoutMs: 20_000 }
    const done = await stage.peer.order(id, 1, {
      op: 'install',
      spec: gameSpec(id, 1, { install }),
      wipe: false,
      thenStart: true,
    })
    expect(done).toMatchObject({ ok: true })
    await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    const folder = join(stage.dataDir, 'servers', id)
    expect(readFileSync(join(folder, 'where.txt'), 'utf8').trim()).toBe(folder)
    expect(await stage.peer.order(id, 2, { op: 'stop' })).toMatchObject({ ok: true })
  })

  it('refuses an install script that needs /mnt/server, with the reason', async () => {
    const id = serverNamed('literal')
    const install = { script: 'cd /mnt/server && touch x', entrypoint: 'bash', timeoutMs: 20_000 }
    const spec = gameSpec(id, 1, { install })
    const done = await stage.peer.order(id, 1, { op: 'install', spec, wipe: false, thenStart: false })
    expect(done.error).toMatchObject({ code: 'UNSUPPORTED' })
    expect(done.error?.message).toContain('/mnt/server')
  })
})
