import { createConnection } from 'node:net'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { createLoopback } from '../../src/daemon/core/gateway/loopback.ts'
import { createNode, createNodeKey, deleteNodeKey, getNode } from '../../src/shared/api/nodes.ts'
import { startServer } from '../../src/shared/api/power.ts'
import { createServer, getServer, type Server } from '../../src/shared/api/servers.ts'
import { createTemplate } from '../../src/shared/api/templates.ts'
import type { NodeId } from '../../src/shared/ids.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { AgentPeer, refusedBy, report } from './agent-peer.ts'

let panel: TestPanel
let count = 0
const peers: AgentPeer[] = []
beforeAll(async () => {
  panel = await startPanel()
})
afterAll(() => panel.close())
afterEach(async () => {
  await Promise.all(peers.splice(0).map((peer) => peer.leave()))
})

async function newNode(): Promise<{ nodeId: NodeId; key: string; server(): Promise<Server> }> {
  const { client, locationId } = panel
  const name = `node-${++count}`
  const node = await client.call(createNode, { body: { name, locationId: locationId as never, maxMemoryMb: 4096, maxCpuCores: 8 } })
  const { apiKey } = await client.call(createNodeKey, { params: { nodeId: node.id }, body: {} })
  const server = async (): Promise<Server> => {
    const template = await client.call(createTemplate, { body: { name: `Sleep ${++count}`, startup: 'sleep 1000' } })
    const sizes = { allocatedMemoryMb: 128, allocatedCpuCores: 0.5, allocatedDiskMb: 64 }
    const place = { nodeId: node.id, locationId: node.locationId, templateId: template.id, primaryPort: 20_000 + count }
    return await client.call(createServer, { body: { name: `server ${count}`, ...sizes, ...place } })
  }
  return { nodeId: node.id, key: apiKey, server }
}

async function connect(nodeId: string, key: string): Promise<AgentPeer> {
  const peer = await AgentPeer.connect(panel.url, nodeId, key)
  peers.push(peer)
  return peer
}

