// @module-tag long
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { expect, it } from 'vitest'
import { pingDatabaseHost } from '../../src/shared/api/database-hosts.ts'
import { addDatabase, addHost, addServer, hostNow } from '../daemon/databases/stage.ts'
import { refusal } from '../daemon/place-panel.ts'
import { startPanel } from '../panel.ts'

it('a database host that says nothing is given up after 5 s, and nothing waits for it', {
  timeout: 60_000,
}, async () => {
  const open = new Set<Socket>()
  const silent = createServer((socket) => open.add(socket)).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo // a TCP listener has one
  const panel = await startPanel()
  try {
    const serverId = await addServer(panel)
    const engines = ['mysql', 'postgresql'] as const
    const waits = engines.map(async (engine) => {
      const { id: hostId } = await addHost(panel, { port, username: 'panel', password: 'any' }, { engine })
      const begin = performance.now()
      const [ping, creation] = await Promise.all([
        panel.client.call(pingDatabaseHost, { params: { hostId } }),
        refusal(addDatabase(panel, serverId, { hostId })),
      ])
      expect(performance.now() - begin).toBeLessThan(15_000)
      expect(ping).toMatchObject({ ok: false, reason: 'timeout', error: expect.stringContaining('does not answer') })
      expect(creation).toMatchObject({ code: 'DATABASE_PROVISION_FAILED', meta: { reason: 'timeout' } })
      expect(await hostNow(panel, hostId)).toMatchObject({ databaseCount: 0, leftoverCount: 0 })
    })
    await Promise.all(waits)
  } finally {
    await panel.close()
    for (const socket of open) socket.destroy()
    silent.close()
  }
})
