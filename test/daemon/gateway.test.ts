import type { IncomingMessage, ServerResponse } from 'node:http'
import { createConnection } from 'node:net'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { createLoopback } from '../../src/daemon/gateway/loopback.ts'
import { deleteNodeKey } from '../../src/shared/api/nodes.ts'
import { listSystemErrors } from '../../src/shared/api/system-errors.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { AgentPeer, refusedBy, report } from './agent-peer.ts'
import { eventually, GatewayStage } from './gateway-stage.ts'
import { leapingClock } from './leaping-clock.ts'

const clock = leapingClock()
let panel: TestPanel
let stage: GatewayStage
beforeAll(async () => {
  panel = await startPanel({ clock })
  stage = new GatewayStage(panel)
})
afterAll(() => panel.close())
afterEach(() => stage.clear())

test('answers an unknown node and a wrong key alike, before the 101 and in the envelope', async () => {
  const node = await stage.node()
  const { nodeId, key } = node
  const wrongKey = await refusedBy(AgentPeer.connect(panel.url, nodeId, `${key.slice(0, -3)}AAA`))
  const unknown = await refusedBy(AgentPeer.connect(panel.url, 'node_unknown', key))
  expect(wrongKey.status).toBe(401)
  expect(wrongKey.body).toMatchObject({ success: false, code: 'UNAUTHENTICATED' })
  expect({ ...unknown.body, requestId: '' }).toEqual({ ...wrongKey.body, requestId: '' })
})

test('refuses browsers, user credentials and other versions', async () => {
  const node = await stage.node()
  const { nodeId, key } = node
  const browser = await refusedBy(AgentPeer.connect(panel.url, nodeId, key, { headers: { origin: panel.url } }))
  expect([browser.status, browser.body.code]).toEqual([403, 'PERMISSION_DENIED'])
  const user = { authorization: `Bearer ${panel.adminToken}`, 'x-node-id': 'node_none', 'x-node-api-key': '' }
  const asUser = await refusedBy(AgentPeer.connect(panel.url, 'x', 'x', { headers: user }))
  expect(asUser.status).toBe(401)
  const raw = createConnection(Number(new URL(panel.url).port), '127.0.0.1')
  raw.write(
    `GET /api/gateway/v1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n` +
      `Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: panel-agent.v7\r\nX-Node-Id: ${nodeId}\r\nX-Node-Api-Key: ${key}\r\n\r\n`,
  )
  let text = ''
  for await (const part of raw) text += String(part)
  expect(text).toContain('HTTP/1.1 426')
  expect(text).toContain('"code":"AGENT_VERSION"')
})

test('slows down guessing without touching the agent that is connected', async () => {
  const node = await stage.node()
  const { nodeId } = node
  const peer = await stage.connect(node)
  await peer.enter()
  const answers = []
  for (let i = 0; i < 3; i++) answers.push(await refusedBy(AgentPeer.connect(panel.url, nodeId, 'pnk_guess')))
  expect(answers.map(({ status }) => status)).toEqual([401, 429, 429])
  expect(answers[1]?.body.code).toBe('RATE_LIMITED')
  expect(Number(answers[1]?.headers['retry-after'])).toBeGreaterThan(0)
  expect(peer.closeCode).toBeUndefined()
  expect((await stage.nodeNow(nodeId)).isOnline).toBe(true)
  // After the wait the right key is let in.
  await eventually(
    () =>
      stage.connect(node).then(
        () => true,
        () => false,
      ),
    (isIn) => isIn,
  )
})

test('shows what the agent says of its machine, and when it goes', async () => {
  const node = await stage.node()
  const { nodeId } = node
  const peer = await stage.connect(node)
  await peer.enter()
  const shown = await stage.online(nodeId, true)
  expect(shown).toMatchObject({ status: 'online', agentVersion: '9.9.9-test', arch: 'x64', addresses: ['127.0.0.1'] })
  await peer.leave()
  await stage.online(nodeId, false)
})

test('the newest connection of a node wins and the old one is closed with 4409', async () => {
  const node = await stage.node()
  const { nodeId } = node
  const first = await stage.connect(node)
  await first.enter()
  const second = await stage.connect(node)
  await second.enter()
  expect(await first.until('the close', () => first.closeCode)).toBe(4409)
  expect((await stage.nodeNow(nodeId)).isOnline).toBe(true)
  expect(second.closeCode).toBeUndefined()
  const ofNode = async () => {
    const rows = await panel.client.call(listSystemErrors, { query: { component: 'gateway' } })
    return rows.find(({ metadata }) => metadata?.['nodeId'] === nodeId)
  }
  const reported = await eventually(ofNode, (row) => row !== undefined)
  expect(reported).toMatchObject({ level: 'warn', message: expect.stringContaining('two agents have one node key') })
})

test('closes a connection whose key is revoked with 4401 after an error frame, within a second', async () => {
  const node = await stage.node()
  const { nodeId, key } = node
  const peer = await stage.connect(node)
  await peer.enter()
  await panel.client.call(deleteNodeKey, { params: { nodeId } })
  expect(await peer.until('the close', () => peer.closeCode, 1000)).toBe(4401)
  expect(peer.of('error')).toHaveLength(1)
  expect((await refusedBy(AgentPeer.connect(panel.url, nodeId, key))).status).toBe(401)
})

