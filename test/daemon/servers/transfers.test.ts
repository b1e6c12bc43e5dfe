import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { setServerAccess } from '../../../src/shared/api/access.ts'
import { login } from '../../../src/shared/api/auth.ts'
import { listFiles, readFile, writeFile } from '../../../src/shared/api/files.ts'
import { createUser } from '../../../src/shared/api/users.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import type { AgentPeer } from '../agent-peer.ts'
import { eventually, GatewayStage } from '../gateway-stage.ts'
import { type LeapingClock, leapingClock } from '../leaping-clock.ts'

const MIB = 1024 * 1024
const CONTENT = Buffer.from('what is in the file')
const SHA256 = createHash('sha256').update(CONTENT).digest('hex')

let panel: TestPanel
let stage: GatewayStage
let clock: LeapingClock
beforeAll(async () => {
  clock = leapingClock()
  panel = await startPanel({ clock })
  stage = new GatewayStage(panel)
})
afterAll(() => panel.close())
afterEach(() => stage.clear())

/** A node with an agent that can transfer files, and a server on it. */
async function enter(more: readonly string[] = []) {
  const node = await stage.node()
  const { id: serverId } = await stage.server(node)
  const peer = await stage.connect(node)
  for (const op of ['files.stat', 'files.send', 'files.receive']) peer.silent.add(op)
  await peer.enter({ capabilities: ['servers@1', 'console@1', 'node@1', 'files@1', ...more] })
  const read = () =>
    fetch(`${panel.url}/api/servers/${serverId}/files/content?path=a`, {
      headers: { authorization: `Bearer ${panel.adminToken}` },
    })
  return { node, serverId, peer, read }
}

type Node = Awaited<ReturnType<typeof enter>>['node']

/** Waits for the daemon's request and answers it. */
async function asked(peer: AgentPeer, op: string, count = 1) {
  const frames = await peer.until(`${count} of ${op}`, () => {
    const found = peer.of('request').filter(({ request }) => request.op === op)
    return found.length >= count && found
  })
  const frame = frames[count - 1]
  if (frame === undefined || !('serverId' in frame.request)) throw new Error('never asked')
  const ticket = 'ticket' in frame.request ? frame.request.ticket : ''
  const reply = (result: unknown): void => peer.send({ type: 'reply', id: frame.id, error: null, result })
  return { ticket, reply, id: frame.id }
}

async function bulk(
  method: string,
  ticket: string,
  { nodeId, key }: Pick<Node, 'nodeId' | 'key'>,
  more: Record<string, string> = {},
) {
  const headers = { 'x-node-id': nodeId, 'x-node-api-key': key, ...more }
  const body = method === 'PUT' ? { body: CONTENT } : {}
  const response = await fetch(`${panel.url}/api/agent/bulk/${ticket}`, { method, headers, ...body })
  const text = await response.text()
  return { status: response.status, text, length: response.headers.get('content-length') }
}

const statOf = { size: CONTENT.length, modifiedMs: 1_700_000_000_000, etag: 'e1' }

test('a ticket is good once, for its node, its direction and its key', async () => {
  const [one, other] = [await enter(), await enter()]
  const answer = one.read()
  ;(await asked(one.peer, 'files.stat')).reply(statOf)
  const { ticket, reply } = await asked(one.peer, 'files.send')
  expect((await bulk('PUT', ticket, other.node)).status).toBe(404)
  expect((await bulk('GET', ticket, one.node)).status).toBe(404)
  expect((await bulk('PUT', ticket, { ...one.node, key: other.node.key })).status).toBe(401)
  expect((await bulk('PUT', ticket, one.node, { origin: panel.url })).status).toBe(403)
  expect((await bulk('PUT', `${ticket.slice(0, -1)}~`, one.node)).status).toBe(404)
  const delivered = bulk('PUT', ticket, one.node)
  expect((await delivered).status).toBe(200)
  reply({ sha256: SHA256 })
  expect(await (await answer).text()).toBe(CONTENT.toString())
  expect((await bulk('PUT', ticket, one.node)).status).toBe(404)
})