/** Polls the API until it answers as wanted. */
async function eventually<T>(look: () => Promise<T>, wanted: (value: T) => boolean): Promise<T> {
  const deadline = performance.now() + 10_000
  for (;;) {
    const value = await look()
    if (wanted(value)) return value
    if (performance.now() > deadline) throw new Error(`never as wanted: ${JSON.stringify(value)}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** Reads an event stream from now on until it has brought the text; resolves with the frame that did. */
async function readUntil(url: string, wanted: string, stop: AbortController): Promise<string> {
  const headers = { authorization: `Bearer ${panel.adminToken}` }
  const response = await fetch(url, { headers, signal: AbortSignal.any([stop.signal, AbortSignal.timeout(15_000)]) })
  let text = ''
  for await (const part of response.body ?? []) {
    text += Buffer.from(part).toString()
    const frame = text.split('\n\n').slice(0, -1).find((one) => one.includes(wanted))
    if (frame === undefined) continue
    stop.abort()
    return frame
  }
  throw new Error(`the stream ended without ${wanted}`)
}

const nodeNow = (nodeId: NodeId) => panel.client.call(getNode, { params: { nodeId } })
const serverNow = (server: Server) => panel.client.call(getServer, { params: { serverId: server.id } })

test('answers an unknown node and a wrong key alike, before the 101 and in the envelope', async () => {
  const { nodeId, key } = await newNode()
  const wrongKey = await refusedBy(AgentPeer.connect(panel.url, nodeId, `${key.slice(0, -3)}AAA`))
  const unknown = await refusedBy(AgentPeer.connect(panel.url, 'node_unknown', key))
  expect(wrongKey.status).toBe(401)
  expect(wrongKey.body).toMatchObject({ success: false, code: 'UNAUTHENTICATED' })
  expect({ ...unknown.body, requestId: '' }).toEqual({ ...wrongKey.body, requestId: '' })
})

test('refuses browsers, user credentials and other versions', async () => {
  const { nodeId, key } = await newNode()
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
  const { nodeId, key } = await newNode()
  const peer = await connect(nodeId, key)
  await peer.enter()
  const answers = []
  for (let i = 0; i < 3; i++) answers.push(await refusedBy(AgentPeer.connect(panel.url, nodeId, 'pnk_guess')))
  expect(answers.map(({ status }) => status)).toEqual([401, 429, 429])
  expect(answers[1]?.body.code).toBe('RATE_LIMITED')
  expect(Number(answers[1]?.headers['retry-after'])).toBeGreaterThan(0)
  expect(peer.closeCode).toBeUndefined()
  expect((await nodeNow(nodeId)).isOnline).toBe(true)
  // After the wait the right key is let in.
  await eventually(
    () => AgentPeer.connect(panel.url, nodeId, key).then((again) => peers.push(again), () => 0),
    (let_in) => let_in > 0,
  )
})

test('shows what the agent says of its machine, and when it goes', async () => {
  const { nodeId, key } = await newNode()
  const peer = await connect(nodeId, key)
  await peer.enter()
  const node = await eventually(() => nodeNow(nodeId), ({ isOnline }) => isOnline)
  expect(node).toMatchObject({ status: 'online', agentVersion: '9.9.9-test', arch: 'x64', addresses: ['127.0.0.1'] })
  await peer.leave()
  await eventually(() => nodeNow(nodeId), ({ isOnline }) => !isOnline)
})

test('the newest connection of a node wins and the old one is closed with 4409', async () => {
  const { nodeId, key } = await newNode()
  const first = await connect(nodeId, key)
  await first.enter()
  const second = await connect(nodeId, key)
  await second.enter()
  expect(await first.until('the close', () => first.closeCode)).toBe(4409)
  expect((await nodeNow(nodeId)).isOnline).toBe(true)
  expect(second.closeCode).toBeUndefined()
})

test('closes a connection whose key is revoked with 4401 after an error frame, within a second', async () => {
  const { nodeId, key } = await newNode()
  const peer = await connect(nodeId, key)
  await peer.enter()
  await panel.client.call(deleteNodeKey, { params: { nodeId } })
  expect(await peer.until('the close', () => peer.closeCode, 1000)).toBe(4401)
  expect(peer.of('error')).toHaveLength(1)
  expect((await refusedBy(AgentPeer.connect(panel.url, nodeId, key))).status).toBe(401)
})

test.each([
  ['an order of things', (peer: AgentPeer) => peer.send({ type: 'command.accepted', id: 'x' }), 4400],
  ['another protocol', (peer: AgentPeer) => peer.hello({ protocol: 7 }), 4426],
  ['no JSON', (peer: AgentPeer) => peer.socket.send('{'), 4400],
  ['a binary frame', (peer: AgentPeer) => peer.socket.send(Buffer.from('{}')), 4400],
  ['a deep frame', (peer: AgentPeer) => peer.socket.send(`${'['.repeat(10_000)}${']'.repeat(10_000)}`), 4400],
  ['a frame of the wrong shape', (peer: AgentPeer) => peer.socket.send('{"type":"health","health":{"__proto__":1}}'), 4400],
  ['a frame above 1 MiB', (peer: AgentPeer) => peer.socket.send(`"${'x'.repeat(1024 * 1024)}"`), 1009],
])('ends a connection over %s and stays up', async (_, offend, code) => {
  const { nodeId, key } = await newNode()
  const peer = await connect(nodeId, key)
  offend(peer)
  expect(await peer.until('the close', () => peer.closeCode)).toBe(code)
  await (await connect(nodeId, key)).enter()
})

test('passes over frames and events of a newer version', async () => {
  const { nodeId, key } = await newNode()
  const peer = await connect(nodeId, key)
  await peer.enter()
  peer.socket.send('{"type":"weather","rain":true}')
  peer.socket.send('{"type":"event","seq":1,"ageMs":0,"event":{"type":"server.sneezed"}}')
  await peer.until('the acknowledgement', () => peer.of('event.ack').some(({ seq }) => seq === 1))
  expect(peer.closeCode).toBeUndefined()
})

test('closes a connection that says no hello', async () => {
  const { nodeId, key } = await newNode()
  const peer = await connect(nodeId, key)
  expect(await peer.until('the close', () => peer.closeCode, 8000)).toBe(4400)
})

test('stores events in order, acknowledges them, and leaves out what it has', async () => {
  const { nodeId, key, server } = await newNode()
  const game = await server()
  const peer = await connect(nodeId, key)
  await peer.enter()
  for (const command of await peer.until('the commands', () => peer.of('command'))) peer.finish(command)
  const states = ['starting', 'running', 'stopping', 'offline'] as const
  let last = 0
  for (let round = 0; round < 100; round++) {
    const power = states[round % 4] ?? 'offline'
    const event = { type: 'server.state' as const, report: report(game.id, { power }), previous: 'offline' as const, commandId: null }
    last = peer.event(event)
  }
  last = peer.event({ type: 'server.state', report: report(game.id, { pid: 7 }), previous: 'offline', commandId: null })
  await peer.until('the last acknowledgement', () => peer.of('event.ack').some(({ seq }) => seq === last))
  const acks = peer.of('event.ack').map(({ seq }) => seq)
  expect(acks).toEqual([...acks].sort((a, b) => a - b))
  peer.event({ type: 'server.state', report: report(game.id, { power: 'offline' }), previous: 'running', commandId: null }, 1)
  await peer.until('the repeated one', () => peer.of('event.ack').length > acks.length)
  expect(await serverNow(game)).toMatchObject({ powerState: 'running', pid: 7 })
  await peer.leave()
  const again = await connect(nodeId, key)
  expect(await again.enter({ lastEvent: last, servers: [report(game.id)] })).toBe(last)
})

test('tells the history before the snapshot when older events are still to come', async () => {
  const { nodeId, key, server } = await newNode()
  const game = await server()
  const peer = await connect(nodeId, key)
  await peer.enter({ lastEvent: 1, servers: [report(game.id, { power: 'running', pid: 2 })] })
  expect((await serverNow(game)).powerState).toBe('offline')
  peer.event({ type: 'server.state', report: report(game.id, { power: 'starting', pid: 2 }), previous: 'offline', commandId: null })
  await eventually(() => serverNow(game), ({ powerState }) => powerState === 'running')
})

test('sends a command until it is accepted, with one id over connections, and stores its end', async () => {
  const { nodeId, key, server } = await newNode()
  const peer = await connect(nodeId, key)
  const game = await server()
  await peer.enter({ servers: [report(game.id, { power: 'offline', generation: 1 })] })
  for (const { id } of peer.of('command')) peer.send({ type: 'command.accepted', id })
  const { commandId } = await panel.client.call(startServer, { params: { serverId: game.id }, body: {} })
  const mine = (of: AgentPeer) => of.of('command').filter(({ id }) => id === commandId)
  await peer.until('the command to be sent twice', () => mine(peer).length >= 2)
  await peer.leave()
  const again = await connect(nodeId, key)
  await again.enter({ servers: [report(game.id, { power: 'offline' })] })
  const [command] = await again.until('the command after a reconnect', () => mine(again).length > 0 && mine(again))
  expect(command?.command).toMatchObject({ op: 'start', spec: { serverId: game.id } })
  if (command === undefined) throw new Error('no command')
  const seq = again.finish(command)
  await again.until('the acknowledgement', () => again.of('event.ack').some((ack) => ack.seq >= seq))
  await again.leave()
  const third = await connect(nodeId, key)
  await third.enter({ servers: [report(game.id)] })
  await eventually(() => nodeNow(nodeId), ({ isOnline }) => isOnline)
  expect(mine(third)).toEqual([])
})

test('what a lost journal had accepted is told as interrupted', async () => {
  const { nodeId, key, server } = await newNode()
  const peer = await connect(nodeId, key)
  const game = await server()
  await peer.enter({ servers: [report(game.id, { power: 'offline' })] })
  for (const command of peer.of('command')) peer.finish(command)
  const { commandId } = await panel.client.call(startServer, { params: { serverId: game.id }, body: {} })
  await peer.until('the command', () => peer.of('command').some(({ id }) => id === commandId))
  peer.send({ type: 'command.accepted', id: commandId })
  const seq = peer.event({ type: 'server.state', report: report(game.id, { power: 'offline' }), previous: 'offline', commandId: null })
  await peer.until('the acknowledgement', () => peer.of('event.ack').some((ack) => ack.seq >= seq))
  await peer.leave()
  const stop = new AbortController()
  const told = readUntil(`${panel.url}/api/servers/${game.id}/events`, '"code":"INTERRUPTED"', stop)
  const again = await connect(nodeId, key)
  expect(await again.enter({ journalId: 'journal-2', servers: [report(game.id, { power: 'offline' })] })).toBe(0)
  expect(await told).toContain(commandId)
  expect(again.of('command').filter(({ id }) => id === commandId)).toEqual([])
})

test('an order that a lost journal still names goes on', async () => {
  const { nodeId, key, server } = await newNode()
  const peer = await connect(nodeId, key)
  const game = await server()
  await peer.enter({ servers: [report(game.id, { power: 'offline' })] })
  for (const command of peer.of('command')) peer.finish(command)
  const { commandId } = await panel.client.call(startServer, { params: { serverId: game.id }, body: {} })
  await peer.until('the command', () => peer.of('command').some(({ id }) => id === commandId))
  peer.send({ type: 'command.accepted', id: commandId })
  const seq = peer.event({ type: 'server.state', report: report(game.id, { power: 'offline' }), previous: 'offline', commandId: null })
  await peer.until('the acknowledgement', () => peer.of('event.ack').some((ack) => ack.seq >= seq))
  await peer.leave()
  const stop = new AbortController()
  const told = readUntil(`${panel.url}/api/servers/${game.id}/events`, commandId, stop)
  const again = await connect(nodeId, key)
  await again.enter({ journalId: 'journal-2', commands: [commandId], servers: [report(game.id, { power: 'offline' })] })
  again.event({ type: 'command.done', commandId, serverId: game.id, ok: true, noop: false, error: null })
  expect(await told).toContain('"ok":true')
})

test('servers of a node that goes become unknown, and what they are when it is back', async () => {
  const { nodeId, key, server } = await newNode()
  const game = await server()
  const peer = await connect(nodeId, key)
  await peer.enter({ servers: [report(game.id)] })
  await eventually(() => serverNow(game), ({ status }) => status === 'running')
  peer.socket.terminate()
  const away = await eventually(() => serverNow(game), ({ status }) => status === 'unknown')
  expect(away.lastKnownStatus).toBe('running')
  await (await connect(nodeId, key)).enter({ servers: [report(game.id)] })
  await eventually(() => serverNow(game), ({ status }) => status === 'running')
})

test('the same door works without a network', async () => {
  const { nodeId, key } = await newNode()
  const port = Number(new URL(panel.url).port)
  const seen: string[] = []
  // The far end is a plain HTTP server's upgrade handler that hands the streams through to the daemon.
  const loopback = createLoopback((request, socket, head) => {
    seen.push(request.url ?? '')
    const onward = createConnection(port, '127.0.0.1')
    const lines = [`${request.method} ${request.url} HTTP/1.1`]
    for (let i = 0; i < request.rawHeaders.length; i += 2) lines.push(`${request.rawHeaders[i]}: ${request.rawHeaders[i + 1]}`)
    onward.write(`${lines.join('\r\n')}\r\n\r\n`)
    onward.write(head)
    onward.pipe(socket).pipe(onward)
    onward.on('error', () => socket.destroy())
    socket.on('error', () => onward.destroy())
  })
  const peer = await AgentPeer.connect(panel.url, nodeId, key, { createConnection: () => loopback.connect() as never })
  peers.push(peer)
  await peer.enter()
  expect(seen).toEqual(['/api/gateway/v1'])
  await peer.leave()
  loopback.close()
  await eventually(() => nodeNow(nodeId), ({ isOnline }) => !isOnline)
})