test('lets no connection in whose key is revoked while it waits for its turn', async () => {
  const node = await stage.node()
  // Each takes a turn of its own; the last of them have theirs when the key is gone.
  const coming = Array.from({ length: 300 }, () => stage.connect(node))
  await coming[0]
  await panel.client.call(deleteNodeKey, { params: { nodeId: node.nodeId } })
  const came = await Promise.allSettled(coming)
  const peers = came.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  for (const peer of peers) await peer.until('the close', () => peer.closeCode)
  // Replaced by one that came later, or revoked; not one that was asked for its hello and has not said it.
  expect(peers.map(({ closeCode }) => closeCode).filter((code) => code !== 4409 && code !== 4401)).toEqual([])
})

test.each([
  ['an order of things', (peer: AgentPeer) => peer.send({ type: 'command.accepted', id: 'x' }), 4400],
  ['another protocol', (peer: AgentPeer) => peer.hello({ protocol: 7 }), 4426],
  ['no JSON', (peer: AgentPeer) => peer.socket.send('{'), 4400],
  ['a binary frame', (peer: AgentPeer) => peer.socket.send(Buffer.from('{}')), 4400],
  ['a deep frame', (peer: AgentPeer) => peer.socket.send(`${'['.repeat(10_000)}${']'.repeat(10_000)}`), 4400],
  [
    'a frame of the wrong shape',
    (peer: AgentPeer) => peer.socket.send('{"type":"health","health":{"__proto__":1}}'),
    4400,
  ],
  ['a frame above 1 MiB', (peer: AgentPeer) => peer.socket.send(`"${'x'.repeat(1024 * 1024)}"`), 1009],
])('ends a connection over %s and stays up', async (_, offend, code) => {
  const node = await stage.node()
  const peer = await stage.connect(node)
  offend(peer)
  expect(await peer.until('the close', () => peer.closeCode)).toBe(code)
  await (await stage.connect(node)).enter()
})

test('passes over frames and events of a newer version', async () => {
  const node = await stage.node()
  const peer = await stage.connect(node)
  await peer.enter()
  peer.socket.send('{"type":"weather","rain":true}')
  peer.socket.send('{"type":"event","seq":1,"ageMs":0,"event":{"type":"server.sneezed"}}')
  await peer.until('the acknowledgement', () => peer.of('event.ack').some(({ seq }) => seq === 1))
  expect(peer.closeCode).toBeUndefined()
})

test('closes a connection that says no hello', { tags: ['long'] }, async () => {
  const node = await stage.node()
  const peer = await stage.connect(node)
  expect(await peer.until('the close', () => peer.closeCode, 8000)).toBe(4400)
})

test('the same gateway works without a network', async () => {
  const node = await stage.node()
  const { nodeId, key } = node
  const port = Number(new URL(panel.url).port)
  const seen: string[] = []
  // The far end is a plain HTTP server's upgrade handler that hands the streams through to the daemon.
  const loopback = createLoopback((request, socket, head) => {
    seen.push(request.url ?? '')
    const onward = createConnection(port, '127.0.0.1')
    const lines = [`${request.method} ${request.url} HTTP/1.1`]
    for (let i = 0; i < request.rawHeaders.length; i += 2)
      lines.push(`${request.rawHeaders[i]}: ${request.rawHeaders[i + 1]}`)
    onward.write(`${lines.join('\r\n')}\r\n\r\n`)
    onward.write(head)
    onward.pipe(socket).pipe(onward)
    onward.on('error', () => socket.destroy())
    socket.on('error', () => onward.destroy())
  }, refusesRequests)
  const peer = await AgentPeer.connect(panel.url, nodeId, key, { createConnection: () => loopback.connect() as never })
  await peer.enter()
  expect(seen).toEqual(['/api/gateway/v1'])
  await peer.leave()
  loopback.close()
  await stage.online(nodeId, false)
})

test('gives up a node from which nothing has come for 30 s, and none that answers', async () => {
  const [silent, idle] = [await stage.node(), await stage.node()]
  const game = await stage.server(silent)
  const [peer, other] = [await stage.connect(silent), await stage.connect(idle)]
  await peer.enter({ servers: [report(game.id)] })
  await other.enter()
  await stage.status(game, 'running')
  peer.socket.pause()
  const since = clock.monotonicMs()
  for (let i = 0; i < 5; i++) {
    clock.leap(5000)
    await stage.nodeNow(idle.nodeId) // as long as a request takes, a node answers a ping
  }
  expect((await stage.nodeNow(silent.nodeId)).isOnline).toBe(true)
  await eventually(
    () => {
      clock.leap(1000)
      return stage.nodeNow(silent.nodeId)
    },
    ({ isOnline }) => !isOnline,
  )
  expect(clock.monotonicMs() - since).toBeGreaterThan(29_000)
  expect(panel.log()).toContain('node heartbeat timed out (30 s)')
  expect(await stage.status(game, 'unknown')).toMatchObject({ lastKnownStatus: 'running' })
  for (let i = 0; i < 8; i++) {
    clock.leap(5000)
    await stage.nodeNow(idle.nodeId)
  }
  expect((await stage.nodeNow(idle.nodeId)).isOnline).toBe(true)
  expect(other.closeCode).toBeUndefined()
  peer.socket.resume()
})

/** This test speaks of upgrades alone. */
function refusesRequests(_request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(404).end()
}