test('a ticket is void when nobody has come for it in its time', async () => {
  const { node, peer, read } = await enter()
  const answer = read()
  ;(await asked(peer, 'files.stat')).reply(statOf)
  const { ticket, id } = await asked(peer, 'files.send')
  clock.leap(21_000)
  const response = await answer
  expect([response.status, await response.text()]).toEqual([504, expect.stringContaining('moved nothing for too long')])
  expect((await bulk('PUT', ticket, node)).status).toBe(404)
  await peer.until('the request to be cancelled', () => peer.of('request.cancel').some((frame) => frame.id === id))
})

test('bytes that are other ones than the node has hashed never look like the whole file', async () => {
  for (const [index, sha256] of ['0'.repeat(64), 'no hash'].entries()) {
    const { node, peer, read } = await enter()
    const answer = read()
    ;(await asked(peer, 'files.stat')).reply({ ...statOf, size: CONTENT.length + index })
    const { ticket, reply } = await asked(peer, 'files.send')
    await bulk('PUT', ticket, node).catch(() => undefined) // it may be cut off with the reader
    reply({ sha256 })
    expect((await answer).status).toBe(502)
  }
})

test('a newer agent is asked how much it has delivered, and all of it has to arrive', async () => {
  for (const [bytes, status] of [
    [CONTENT.length, 200],
    [CONTENT.length + 1, 502],
  ] as const) {
    const { node, peer, read } = await enter(['files-bytes@1'])
    const answer = read()
    ;(await asked(peer, 'files.stat')).reply(statOf)
    const { ticket, reply } = await asked(peer, 'files.send')
    expect(peer.of('request').at(-1)?.request).toMatchObject({ op: 'files.send', count: true })
    await bulk('PUT', ticket, node).catch(() => undefined) // it may be cut off with the reader
    reply({ bytes })
    expect((await answer).status).toBe(status)
  }
})

test('an agent fetches what is uploaded, and learns its length without using the ticket', async () => {
  const { node, serverId, peer } = await enter()
  async function* content(): AsyncGenerator<Uint8Array> {
    yield CONTENT
  }
  const body = { contentType: 'text/plain', length: CONTENT.length, content: content(), cancel: () => {} }
  const call = panel.client.call(writeFile, { params: { serverId }, query: { path: 'a' }, body })
  const { ticket, reply } = await asked(peer, 'files.receive')
  expect(await bulk('HEAD', ticket, node)).toMatchObject({ status: 200, length: String(CONTENT.length), text: '' })
  expect((await bulk('PUT', ticket, node)).status).toBe(404)
  expect(await bulk('GET', ticket, node)).toMatchObject({ status: 200, text: CONTENT.toString() })
  expect((await bulk('GET', ticket, node)).status).toBe(404)
  reply({ ...statOf, sha256: SHA256 })
  expect(await call).toMatchObject({ path: 'a', sha256: SHA256, etag: 'e1' })
})

test('one node has a bounded number of them at a time, and a reader who goes away makes room', async () => {
  const { peer, serverId, read } = await enter()
  await panel.configure('files.transfersPerNode', 1)
  await panel.configure('files.waitingTransfersPerNode', 1)
  const leaving = new AbortController()
  const first = fetch(`${panel.url}/api/servers/${serverId}/files/content?path=a`, {
    headers: { authorization: `Bearer ${panel.adminToken}` },
    signal: leaving.signal,
  }).catch(() => undefined)
  ;(await asked(peer, 'files.stat')).reply(statOf)
  const { id } = await asked(peer, 'files.send')
  const second = read()
  ;(await asked(peer, 'files.stat', 2)).reply(statOf)
  const third = read()
  ;(await asked(peer, 'files.stat', 3)).reply(statOf)
  // One waits for its turn; of the two that came at once, the other is one too many.
  const [refused, waiting] = await Promise.race([
    second.then((answer) => [answer, third] as const),
    third.then((answer) => [answer, second] as const),
  ])
  expect(refused.status).toBe(429)
  leaving.abort()
  await first
  await peer.until('the request to be cancelled', () => peer.of('request.cancel').some((frame) => frame.id === id))
  await asked(peer, 'files.send', 2)
  clock.leap(21_000)
  expect((await waiting).status).toBe(504)
  await panel.configure('files.transfersPerNode', 10)
  await panel.configure('files.waitingTransfersPerNode', 50)
})

