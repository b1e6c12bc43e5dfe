import { EventSource } from 'eventsource'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { PeerLog } from './agent-peer.ts'
import { range } from './console-reader.ts'
import { ConsoleStage } from './console-stage.ts'
import { eventually } from './gateway-stage.ts'
import { refusal } from './place-panel.ts'

let stage: ConsoleStage
beforeAll(async () => {
  stage = await ConsoleStage.open()
})
afterAll(() => stage.panel.close())
beforeEach(() => stage.begin())
afterEach(() => stage.end())

test('shows the last lines and then the live ones', async () => {
  stage.peer.say(stage.game.id, 50)
  const reader = stage.watch('?lines=20')
  await reader.until('the last lines', ({ seqs }) => seqs.length === 20)
  stage.peer.say(stage.game.id, 5)
  await reader.until('the live lines', ({ seqs }) => seqs.length === 25)
  expect(reader.seqs).toEqual(range(31, 55))
  expect(reader.frames[0]).toMatchObject({
    event: 'connected',
    id: 'epocha-30',
    data: { type: 'connected', serverId: stage.game.id, lastSeq: 50 },
  })
  expect(reader.frames.at(-1)).toEqual({
    id: 'epocha-55',
    event: 'console',
    data: {
      type: 'console',
      serverId: stage.game.id,
      line: 'line 55',
      stream: 'stdout',
      seq: 55,
      timestamp: new Date(1_700_000_055_000).toISOString(),
    },
  })
})

test('a line is shown as it was said, whatever is in it, and so are lines that are held of a node that is away', async () => {
  const said = [
    '"quoted" \\ back',
    'ä 漢字 🎮',
    'a\tb \u2028 \u001b[31mred',
    '\ud800 alone',
    'data: {}',
    '',
    'x'.repeat(70_000),
  ]
  const reader = stage.watch('?lines=0')
  await reader.until('the greeting', (r) => r.of('connected')[0])
  stage.peer.say(stage.game.id, said.length, (seq) => said[seq - 1] ?? '')
  await reader.until('the lines', ({ seqs }) => seqs.length === said.length)
  const shown = said.map((text) => text.replace('\ud800', '\ufffd'))
  expect(reader.of('console').map(({ data }) => String(data['line']).replace('\ud800', '\ufffd'))).toEqual(shown)
  await stage.peer.leave()
  await reader.until('the word that the node is away', (r) => r.of('error')[0])
  const { logs } = await stage.logs({ lines: 100 })
  expect(logs.map(({ data }) => data.replace('\ud800', '\ufffd'))).toEqual(shown)
})

test('a viewer who connects before the first line sees it', async () => {
  const reader = stage.watch()
  await reader.until('the greeting', (r) => r.of('connected')[0])
  stage.peer.say(stage.game.id, 3)
  await reader.until('the lines', ({ seqs }) => seqs.length === 3)
  expect(reader.seqs).toEqual([1, 2, 3])
  expect(reader.of('resume_console')).toEqual([])
})

test('resumes at every line without a loss or a repetition', async () => {
  stage.peer.say(stage.game.id, 40)
  for (const seen of range(0, 40)) {
    // The header wins over the parameter, which names another line here.
    const reader = stage.watch('?resume_console=epocha-3', { 'last-event-id': `epocha-${seen}` })
    await reader.until(
      `the lines after ${seen}`,
      (r) => r.of('resume_console').length === 1 && r.seqs.length === 40 - seen,
    )
    expect(reader.seqs).toEqual(range(seen + 1, 40))
    expect(reader.of('resume_console')[0]).toMatchObject({ id: `epocha-${seen}`, data: { missed: 0, reason: null } })
    reader.close()
  }
})

test('resumes from the greeting when no line has come yet', async () => {
  stage.peer.say(stage.game.id, 5)
  const reader = stage.watch('?lines=0')
  const greeting = await reader.until('the greeting', (r) => r.of('connected')[0])
  reader.close()
  stage.peer.say(stage.game.id, 3)
  const again = stage.watch('?lines=0', { 'last-event-id': greeting?.id ?? '' })
  await again.until('the lines said meanwhile', ({ seqs }) => seqs.length === 3)
  expect(again.seqs).toEqual(range(6, 8))
})

test('says which lines are gone, once', async () => {
  stage.peer.log(stage.game.id).append(500)
  stage.peer.log(stage.game.id).trim(300)
  const reader = stage.watch('', { 'last-event-id': 'epocha-100' })
  await reader.until('all that is left', ({ seqs }) => seqs.length === 200)
  expect(reader.seqs).toEqual(range(301, 500))
  const reported = reader.of('resume_console')
  expect(reported).toHaveLength(1)
  expect(reported[0]).toMatchObject({ id: 'epocha-300', data: { from: 101, to: 300, missed: 200, reason: 'trimmed' } })
  const again = stage.watch('', { 'last-event-id': reported[0]?.id ?? '' })
  await again.until('the same lines', ({ seqs }) => seqs.length === 200)
  expect(again.of('resume_console')[0]?.data).toMatchObject({ missed: 0, reason: null })
})

