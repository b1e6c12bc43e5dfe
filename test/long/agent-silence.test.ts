// @module-tag long
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, connect as dial, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { startAgent } from '../../src/agent/main.ts'
import { systemClock } from '../../src/shared/kernel/time.ts'
import { HOLDER } from '../agent/agent-stage.ts'
import { GatewayPeer } from '../agent/gateway-peer.ts'

describe('a network that goes silent', () => {
  it('is noticed after 30 s without a byte, and the connection is made anew', async () => {
    const peer = await GatewayPeer.listen()
    const sockets: Socket[] = []
    let frozen = false
    const proxy = createServer((client) => {
      const daemon = dial(peer.port, '127.0.0.1')
      sockets.push(client, daemon)
      for (const socket of [client, daemon]) socket.on('error', () => {})
      client.on('data', (chunk) => frozen || daemon.write(chunk))
      daemon.on('data', (chunk) => frozen || client.write(chunk))
    }).listen(0, '127.0.0.1')
    await once(proxy, 'listening')
    const dataDir = await mkdtemp(join(tmpdir(), 'panel-silent-'))
    const address = proxy.address()
    const port = typeof address === 'object' ? (address?.port ?? 0) : 0
    const agent = await startAgent({
      dataDir,
      connect: { url: `http://127.0.0.1:${port}`, nodeId: 'node_silent', nodeKey: 'k' },
      holder: HOLDER,
      clock: systemClock,
      log: { info: () => {}, warn: () => {}, error: () => {} },
      version: 'test',
    })
    await peer.until('a report of the node', () => peer.of('health')[0])
    frozen = true
    const since = performance.now()
    await peer.until('the frozen connection to be given up', () => sockets[0]?.destroyed === true, 50_000)
    expect(performance.now() - since).toBeGreaterThan(25_000)
    expect(performance.now() - since).toBeLessThan(36_000)
    frozen = false
    await peer.until('a new snapshot', () => peer.of('snapshot').length > 1)
    await agent.stop()
    await peer.close()
    for (const socket of sockets) socket.destroy()
    proxy.close()
    await rm(dataDir, { recursive: true, force: true })
  }, 60_000)
})