test('a client that goes away while it waits for its turn is no error of the daemon', async () => {
  const { peer, serverId, read } = await enter()
  await panel.configure('files.transfersPerNode', 1)
  const leaving = new AbortController()
  const url = `${panel.url}/api/servers/${serverId}/files/content?path=a`
  const headers = { authorization: `Bearer ${panel.adminToken}` }
  const first = fetch(url, { headers, signal: leaving.signal }).catch(() => undefined)
  ;(await asked(peer, 'files.stat')).reply(statOf)
  await asked(peer, 'files.send')
  const waiting = fetch(url, { headers, signal: leaving.signal }).catch(() => undefined)
  ;(await asked(peer, 'files.stat', 2)).reply(statOf)
  leaving.abort()
  await Promise.all([first, waiting])
  const third = read()
  ;(await asked(peer, 'files.stat', 3)).reply(statOf)
  await asked(peer, 'files.send', 2)
  clock.leap(21_000)
  expect((await third).status).toBe(504)
  await panel.configure('files.transfersPerNode', 10)
  expect(panel.log()).not.toContain('request failed')
})

test('transfers that wait for their turn at one node take no place of those at another', async () => {
  const [one, other] = [await enter(), await enter()]
  await panel.configure('files.transfersPerNode', 1)
  await panel.configure('files.waitingTransfersPerNode', 100)
  const leaving = new AbortController()
  const reads = Array.from({ length: 70 }, () =>
    fetch(`${panel.url}/api/servers/${one.serverId}/files/content?path=a`, {
      headers: { authorization: `Bearer ${panel.adminToken}` },
      signal: leaving.signal,
    }).catch(() => undefined),
  )
  for (let count = 1; count <= 70; count++) (await asked(one.peer, 'files.stat', count)).reply(statOf)
  const answer = other.read()
  ;(await asked(other.peer, 'files.stat')).reply(statOf)
  const { ticket, reply } = await asked(other.peer, 'files.send')
  await bulk('PUT', ticket, other.node)
  reply({ sha256: SHA256 })
  expect((await answer).status).toBe(200)
  leaving.abort()
  await Promise.all(reads)
  await panel.configure('files.transfersPerNode', 10)
  await panel.configure('files.waitingTransfersPerNode', 50)
})

test('a reader who takes nothing is cut off, and the agent with it', async () => {
  const { node, peer, serverId } = await enter()
  const { hostname, port } = new URL(panel.url)
  const socket = connect(Number(port), hostname)
  const closed = once(socket, 'close')
  socket.pause()
  socket.write(
    `GET /api/servers/${serverId}/files/content?path=a HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: Bearer ${panel.adminToken}\r\n\r\n`,
  )
  ;(await asked(peer, 'files.stat')).reply({ ...statOf, size: 256 * MIB })
  const { ticket, id } = await asked(peer, 'files.send')
  let sent = 0
  let movedAt = Date.now()
  async function* content(): AsyncGenerator<Uint8Array> {
    for (; sent < 256 * MIB; sent += MIB) {
      movedAt = Date.now()
      yield new Uint8Array(MIB)
    }
  }
  const headers = { 'x-node-id': node.nodeId, 'x-node-api-key': node.key }
  const delivering = fetch(`${panel.url}/api/agent/bulk/${ticket}`, {
    method: 'PUT',
    headers,
    body: ReadableStream.from(content()),
    duplex: 'half',
  } as RequestInit).catch(() => undefined)
  // Until all buffers on the way are full.
  await eventually(
    async () => Date.now() - movedAt,
    (stillMs) => stillMs > 300,
  )
  expect(sent).toBeLessThan(64 * MIB)
  clock.leap(31_000)
  await peer.until('the request to be cancelled', () => peer.of('request.cancel').some((frame) => frame.id === id))
  socket.on('error', () => {}) // it is cut
  socket.resume()
  await closed
  await delivering
})