test('says it when the log began anew, and when an id was never given', async () => {
  stage.peer.say(stage.game.id, 10)
  const other = stage.watch('', { 'last-event-id': 'otherepoch-5' })
  await other.until('the whole log', ({ seqs }) => seqs.length === 10)
  expect(other.of('resume_console')[0]?.data).toMatchObject({ reason: 'epoch', from: 1, to: 0, missed: 0 })
  const future = stage.watch('', { 'last-event-id': 'epocha-99' })
  await future.until('the answer', (r) => r.of('resume_console')[0])
  expect(future.of('resume_console')[0]).toMatchObject({ id: 'epocha-10', data: { reason: 'unknown_id', missed: 0 } })
  const fresh = new PeerLog('epochb')
  stage.peer.logs.set(stage.game.id, fresh)
  stage.peer.subscribed.set(stage.game.id, 0)
  stage.peer.say(stage.game.id, 4)
  await other.until('the new log', ({ seqs }) => seqs.length === 14)
  expect(other.seqs).toEqual([...range(1, 10), ...range(1, 4)])
  expect(other.of('resume_console')[1]?.data).toMatchObject({ reason: 'epoch', missed: 0 })
  expect(other.frames.at(-1)?.id).toBe('epochb-4')
})

test('tells of lines that the log lost before they were read', async () => {
  stage.peer.say(stage.game.id, 5)
  const reader = stage.watch()
  await reader.until('the first lines', ({ seqs }) => seqs.length === 5)
  stage.peer.log(stage.game.id).append(1000)
  stage.peer.log(stage.game.id).trim(900)
  stage.peer.flush(stage.game.id)
  await reader.until('the rest', ({ seqs }) => seqs.at(-1) === 1005)
  expect(reader.seqs).toEqual([...range(1, 5), ...range(901, 1005)])
  expect(reader.of('resume_console').map(({ data }) => data)).toMatchObject([
    { from: 6, to: 900, missed: 895, reason: 'trimmed' },
  ])
})

test('says it when the log has lost its end, and shows what takes its place, also where both have the same numbers', async () => {
  const id = stage.game.id
  stage.peer.say(id, 10)
  const reader = stage.watch()
  await reader.until('the first lines', ({ seqs }) => seqs.length === 10)
  const log = stage.peer.log(id)
  await stage.peer.leave()
  log.lines.splice(6) // as after a machine has lost its power
  await stage.enter(log)
  await stage.peer.until('the new subscription', () => stage.peer.subscribed.has(id))
  stage.peer.say(id, 3, (seq) => `other ${seq}`)
  await reader.until('what came since', ({ seqs }) => seqs.length === 13)
  expect(reader.seqs).toEqual([...range(1, 10), ...range(7, 9)])
  expect(reader.of('console').map(({ data }) => data['line'])).toContain('other 7')
  const reported = reader.of('resume_console')
  expect(reported.map(({ id: at, data }) => [at, data['from'], data['to'], data['missed'], data['reason']])).toEqual([
    ['epocha-6', 7, 6, 0, 'unknown_id'],
  ])
  const late = stage.watch()
  await late.until('all lines', ({ seqs }) => seqs.length === 9)
  expect(late.of('console').map(({ data }) => String(data['line']).split(' ')[0])).toEqual([
    ...Array(6).fill('line'),
    ...Array(3).fill('other'),
  ])
})

test('shows no line twice that an agent sends again after a new subscription', async () => {
  const id = stage.game.id
  stage.peer.say(id, 10)
  const reader = stage.watch()
  await reader.until('the first lines', ({ seqs }) => seqs.length === 10)
  const log = stage.peer.log(id)
  await stage.peer.leave()
  log.append(5)
  await stage.enter(log)
  await reader.until('what came meanwhile', ({ seqs }) => seqs.length === 15)
  // Consoles of earlier tests are subscribed anew as well. The reader may have had its lines before the feed had them all.
  const again = stage.peer.requests.find(
    ({ op, ...of }) => op === 'console.subscribe' && 'serverId' in of && of.serverId === id,
  )
  expect(again).toMatchObject({ epoch: 'epocha' })
  stage.peer.subscribed.set(id, 3) // an agent that begins further back than it was asked to
  stage.peer.say(id, 5)
  const late = stage.watch('', { 'last-event-id': 'epocha-2' })
  for (const [one, from] of [[reader, 1] as const, [late, 3] as const]) {
    await one.until('the last line', ({ seqs }) => seqs.at(-1) === 20)
    expect(one.seqs).toEqual(range(from, 20))
  }
  expect(reader.of('resume_console')).toEqual([])
  // Old lines alone, with nothing new behind them.
  stage.peer.send({ type: 'console', serverId: id, epoch: 'epocha', lines: log.after(2, 3) })
  stage.peer.say(id, 1)
  await reader.until('the newest line', ({ seqs }) => seqs.at(-1) === 21)
  const fresh = stage.watch()
  await fresh.until('the newest line', ({ seqs }) => seqs.at(-1) === 21)
  for (const one of [reader, fresh]) expect(one.seqs).toEqual(range(1, 21))
})

