// @module-tag long
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createApiKey } from '../../src/shared/api/api-keys.ts'
import { getAdminHealth } from '../../src/shared/api/overview.ts'
import { listServers } from '../../src/shared/api/servers.ts'
import { createTemplate } from '../../src/shared/api/templates.ts'
import { createClient } from '../../src/shared/client.ts'
import { until } from '../e2e/wait.ts'
import { type FaultNode, FaultPanel } from './fault-panel.ts'
import { GAME } from './machine.ts'
import { patientFetch } from './patient-fetch.ts'
import { SmallDisk } from './small-disk.ts'

const disk = await SmallDisk.mount(16)
const WHY_NOT = disk === undefined ? ' (skipped: this user may not mount a file system)' : ''

let panel: FaultPanel
let node: FaultNode

beforeAll(async () => {
  if (disk === undefined) return
  panel = await FaultPanel.enter()
  node = await panel.addMachine('box')
  await panel.killDaemon('SIGTERM')
  await disk.take(join(panel.home, 'daemon', 'db'))
  await panel.startDaemon()
  await panel.online(node)
})

afterAll(async () => {
  try {
    await disk?.clear()
    await panel?.leave()
  } finally {
    await disk?.unmount()
  }
})

/** Leaves no room, neither on the disk nor within the files of the database. */
async function fillUp(): Promise<void> {
  await disk?.fill()
  const large = (name: string) => ({ name, startup: 'sleep 1', installScript: '#'.repeat(60_000) })
  for (let i = 0; ; i++) {
    const refused = await panel.client.call(createTemplate, { body: large(`filling ${i}`) }).then(
      () => undefined,
      (error: { code?: string }) => error.code,
    )
    if (refused === undefined) continue
    expect(refused).toBe('INSUFFICIENT_SPACE')
    return
  }
}

describe.skipIf(disk === undefined)(`a daemon whose disk is full${WHY_NOT}`, { timeout: 120_000 }, () => {
  it('shows games as they are, stops them by key and command line, and writes all of it down when there is room', async () => {
    const templateId = await panel.makeTemplate('game', GAME)
    const [one, two] = [
      await panel.makeServer(node, { name: 'one', templateId }),
      await panel.makeServer(node, { name: 'two', templateId }),
    ]
    const { key } = await panel.client.call(createApiKey, { body: { name: 'script', permissions: ['server.read'] } })
    await fillUp()

    process.kill(one.pid ?? 0, 'SIGKILL')
    await panel.serverWhen(one.id, 'crashed')
    const script = createClient({ baseUrl: panel.url, token: key, fetch: patientFetch })
    expect((await script.call(listServers, {})).map(({ name, status }) => [name, status]).sort()).toEqual([
      ['one', 'crashed'],
      ['two', 'running'],
    ])
    const signIn = await fetch(`${panel.url}/api/auth/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ email: 'root@example.org', password: 'Correct horse 9 battery!' }),
    })
    expect([signIn.status, await signIn.json()]).toEqual([
      507,
      expect.objectContaining({ error: expect.stringMatching(/free some space.*API keys/) }),
    ])
    const stopped = await panel.run(['servers', 'stop', 'two', '--wait', '--timeout', '30s', '-o', 'json'])
    expect([stopped.code, JSON.parse(stopped.stdout)]).toEqual([0, expect.objectContaining({ status: 'stopped' })])
    expect(stopped.stderr).toContain('went straight to the node')
    expect(() => process.kill(two.pid ?? 0, 0)).toThrow('ESRCH')
    const { commandId, generation } = JSON.parse(stopped.stdout) as { commandId: string; generation: number }
    expect((await panel.client.call(getAdminHealth)).problems.join()).toContain(join(panel.home, 'daemon', 'db'))
    const { daemonPid } = panel

    await disk?.clear()
    await until(
      'the end of the order is stored',
      async () => (await panel.orderEnds(two.id)).some((end) => end['commandId'] === commandId),
      40_000,
    )
    await panel.online(node)
    expect(await panel.server(two.id)).toMatchObject({ status: 'stopped', desired: 'stopped', generation })
    expect(await panel.server(one.id)).toMatchObject({ status: 'crashed', crashCount: 1 })
    expect((await panel.client.call(getAdminHealth)).storage).toBe('ok')
    await panel.order(two.id, 'start')
    await panel.serverWhen(two.id, 'running')
    expect(panel.daemonPid).toBe(daemonPid)
  })
})