test('an upload that the agent never comes for is answered', async () => {
  const { serverId, peer } = await enter()
  const answer = fetch(`${panel.url}/api/servers/${serverId}/files/content?path=a`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${panel.adminToken}` },
    body: new Uint8Array(16 * MIB),
  })
  await asked(peer, 'files.receive')
  clock.leap(21_000)
  const { status } = await answer
  expect(status).toBe(504)
})

test('what an agent says of a file does not get into headers as it stands', async () => {
  for (const facts of [{ etag: 'ž"\r\nx: y' }, { modifiedMs: 1e300 }, { etag: '' }]) {
    const { peer, read, serverId } = await enter()
    const answer = read()
    ;(await asked(peer, 'files.stat')).reply({ ...statOf, ...facts })
    expect((await answer).status).toBe(502)
    const written = fetch(`${panel.url}/api/servers/${serverId}/files/content?path=a`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${panel.adminToken}` },
      body: CONTENT,
    })
    ;(await asked(peer, 'files.receive')).reply({ ...statOf, sha256: SHA256, ...facts })
    expect((await written).status).toBe(502)
  }
})

test('a file that its agent stops to deliver is answered with the reason of the agent', async () => {
  const { node, peer, read } = await enter()
  const answer = read()
  ;(await asked(peer, 'files.stat')).reply(statOf)
  const { ticket, id } = await asked(peer, 'files.send')
  const { hostname, port } = new URL(panel.url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {}) // it is cut here
  socket.write(
    `PUT /api/agent/bulk/${ticket} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nx-node-id: ${node.nodeId}\r\nx-node-api-key: ${node.key}\r\nContent-Length: ${CONTENT.length}\r\n\r\nwhat`,
    () => socket.destroy(),
  )
  peer.send({ type: 'reply', id, error: { code: 'CONFLICT_STATE', message: 'it was changed' }, result: null })
  const response = await answer
  expect([response.status, await response.json()]).toEqual([409, expect.objectContaining({ error: 'it was changed' })])
})

test('an agent that is too old is refused before anything is asked', async () => {
  const node = await stage.node()
  const { id: serverId } = await stage.server(node)
  const peer = await stage.connect(node)
  await peer.enter()
  await expect(panel.client.stream(readFile, { params: { serverId }, query: { path: 'a' } })).rejects.toMatchObject({
    code: 'AGENT_VERSION',
    meta: { capability: 'files@1' },
  })
})

test('an agent that does not know the paths of members is sent nothing for one', async () => {
  const node = await stage.node()
  const { id: serverId } = await stage.server(node)
  const peer = await stage.connect(node)
  await peer.enter({ capabilities: ['servers@1', 'console@1', 'node@1', 'files@1', 'files@2'] })
  const [email, password] = ['held@example.org', 'A long pass word 1']
  const { client } = panel
  const { id } = await client.call(createUser, { body: { email, username: 'held', password, roleIds: [] } })
  const permissions = ['server.read', 'file.read'] as never
  const body = { targetUserId: id, permissions, filePaths: { allow: ['/plugins/'], deny: [] } }
  await client.call(setServerAccess, { params: { serverId }, body })
  const held = panel.as((await panel.as(undefined).call(login, { body: { email, password } })).token)
  await expect(held.call(listFiles, { params: { serverId }, query: { path: '/' } })).rejects.toMatchObject({
    code: 'AGENT_VERSION',
    meta: { capability: 'file-paths@1' },
  })
  expect(peer.of('request').filter(({ request }) => request.op === 'files.list')).toEqual([])
})
