import { appendFile, mkdtemp, rm } from 'node:fs/promises'
import { connect as dial } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Duplex } from 'node:stream'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Agent, startAgent } from '../../src/agent/main.ts'
import { encodeLine } from '../../src/agent/state/journal-file.ts'
import { freshFacts } from '../../src/agent/state/journal-record.ts'
import { systemClock } from '../../src/shared/kernel/time.ts'
import { GATEWAY_LIMITS } from '../../src/shared/protocol/frames.ts'
import { AgentStage, GAME, gameSpec, HOLDER } from './agent-stage.ts'
import { GatewayPeer } from './gateway-peer.ts'

let stage: AgentStage
let used: string[]

beforeEach(async () => {
  used = []
  stage = await AgentStage.enter()
  await stage.startAgent()
}, 30_000)

afterEach(async () => {
  await stage.leave(used)
}, 60_000)

function serverNamed(name: string): string {
  used.push(`srv_${name}`)
  return `srv_${name}`
}

const numbers = (id: string): number[] => stage.peer.lines(id).map(([seq]) => seq)
const runOf = (first: number, count: number): number[] => Array.from({ length: count }, (_, i) => first + i)

describe('the connection', () => {
  it('comes back by itself and sends what was not acknowledged again', async () => {
    const id = serverNamed('outbox')
    stage.peer.acknowledges = false
    await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1) })
    await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    const first = stage.peer.of('event').map(({ seq }) => seq)
    expect(first).toEqual(runOf(1, first.length))
    stage.peer.frames.length = 0
    stage.peer.eventAck = 2
    stage.peer.acknowledges = true
    stage.peer.cut()
    await stage.peer.until('the rest again', () => stage.peer.of('event').length >= first.length - 2)
    expect(stage.peer.of('event').map(({ seq }) => seq)).toEqual(expect.arrayContaining(first.slice(2)))
    expect(stage.peer.of('event')[0]?.seq).toBe(3)
    expect(stage.peer.of('hello')[0]?.lastEvent).toBeGreaterThanOrEqual(first.length)
  })

  it('numbers its events behind those that the daemon has, when it has lost its own journal', async () => {
    const id = serverNamed('renumber')
    stage.peer.eventAck = 500
    stage.peer.cut()
    await stage.peer.until('a new snapshot', () => stage.peer.of('snapshot').length > 1)
    await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1) })
    expect(stage.peer.of('event')[0]?.seq).toBe(501)
  })

  it('keeps the same journal over restarts, and reports commands as unfinished only while they are', async () => {
    const id = serverNamed('journal')
    await stage.peer.order(id, 1, { op: 'apply', spec: gameSpec(id, 1) })
    await stage.killAgent()
    await stage.startAgent()
    const [first, second] = stage.peer.of('hello')
    expect(second?.journalId).toBe(first?.journalId)
    expect(second?.bootId).not.toBe(first?.bootId)
    expect(stage.peer.of('snapshot').at(-1)).toMatchObject({
      commands: [],
      servers: [{ serverId: id, power: 'offline' }],
    })
  })

  it('connects with 3,000 servers, whose snapshot takes more than one frame', {
    tags: ['long'],
    timeout: 60_000,
  }, async () => {
    await stage.stopAgent()
    const ids = Array.from({ length: 3000 }, (_, i) => `srv_many${i}`)
    const reason = 'It ended in a way that takes many words to tell. '.repeat(8)
    const records = ids.flatMap((serverId) => [
      { k: 'spec' as const, spec: gameSpec(serverId, 1, { startup: 'true' }) },
      { k: 'facts' as const, serverId, facts: { ...freshFacts(), generation: 1, reason } },
    ])
    await appendFile(join(stage.dataDir, 'journal', 'journal.jsonl'), records.map(encodeLine).join(''))
    const before = stage.peer.of('snapshot').length
    await stage.startAgent()
    const whole = await stage.peer.until('the last part', () => {
      const parts = stage.peer.of('snapshot').slice(before)
      return parts.at(-1)?.more === undefined && parts
    })
    expect(JSON.stringify(whole).length).toBeGreaterThan(GATEWAY_LIMITS.maxFrameBytes)
    expect(whole.slice(0, -1).every(({ more }) => more)).toBe(true)
    expect(whole.flatMap(({ servers }) => servers.map(({ serverId }) => serverId))).toEqual(ids)
    // The connection stands: an order reaches one of them.
    const last = serverNamed('many2999')
    expect(await stage.peer.order(last, 2, { op: 'start', spec: gameSpec(last, 2) })).toMatchObject({ ok: true })
  })

  it('leaves aside frames of an unknown type and answers unknown requests', async () => {
    stage.peer.sendRaw(JSON.stringify({ type: 'from.the.future', payload: 1 }))
    stage.peer.sendRaw(JSON.stringify({ type: 'request', id: 'q1', request: { op: 'teleport' } }))
    const reply = await stage.peer.until('a reply', () => stage.peer.of('reply').find(({ id }) => id === 'q1'))
    expect(reply.error?.code).toBe('UNSUPPORTED')
    const ports = await stage.peer.request({ op: 'ports.check', ports: [{ ip: '127.0.0.1', port: stage.peer.port }] })
    expect(ports.result).toMatchObject({ taken: [{ port: stage.peer.port, code: 'PORT_IN_USE' }] })
  })

  it('waits as long as a 429 tells it', { tags: ['long'] }, async () => {
    stage.peer.refuse = { status: 429, headers: { 'Retry-After': '2' } }
    stage.peer.cut()
    await stage.peer.until('the refused attempt', () => stage.peer.requests.length === 2)
    const refusedAt = performance.now()
    stage.peer.refuse = undefined
    await stage.peer.until('the next attempt', () => stage.peer.requests.length === 3)
    expect(performance.now() - refusedAt).toBeGreaterThan(1900)
  })

  it('sends the figures of the node and of running servers', async () => {
    const id = serverNamed('figures')
    await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1) })
    await stage.peer.request({ op: 'stats.watch', serverIds: [id] })
    const figures = await stage.peer.until('figures', () =>
      stage.peer
        .of('stats')
        .flatMap(({ servers }) => servers)
        .find(({ serverId, memoryMb }) => serverId === id && memoryMb !== null),
    )
    expect(figures.processes).toBeGreaterThan(0)
    expect(figures.uptimeMs).toBeGreaterThan(0)
    const health = await stage.peer.until('health', () => stage.peer.of('health').at(-1))
    expect(health.health.memoryTotalMb).toBeGreaterThan(100)
  })
})