test('does not take bounds that no log has, and watches on when the node has right ones', async () => {
  const id = stage.game.id
  stage.peer.log(id).first = -5
  const reader = stage.watch()
  await stage.peer.until('a subscription', () => stage.peer.requests.some(({ op }) => op === 'console.subscribe'))
  stage.peer.send({ type: 'console', serverId: id, epoch: 'epocha', lines: [[1, 0, 'stdout', 'one', 0]] })
  await stage.peer.leave()
  await stage.enter()
  // A request that an agent does not understand would be an error of this peer.
  stage.peer.say(id, 3)
  await reader.until('the lines', ({ seqs }) => seqs.length === 3)
  expect(reader.seqs).toEqual(range(1, 3))
})

test('viewers stay while the node is away and go on without a gap', async () => {
  stage.peer.say(stage.game.id, 10)
  const reader = stage.watch()
  await reader.until('the first lines', ({ seqs }) => seqs.length === 10)
  stage.peer.socket.terminate()
  await reader.until('the news', (r) => r.of('error')[0])
  expect(reader.of('error')[0]?.data).toMatchObject({
    error: 'agent_offline',
    serverId: stage.game.id,
    nodeId: stage.node.id,
  })
  const late = stage.watch()
  await late.until('the held lines', ({ seqs }) => seqs.length === 10)
  expect(late.of('error')).toHaveLength(1)
  const held = await stage.logs({ lines: 5 })
  expect(held.logs.map(({ seq }) => seq)).toEqual(range(6, 10))
  const log = stage.peer.log(stage.game.id)
  log.append(30)
  await stage.enter(log)
  stage.peer.say(stage.game.id, 2)
  for (const one of [reader, late]) {
    await one.until('what came meanwhile', ({ seqs }) => seqs.length === 42)
    expect(one.seqs).toEqual(range(1, 42))
    expect(one.of('resume_console')).toEqual([])
    expect(one.ended).toBe(false)
  }
})

test('a viewer who connects while the node is away resumes when it is back', async () => {
  stage.peer.say(stage.game.id, 10)
  const log = stage.peer.log(stage.game.id)
  await stage.peer.leave()
  await stage.status('unknown')
  const reader = stage.watch('', { 'last-event-id': 'epocha-4' })
  await reader.until('the news', (r) => r.of('error')[0])
  expect((await refusal(stage.logs({}))).code).toBe('NODE_OFFLINE')
  await stage.enter(log)
  await reader.until('the lines', ({ seqs }) => seqs.length === 6)
  expect(reader.seqs).toEqual(range(5, 10))
})

test('a slow viewer holds up nobody and misses nothing', { tags: ['long'] }, async () => {
  stage.peer.log(stage.game.id).append(1)
  const [slow, quick] = [stage.watch(), stage.watch()]
  await slow.until('the first line', ({ seqs }) => seqs.length === 1)
  await quick.until('the first line', ({ seqs }) => seqs.length === 1)
  slow.pause()
  const wide = 'x'.repeat(200)
  for (let i = 0; i < 60; i++) {
    stage.peer.say(stage.game.id, 1000, (seq) => `${seq} ${wide}`)
    await quick.until('the quick viewer', ({ seqs }) => seqs.length === 1 + (i + 1) * 1000)
  }
  expect(slow.seqs.length).toBeLessThan(30_000)
  slow.resume()
  await slow.until('all lines', ({ seqs }) => seqs.length >= 60_001, 40_000)
  expect(slow.seqs).toEqual(range(1, 60_001))
  expect(quick.seqs).toEqual(range(1, 60_001))
  expect([...slow.of('resume_console'), ...slow.of('error')]).toEqual([])
  // What the slow one could not be sent was read from the node's log, and not kept for it in the daemon.
  expect(stage.peer.requests.some(({ op }) => op === 'console.fetch')).toBe(true)
})

