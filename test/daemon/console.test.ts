import { EventSource } from 'eventsource'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { listAuditLog } from '../../src/shared/api/admin.ts'
import { getLogs, sendCommand } from '../../src/shared/api/console.ts'
import { createNode, createNodeKey } from '../../src/shared/api/nodes.ts'
import { createServer, deleteServer, getServer, type Server } from '../../src/shared/api/servers.ts'
import { createTemplate } from '../../src/shared/api/templates.ts'
import { systemClock } from '../../src/shared/time.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { AgentPeer, PeerLog, report } from './agent-peer.ts'
import { ConsoleReader, range } from './console-reader.ts'
import { refusal } from './place-panel.ts'

let panel: TestPanel
let node: { id: string; locationId: string; key: string }
let peer: AgentPeer
let game: Server
let count = 0
const readers: ConsoleReader[] = []

beforeAll(async () => {
  // The 30 s after the last viewer are a moment here.
  const clock = { ...systemClock, sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms === 30_000 ? 300 : ms, signal) }
  panel = await startPanel({ clock, env: { PANEL_LIMITS__STREAMS_PER_SERVER: '1000', PANEL_LIMITS__STREAMS_PER_USER: '1000' } })
  const { client, locationId } = panel
  const body = { name: 'console-node', locationId: locationId as never, maxMemoryMb: 100_000, maxCpuCores: 100 }
  const made = await client.call(createNode, { body })
  const { apiKey } = await client.call(createNodeKey, { params: { nodeId: made.id }, body: {} })
  node = { id: made.id, locationId, key: apiKey }
})
afterAll(() => panel.close())

beforeEach(async () => {
  const { client } = panel
  const name = `Console ${++count}`
  const template = await client.call(createTemplate, { body: { name, startup: 'sleep 1000' } })
  const sizes = { allocatedMemoryMb: 64, allocatedCpuCores: 0.1, allocatedDiskMb: 64 }
  const place = { nodeId: node.id as never, locationId: node.locationId as never, templateId: template.id }
  game = await client.call(createServer, { body: { name, ...sizes, ...place, primaryPort: 21_000 + count } })
  peer = await enter()
})
afterEach(async () => {
  for (const reader of readers.splice(0)) reader.close()
  await peer.leave()
})

/** The node's agent with the server running, with the log of an earlier connection. */
async function enter(log?: PeerLog): Promise<AgentPeer> {
  const entered = await AgentPeer.connect(panel.url, node.id, node.key)
  if (log !== undefined) entered.logs.set(game.id, log)
  await entered.enter({ journalId: `j${count}`, servers: [report(game.id)] })
  await eventually(async () => (await panel.client.call(getServer, { params: { serverId: game.id } })).status === 'running')
  return entered
}