describe('the console', () => {
  it('comes whole and in order, with back-pressure by acknowledgements', async () => {
    const id = serverNamed('flood')
    const startup = `${GAME.replace('20000', '40000').replace('line $i', 'line $i with some more text to make it longer')}`
    await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1, { startup }) })
    await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    stage.peer.acknowledges = false
    const bounds = await stage.peer.request({ op: 'console.subscribe', serverId: id, after: 0 })
    expect(bounds.error).toBeNull()
    await stage.peer.request({ op: 'console.input', serverId: id, lines: ['flood'] })
    const size = (): number => stage.peer.lines(id).reduce((sum, [, , , text]) => sum + text.length + 32, 0)
    await stage.peer.until('the window to be full', () => size() > 440 * 1024)
    await stage.peer.request({ op: 'ports.check', ports: [] })
    expect(size()).toBeLessThan(600 * 1024)
    stage.peer.acknowledges = true
    const [seq, epoch] = [stage.peer.lines(id).at(-1)?.[0] ?? 0, stage.peer.of('console').at(-1)?.epoch ?? '']
    stage.peer.send({ type: 'console.ack', serverId: id, epoch, seq })
    await stage.peer.until(
      'the last line',
      () => stage.peer.lines(id).some(([, , , text]) => text.startsWith('line 39999 ')),
      30_000,
    )
    expect(numbers(id)).toEqual(runOf(1, numbers(id).length))
    for (const frame of stage.peer.of('console')) expect(JSON.stringify(frame).length).toBeLessThan(1024 * 1024)
  }, 60_000)

  it('goes on where a viewer left off, after the connection was cut', async () => {
    const id = serverNamed('resume')
    await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1) })
    await stage.peer.request({ op: 'console.subscribe', serverId: id, after: 0 })
    await stage.peer.until('ready', () => stage.peer.lines(id).some(([, , , text]) => text === 'ready'))
    const last = numbers(id).at(-1) ?? 0
    const epoch = stage.peer.of('console').at(-1)?.epoch ?? ''
    stage.peer.cut()
    await stage.peer.until('a new snapshot', () => stage.peer.of('snapshot').length > 1)
    await stage.peer.request({ op: 'console.input', serverId: id, lines: ['one', 'two'] })
    await stage.peer.request({ op: 'console.subscribe', serverId: id, after: last, epoch })
    await stage.peer.until('both answers', () => stage.peer.lines(id).some(([, , , text]) => text === 'got two'))
    expect(numbers(id)).toEqual(runOf(1, numbers(id).length))
    const page = await stage.peer.request({ op: 'console.fetch', serverId: id, before: last + 1, max: 2 })
    expect(page.result).toMatchObject({ epoch, lines: [[last - 1], [last]].map(([n]) => expect.arrayContaining([n])) })
  })

  it('tells of lines that the log has dropped, and goes on behind them', async () => {
    const id = serverNamed('gap')
    const startup = `${GAME.replace('line $i', 'line $i xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx')}`
    await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1, { startup, console: { logMb: 1 } }) })
    await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    await stage.peer.request({ op: 'console.input', serverId: id, lines: ['flood'] })
    let first = 1
    await expect
      .poll(
        async () => {
          const page = await stage.peer.request({ op: 'console.fetch', serverId: id, after: 0, max: 1 })
          first = Number((page.result as { first: number }).first) // the shape of a fetch
          return first
        },
        { timeout: 20_000 },
      )
      .toBeGreaterThan(1)
    await stage.peer.request({ op: 'console.subscribe', serverId: id, after: 0 })
    const gap = await stage.peer.until('a gap', () => stage.peer.of('console.gap')[0])
    expect(gap).toMatchObject({ serverId: id, from: 1 })
    await stage.peer.until(
      'the last line',
      () => stage.peer.lines(id).some(([, , , text]) => text.startsWith('line 19999 ')),
      30_000,
    )
    let next = 1
    for (const frame of stage.peer.frames) {
      if (frame.type === 'console.gap') {
        expect(frame.from).toBe(next)
        next = frame.to + 1
      }
      if (frame.type === 'console') for (const [seq] of frame.lines) expect(seq).toBe(next++)
    }
  }, 60_000)
})

describe('an embedded agent', () => {
  it('speaks the same protocol over a stream that it is handed', { tags: ['long'] }, async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'panel-embedded-'))
    const peer = await GatewayPeer.listen()
    // The daemon hands its own upgrade handler one end of a pair; here the other end leads to the test's listener.
    const createConnection = (): Duplex => {
      const socket = dial(peer.port, '127.0.0.1')
      return Duplex.from({ readable: socket, writable: socket })
    }
    const silent = { info: () => {}, warn: () => {}, error: () => {} }
    const agent: Agent = await startAgent({
      dataDir,
      connect: { url: 'http://embedded.invalid', nodeId: 'node_inside', nodeKey: 'pnk_inside', createConnection },
      holder: HOLDER,
      clock: systemClock,
      log: silent,
      version: '0.0.0-test',
    })
    await peer.until('the snapshot', () => peer.of('snapshot')[0])
    expect(peer.requests[0]).toMatchObject({ id: 'node_inside', key: 'pnk_inside' })
    await agent.stop()
    await agent.closed
    await peer.close()
    await rm(dataDir, { recursive: true, force: true })
  })
})