test('acknowledges every line that it has passed on', async () => {
  const reader = stage.watch()
  await reader.until('the greeting', (r) => r.of('connected')[0])
  stage.peer.say(stage.game.id, 2500)
  await stage.peer.until('the acknowledgement', () => stage.peer.of('console.ack').some(({ seq }) => seq === 2500))
  const acks = stage.peer.of('console.ack').map(({ seq }) => seq)
  expect(acks).toEqual([...acks].sort((a, b) => a - b))
})

test('serves two hundred viewers every line from one subscription', { tags: ['long'] }, async () => {
  stage.peer.log(stage.game.id).append(1)
  const crowd = Array.from({ length: 200 }, () => stage.watch('?lines=0'))
  await Promise.all(crowd.map((reader) => reader.until('the greeting', (r) => r.of('connected')[0])))
  for (let i = 0; i < 20; i++) {
    stage.peer.say(stage.game.id, 100)
    await new Promise((resolve) => setImmediate(resolve))
  }
  for (const reader of crowd) {
    await reader.until('the lines', ({ seqs }) => seqs.length === 2000)
    expect(reader.seqs).toEqual(range(2, 2001))
  }
  expect(
    stage.peer.requests.filter((request) => request.op === 'console.subscribe' && request.serverId === stage.game.id),
  ).toHaveLength(1)
})

test('the feed ends within two seconds of its last viewer, and not while somebody watches', async () => {
  const [first, second] = [stage.watch(), stage.watch()]
  await first.until('the greeting', (r) => r.of('connected')[0])
  await second.until('the greeting', (r) => r.of('connected')[0])
  first.close()
  stage.peer.say(stage.game.id, 1)
  await second.until('the line', ({ seqs }) => seqs.length === 1)
  const isEnded = () =>
    stage.peer.requests.some((request) => request.op === 'console.unsubscribe' && request.serverId === stage.game.id)
  expect(isEnded()).toBe(false)
  const left = performance.now()
  second.close()
  await stage.peer.until('the end of the subscription', isEnded)
  expect(performance.now() - left).toBeLessThan(2000)
  stage.peer.log(stage.game.id).append(5)
  const third = stage.watch()
  await third.until('all lines', ({ seqs }) => seqs.length === 6)
})

test('viewers who go and come back within a second find the feed as it was, and lose nothing', async () => {
  const { id } = stage.game
  const ends = () =>
    stage.peer.requests.filter((request) => request.op === 'console.unsubscribe' && request.serverId === id)
  let seen = 0
  let said = 0
  for (let i = 0; i < 30; i++) {
    const reader = stage.watch('?lines=0', i === 0 ? {} : { 'last-event-id': `epocha-${seen}` })
    await reader.until('the greeting', (r) => r.of('connected')[0])
    if (i > 0) await reader.until('the resume', (r) => r.of('resume_console')[0])
    stage.peer.say(id, 20)
    said += 20
    await reader.until('a line', ({ seqs }) => seqs.length > 0)
    reader.close()
    // What comes while it closes is for the next one.
    stage.peer.say(id, 10)
    said += 10
    expect(reader.seqs).toEqual(range(seen + 1, reader.seqs.at(-1) ?? 0))
    if (i > 0) expect(reader.of('resume_console').map(({ data }) => data['missed'])).toEqual([0])
    seen = reader.seqs.at(-1) ?? 0
  }
  const last = stage.watch('', { 'last-event-id': `epocha-${seen}` })
  await last.until('the rest', ({ seqs }) => seqs.at(-1) === said)
  expect(last.seqs).toEqual(range(seen + 1, said))
  expect(ends()).toEqual([])
})

test('the event source of browsers resumes by itself', async () => {
  stage.peer.say(stage.game.id, 5)
  const seen: string[] = []
  let cut = (): void => undefined
  const source = new EventSource(`${stage.panel.url}/api/servers/${stage.game.id}/console/stream`, {
    fetch: (url, init) => {
      const abort = new AbortController()
      cut = () => abort.abort(new Error('the network went away'))
      const headers = { ...init.headers, authorization: `Bearer ${stage.panel.adminToken}` }
      return fetch(url, { ...init, headers, signal: abort.signal })
    },
  })
  source.addEventListener('console', (event) => void seen.push(event.lastEventId))
  await until(() => seen.length === 5)
  cut()
  stage.peer.say(stage.game.id, 5)
  await until(() => seen.length === 10)
  source.close()
  expect(seen).toEqual(range(1, 10).map((seq) => `epocha-${seq}`))
})

async function until(look: () => boolean): Promise<void> {
  await eventually(
    async () => look(),
    (seen) => seen,
  )
}