async function eventually(look: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 10_000
  while (!(await look())) {
    if (performance.now() > deadline) throw new Error('waited in vain')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

function watch(query = '', headers: Record<string, string> = {}): ConsoleReader {
  const url = `${panel.url}/api/servers/${game.id}/console/stream${query}`
  const reader = new ConsoleReader(url, panel.adminToken, headers)
  readers.push(reader)
  return reader
}

const command = (text: string) => panel.client.call(sendCommand, { params: { serverId: game.id }, body: { command: text } })
const logs = (query: Record<string, unknown>) => panel.client.call(getLogs, { params: { serverId: game.id }, query: query as never })

test('shows the last lines and then the live ones', async () => {
  peer.say(game.id, 50)
  const reader = watch('?lines=20')
  await reader.until('the last lines', ({ seqs }) => seqs.length === 20)
  peer.say(game.id, 5)
  await reader.until('the live lines', ({ seqs }) => seqs.length === 25)
  expect(reader.seqs).toEqual(range(31, 55))
  expect(reader.frames[0]).toMatchObject({ event: 'connected', id: undefined, data: { type: 'connected', serverId: game.id, lastSeq: 50 } })
  expect(reader.frames.at(-1)).toEqual({
    id: 'epocha-55',
    event: 'console',
    data: { type: 'console', serverId: game.id, line: 'line 55', stream: 'stdout', seq: 55, timestamp: new Date(1_700_000_055_000).toISOString() },
  })
})

test('a viewer who connects before the first line sees it', async () => {
  const reader = watch()
  await reader.until('the greeting', (r) => r.of('connected')[0])
  peer.say(game.id, 3)
  await reader.until('the lines', ({ seqs }) => seqs.length === 3)
  expect(reader.seqs).toEqual([1, 2, 3])
  expect(reader.of('resume_console')).toEqual([])
})

test('resumes at every line without a loss or a repetition', async () => {
  peer.say(game.id, 40)
  for (const seen of range(0, 40)) {
    // The header wins over the parameter, which names another line here.
    const reader = watch('?resume_console=epocha-3', { 'last-event-id': `epocha-${seen}` })
    await reader.until(`the lines after ${seen}`, (r) => r.of('resume_console').length === 1 && r.seqs.length === 40 - seen)
    expect(reader.seqs).toEqual(range(seen + 1, 40))
    expect(reader.of('resume_console')[0]).toMatchObject({ id: `epocha-${seen}`, data: { missed: 0, reason: null } })
    reader.close()
  }
})

test('says which lines are gone, once', async () => {
  peer.log(game.id).append(500)
  peer.log(game.id).trim(300)
  const reader = watch('', { 'last-event-id': 'epocha-100' })
  await reader.until('all that is left', ({ seqs }) => seqs.length === 200)
  expect(reader.seqs).toEqual(range(301, 500))
  const told = reader.of('resume_console')
  expect(told).toHaveLength(1)
  expect(told[0]).toMatchObject({ id: 'epocha-300', data: { from: 101, to: 300, missed: 200, reason: 'trimmed' } })
  const again = watch('', { 'last-event-id': told[0]?.id ?? '' })
  await again.until('the same lines', ({ seqs }) => seqs.length === 200)
  expect(again.of('resume_console')[0]?.data).toMatchObject({ missed: 0, reason: null })
})

test('says it when the log began anew, and when an id was never given', async () => {
  peer.say(game.id, 10)
  const other = watch('', { 'last-event-id': 'otherepoch-5' })
  await other.until('the whole log', ({ seqs }) => seqs.length === 10)
  expect(other.of('resume_console')[0]?.data).toMatchObject({ reason: 'epoch', from: 1, to: 0, missed: 0 })
  const future = watch('', { 'last-event-id': 'epocha-99' })
  await future.until('the answer', (r) => r.of('resume_console')[0])
  expect(future.of('resume_console')[0]).toMatchObject({ id: 'epocha-10', data: { reason: 'unknown_id', missed: 0 } })
  const fresh = new PeerLog('epochb')
  peer.logs.set(game.id, fresh)
  peer.subscribed.set(game.id, 0)
  peer.say(game.id, 4)
  await other.until('the new log', ({ seqs }) => seqs.length === 14)
  expect(other.seqs).toEqual([...range(1, 10), ...range(1, 4)])
  expect(other.of('resume_console')[1]?.data).toMatchObject({ reason: 'epoch', missed: 0 })
  expect(other.frames.at(-1)?.id).toBe('epochb-4')
})

test('tells of lines that the log lost before they were read', async () => {
  peer.say(game.id, 5)
  const reader = watch()
  await reader.until('the first lines', ({ seqs }) => seqs.length === 5)
  peer.log(game.id).append(1000)
  peer.log(game.id).trim(900)
  peer.flush(game.id)
  await reader.until('the rest', ({ seqs }) => seqs.at(-1) === 1005)
  expect(reader.seqs).toEqual([...range(1, 5), ...range(901, 1005)])
  expect(reader.of('resume_console').map(({ data }) => data)).toMatchObject([{ from: 6, to: 900, missed: 895, reason: 'trimmed' }])
})

test('viewers stay while the node is away and go on without a gap', async () => {
  peer.say(game.id, 10)
  const reader = watch()
  await reader.until('the first lines', ({ seqs }) => seqs.length === 10)
  peer.socket.terminate()
  await reader.until('the news', (r) => r.of('error')[0])
  expect(reader.of('error')[0]?.data).toMatchObject({ error: 'agent_offline', serverId: game.id, nodeId: node.id })
  const late = watch()
  await late.until('the held lines', ({ seqs }) => seqs.length === 10)
  expect(late.of('error')).toHaveLength(1)
  const held = await logs({ lines: 5 })
  expect(held.logs.map(({ seq }) => seq)).toEqual(range(6, 10))
  const log = peer.log(game.id)
  log.append(30)
  peer = await enter(log)
  peer.say(game.id, 2)
  for (const one of [reader, late]) {
    await one.until('what came meanwhile', ({ seqs }) => seqs.length === 42)
    expect(one.seqs).toEqual(range(1, 42))
    expect(one.of('resume_console')).toEqual([])
    expect(one.ended).toBe(false)
  }
})

test('a viewer who connects while the node is away resumes when it is back', async () => {
  peer.say(game.id, 10)
  const log = peer.log(game.id)
  await peer.leave()
  await eventually(async () => (await panel.client.call(getServer, { params: { serverId: game.id } })).status === 'unknown')
  const reader = watch('', { 'last-event-id': 'epocha-4' })
  await reader.until('the news', (r) => r.of('error')[0])
  expect((await refusal(logs({}))).code).toBe('NODE_OFFLINE')
  peer = await enter(log)
  await reader.until('the lines', ({ seqs }) => seqs.length === 6)
  expect(reader.seqs).toEqual(range(5, 10))
})

test('a slow viewer holds up nobody and misses nothing', async () => {
  peer.log(game.id).append(1)
  const [slow, quick] = [watch(), watch()]
  await slow.until('the first line', ({ seqs }) => seqs.length === 1)
  await quick.until('the first line', ({ seqs }) => seqs.length === 1)
  slow.pause()
  const wide = 'x'.repeat(200)
  for (let i = 0; i < 60; i++) {
    peer.say(game.id, 1000, (seq) => `${seq} ${wide}`)
    await quick.until('the quick viewer', ({ seqs }) => seqs.length === 1 + (i + 1) * 1000)
  }
  expect(slow.seqs.length).toBeLessThan(30_000)
  slow.resume()
  await slow.until('all lines', ({ seqs }) => seqs.length >= 60_001, 40_000)
  expect(slow.seqs).toEqual(range(1, 60_001))
  expect(quick.seqs).toEqual(range(1, 60_001))
  expect([...slow.of('resume_console'), ...slow.of('error')]).toEqual([])
})

test('acknowledges every line that it has passed on', async () => {
  const reader = watch()
  await reader.until('the greeting', (r) => r.of('connected')[0])
  peer.say(game.id, 2500)
  await peer.until('the acknowledgement', () => peer.of('console.ack').some(({ seq }) => seq === 2500))
  const acks = peer.of('console.ack').map(({ seq }) => seq)
  expect(acks).toEqual([...acks].sort((a, b) => a - b))
})

test('serves two hundred viewers every line from one subscription', async () => {
  peer.log(game.id).append(1)
  const crowd = Array.from({ length: 200 }, () => watch('?lines=0'))
  await Promise.all(crowd.map((reader) => reader.until('the greeting', (r) => r.of('connected')[0])))
  for (let i = 0; i < 20; i++) {
    peer.say(game.id, 100)
    await new Promise((resolve) => setImmediate(resolve))
  }
  for (const reader of crowd) {
    await reader.until('the lines', ({ seqs }) => seqs.length === 2000)
    expect(reader.seqs).toEqual(range(2, 2001))
  }
  expect(peer.requests.filter(({ op }) => op === 'console.subscribe')).toHaveLength(1)
})

test('unsubscribes when nobody has watched for a while, and not while somebody does', async () => {
  const [first, second] = [watch(), watch()]
  await first.until('the greeting', (r) => r.of('connected')[0])
  await second.until('the greeting', (r) => r.of('connected')[0])
  first.close()
  peer.say(game.id, 1)
  await second.until('the line', ({ seqs }) => seqs.length === 1)
  second.close()
  await peer.until('the end of the subscription', () => peer.requests.some(({ op }) => op === 'console.unsubscribe'))
  peer.log(game.id).append(5)
  const third = watch()
  await third.until('all lines', ({ seqs }) => seqs.length === 6)
})

test('the event source of browsers resumes by itself', async () => {
  peer.say(game.id, 5)
  const seen: string[] = []
  let cut = (): void => undefined
  const source = new EventSource(`${panel.url}/api/servers/${game.id}/console/stream`, {
    fetch: (url, init) => {
      const abort = new AbortController()
      cut = () => abort.abort()
      const headers = { ...init.headers, authorization: `Bearer ${panel.adminToken}` }
      return fetch(url, { ...init, headers, signal: abort.signal })
    },
  })
  source.addEventListener('console', (event) => void seen.push(event.lastEventId))
  await eventually(async () => seen.length === 5)
  cut()
  peer.say(game.id, 5)
  await eventually(async () => seen.length === 10)
  source.close()
  expect(seen).toEqual(range(1, 10).map((seq) => `epocha-${seq}`))
})

test('types a command after the node has taken it, and audits the start of it', async () => {
  const long = `say ${'ä'.repeat(400)}`
  expect(await command(long)).toMatchObject({ sent: true })
  expect(peer.typed).toEqual([long])
  const rows = await panel.client.page(listAuditLog, { query: { action: 'server.console_command' } as never })
  const mine = rows.data.find(({ resourceId }) => resourceId === game.id)
  expect(mine?.details).toMatchObject({ command: long.slice(0, 256), length: long.length })
})

test('refuses a command that cannot reach a game', async () => {
  peer.silent.add('console.input')
  expect((await refusal(command('slow'))).code).toBe('AGENT_TIMEOUT')
  peer.event({ type: 'server.state', report: report(game.id, { power: 'offline', pid: null }), previous: 'running', commandId: null })
  await eventually(async () => (await panel.client.call(getServer, { params: { serverId: game.id } })).status === 'stopped')
  const stopped = await refusal(command('list'))
  expect(stopped).toMatchObject({ code: 'SERVER_INVALID_STATE', meta: { currentStatus: 'stopped', allowed: ['starting', 'running', 'stopping'] } })
  await peer.leave()
  await eventually(async () => (await refusal(command('list'))).code !== 'AGENT_TIMEOUT')
  expect((await refusal(panel.client.call(sendCommand, { params: { serverId: 'srv_none' as never }, body: { command: 'x' } }))).code).toBe('SERVER_NOT_FOUND')
  expect((await refusal(command('two\nlines'))).fields).toEqual(['body.command'])
})

test('pages the log by ids and instants, and by stream', async () => {
  peer.log(game.id).append(100)
  const seqs = async (query: Record<string, unknown>) => (await logs(query)).logs.map(({ seq }) => seq)
  expect(await seqs({ lines: 5 })).toEqual(range(96, 100))
  expect(await seqs({ lines: 5, before: 'epocha-50' })).toEqual(range(45, 49))
  expect(await seqs({ lines: 5, after: 'epocha-50' })).toEqual(range(51, 55))
  expect(await seqs({ lines: 100, after: 'epocha-50', before: 'epocha-54' })).toEqual(range(51, 53))
  expect(await seqs({ lines: 3, after: 'other-50' })).toEqual(range(1, 3))
  const at = (seq: number) => new Date(1_700_000_000_000 + seq * 1000).toISOString()
  expect(await seqs({ lines: 3, after: at(70) })).toEqual(range(71, 73))
  expect(await seqs({ lines: 3, before: at(70) })).toEqual(range(67, 69))
  expect(await seqs({ lines: 3, stream: 'stderr' })).toEqual([80, 90, 100])
  expect(await seqs({ lines: 3, stream: 'stderr', after: 'epocha-1' })).toEqual([10, 20, 30])
  expect(await logs({ lines: 1 })).toMatchObject({ epoch: 'epocha', firstSeq: 1, lastSeq: 100, count: 1, requestedLines: 1 })
})

test('a server without a log has an empty one', async () => {
  expect(await logs({})).toMatchObject({ logs: [], count: 0, epoch: null })
})

test('refuses a stream of a server that is not there before the first byte', async () => {
  const reader = new ConsoleReader(`${panel.url}/api/servers/srv_none/console/stream`, panel.adminToken)
  readers.push(reader)
  expect(await reader.until('the answer', ({ status }) => status > 0 && status)).toBe(404)
})

test('ends the streams of a deleted server', async () => {
  peer.event({ type: 'server.state', report: report(game.id, { power: 'offline', pid: null }), previous: 'running', commandId: null })
  await eventually(async () => (await panel.client.call(getServer, { params: { serverId: game.id } })).status === 'stopped')
  const reader = watch()
  await reader.until('the greeting', (r) => r.of('connected')[0])
  await panel.client.call(deleteServer, { params: { serverId: game.id }, query: {} as never } as never)
  const order = await peer.until('the deletion', () => peer.of('command').find((frame) => frame.command.op === 'delete'))
  peer.finish(order)
  await reader.until('the end', ({ ended }) => ended)
  expect(reader.of('error')[0]?.data).toMatchObject({ error: 'server_deleted', serverId: game.id })
})
