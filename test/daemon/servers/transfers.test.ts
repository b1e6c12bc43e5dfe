import { createHash } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { readFile, writeFile } from '../../../src/shared/api/files.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import type { AgentPeer } from '../agent-peer.ts'
import { GatewayStage } from '../gateway-stage.ts'
import { type LeapingClock, leapingClock } from '../leaping-clock.ts'

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
async function enter() {
  const node = await stage.node()
  const { id: serverId } = await stage.server(node)
  const peer = await stage.connect(node)
  for (const op of ['files.stat', 'files.send', 'files.receive']) peer.silent.add(op)
  await peer.enter({ capabilities: ['servers@1', 'console@1', 'node@1', 'files@1'] })
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
  expect((await answer).status).toBe(504)
  expect((await bulk('PUT', ticket, node)).status).toBe(404)
  await peer.until('the request to be cancelled', () => peer.of('request.cancel').some((frame) => frame.id === id))
})

test('bytes that are other ones than the node has hashed never look like the whole file', async () => {
  for (const [index, sha256] of ['0'.repeat(64), 'no hash'].entries()) {
    const { node, peer, read } = await enter()
    const answer = read()
    ;(await asked(peer, 'files.stat')).reply({ ...statOf, size: CONTENT.length + index })
    const { ticket, reply } = await asked(peer, 'files.send')
    const delivered = bulk('PUT', ticket, node)
    reply({ sha256 })
    expect((await answer).status).toBe(502)
    await delivered.catch(() => undefined) // it may be cut off with the reader
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
  clock.leap(21_000)
  await peer.until('the request to be cancelled', () => peer.of('request.cancel').some((frame) => frame.id === id))
  await asked(peer, 'files.send', 2)
  clock.leap(21_000)
  expect((await waiting).status).toBe(504)
  await panel.configure('files.transfersPerNode', 10)
  await panel.configure('files.waitingTransfersPerNode', 50)
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
