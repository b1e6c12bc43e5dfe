import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentStage, GAME, gameSpec } from './agent-stage.ts'

const NEVER = { policy: 'never', maxCrashes: 5 } as const

let stage: AgentStage
const used = new Set<string>()

beforeAll(async () => {
  stage = await AgentStage.enter()
  await stage.startAgent()
}, 60_000)

afterAll(async () => {
  await stage.leave([...used])
}, 60_000)

function serverNamed(name: string): string {
  used.add(`srv_${name}`)
  return `srv_${name}`
}

async function type(serverId: string, line: string): Promise<void> {
  expect((await stage.peer.request({ op: 'console.input', serverId, lines: [line] })).error).toBeNull()
}

describe('a server that ends by itself', () => {
  it('is started again after a crash, with a pause', async () => {
    const id = serverNamed('crash')
    await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1) })
    const first = await stage.peer.report(id, 'running', (report) => report.power === 'running')
    await type(id, 'crash')
    const crashed = await stage.peer.passing(id, 'crashed', (report) => report.crash.crashed)
    expect(crashed).toMatchObject({ power: 'offline', crash: { count: 1 }, lastExit: { code: 3, expected: false } })
    expect(crashed.crash.nextRestartMs).toBeGreaterThan(500)
    const again = await stage.peer.report(
      id,
      'running again',
      ({ power, pid }) => power === 'running' && pid !== first.pid,
    )
    expect(again.crash).toMatchObject({ count: 1, crashed: false, nextRestartMs: null })
  })

  it('is given up after the allowed number of crashes', async () => {
    const id = serverNamed('giveup')
    const spec = gameSpec(id, 1, { startup: 'echo ready; exit 7', restart: { policy: 'on-failure', maxCrashes: 2 } })
    await stage.peer.order(id, 1, { op: 'start', spec })
    const last = await stage.peer.report(
      id,
      'given up',
      ({ crash }) => crash.count === 2 && crash.nextRestartMs === null,
    )
    expect(last).toMatchObject({ power: 'offline', crash: { crashed: true } })
  })

  it('calls off the next start when a stop comes first', async () => {
    const id = serverNamed('calloff')
    const spec = gameSpec(id, 1, { startup: 'echo ready; exit 7' })
    await stage.peer.order(id, 1, { op: 'start', spec })
    await stage.peer.passing(id, 'crashed', ({ crash }) => crash.crashed && crash.nextRestartMs !== null)
    expect(await stage.peer.order(id, 2, { op: 'stop' })).toMatchObject({ ok: true, noop: false })
    const report = await stage.peer.report(id, 'settled', ({ crash }) => !crash.crashed)
    expect(report).toMatchObject({ power: 'offline', crash: { count: 0, nextRestartMs: null } })
  })

  it('has stopped, and not crashed, when it ends cleanly or was told to by a typed stop command', async () => {
    const id = serverNamed('clean')
    await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1, { startup: 'echo ready; exit 0' }) })
    const clean = await stage.peer.report(id, 'offline', (report) => report.lastExit !== null)
    expect(clean).toMatchObject({ lastExit: { code: 0, expected: true }, crash: { crashed: false } })
    const rude = gameSpec(id, 2, {
      startup: 'echo ready; read -r line; exit 9',
      stop: { type: 'command', value: 'quit', timeoutMs: 20_000 },
    })
    await stage.peer.order(id, 2, { op: 'start', spec: rude })
    await stage.peer.report(id, 'running', (report) => report.power === 'running')
    await type(id, 'quit')
    const typed = await stage.peer.report(id, 'typed stop', (report) => report.lastExit?.code === 9)
    expect(typed).toMatchObject({ lastExit: { expected: true }, crash: { crashed: false, nextRestartMs: null } })
  })

  it('has crashed when it does not heed a typed stop command and fails after the time that a stop may take', {
    tags: ['long'],
  }, async () => {
    const id = serverNamed('heedless')
    const heedless = gameSpec(id, 1, {
      startup: 'echo ready; read -r line; sleep 1.5; exit 9',
      stop: { type: 'command', value: 'quit', timeoutMs: 300 },
    })
    await stage.peer.order(id, 1, { op: 'start', spec: heedless })
    await stage.peer.report(id, 'running', (report) => report.power === 'running')
    await type(id, 'quit')
    const failed = await stage.peer.report(id, 'the end', (report) => report.lastExit?.code === 9)
    expect(failed).toMatchObject({ lastExit: { expected: false }, crash: { crashed: true, count: 1 } })
    expect(failed.crash.nextRestartMs).not.toBeNull()
    await stage.peer.order(id, 2, { op: 'stop' })
  })

  it('is restarted by an order that comes in the moment of its end', { tags: ['long'], timeout: 60_000 }, async () => {
    const id = serverNamed('moment')
    let generation = 1
    const spec = () => gameSpec(id, generation, { startup: 'echo ready; sleep 1000', restart: NEVER })
    await stage.peer.order(id, generation, { op: 'start', spec: spec() })
    const failed: unknown[] = []
    for (const gapMs of [0, 1, 2, 4, 6, 8, 12, 16, 24, 40]) {
      const { pid } = await stage.peer.report(id, 'running', (now) => now.power === 'running' && now.pid !== null)
      generation += 1
      process.kill(pid ?? 0, 'SIGKILL')
      await new Promise((resolve) => setTimeout(resolve, gapMs))
      const done = await stage.peer.order(id, generation, { op: 'restart', spec: spec() })
      if (!done.ok) failed.push({ gapMs, ...done.error })
      if (!done.ok) break
      await stage.peer.report(id, 'running again', (now) => now.power === 'running' && now.pid !== pid)
    }
    expect(failed).toEqual([])
    await stage.peer.order(id, generation + 1, { op: 'kill' })
  })

  it('follows its policy: always starts again after a clean end, never stays down after a failure', async () => {
    const always = serverNamed('always')
    const never = serverNamed('never')
    const end = (id: string, startup: string, policy: 'always' | 'never') =>
      gameSpec(id, 1, { startup, restart: { policy, maxCrashes: 5 } })
    await stage.peer.order(always, 1, { op: 'start', spec: end(always, 'echo ready; exit 0', 'always') })
    await stage.peer.passing(always, 'a coming start', ({ crash }) => crash.nextRestartMs !== null)
    await stage.peer.order(never, 1, { op: 'start', spec: end(never, 'echo ready; exit 1', 'never') })
    const report = await stage.peer.report(never, 'crashed', ({ crash }) => crash.crashed)
    expect(report.crash.nextRestartMs).toBeNull()
    await stage.peer.order(always, 2, { op: 'stop' })
  })

  it('becomes running by a regular expression, also behind colours, and stays starting without a match', async () => {
    const id = serverNamed('regex')
    const startup = `printf 'Do\\033[32mne (1.5s)!\\033[0m\\n' >&2; ${GAME}`
    const spec = gameSpec(id, 1, {
      startup,
      stripAnsi: true,
      done: [{ kind: 'regex', value: '^Done \\(\\d+\\.\\d+s\\)!' }],
    })
    await stage.peer.order(id, 1, { op: 'start', spec })
    await stage.peer.report(id, 'running', (report) => report.power === 'running')
    const waits = serverNamed('waits')
    await stage.peer.order(waits, 1, {
      op: 'start',
      spec: gameSpec(waits, 1, { done: [{ kind: 'contains', value: 'never said' }] }),
    })
    await type(waits, 'anything')
    await stage.peer.request({ op: 'console.subscribe', serverId: waits, tail: 50 })
    await stage.peer.until('the answer', () => stage.peer.lines(waits).some(([, , , text]) => text === 'got anything'))
    expect(stage.peer.reports(waits).at(-1)?.power).toBe('starting')
    // A typed line must not count as the game's own.
    await type(waits, 'never said')
    await stage.peer.until('the echo', () =>
      stage.peer.lines(waits).some(([, , s, text]) => s === 'stdin' && text === 'never said'),
    )
  })

  it('becomes running by a line that comes in parts, after a quiet time or because it is long', {
    tags: ['long'],
  }, async () => {
    const [quiet, long, other] = [serverNamed('quiet'), serverNamed('long'), serverNamed('other')]
    const done = [{ kind: 'contains', value: 'is ready' } as const]
    // The other output has its own lines: what it says in between is no part of this one.
    const slow = `printf 'it is rea'; sleep 1; echo noise >&2; sleep 1; echo dy; read -r line`
    await stage.peer.order(quiet, 1, { op: 'start', spec: gameSpec(quiet, 1, { done, startup: slow }) })
    const dots = `head -c 16380 /dev/zero | tr '\\0' .; echo is ready; read -r line`
    const regex = [{ kind: 'regex', value: 'is ready$' } as const]
    await stage.peer.order(long, 1, { op: 'start', spec: gameSpec(long, 1, { done: regex, startup: dots }) })
    const apart = `echo 'it is rea'; echo dy; echo over; read -r line`
    await stage.peer.order(other, 1, { op: 'start', spec: gameSpec(other, 1, { done, startup: apart }) })
    await stage.peer.report(quiet, 'running', ({ power }) => power === 'running')
    await stage.peer.report(long, 'running', ({ power }) => power === 'running')
    expect(stage.peer.reports(other).at(-1)?.power).toBe('starting')
  })

  it('refuses input while nothing runs', async () => {
    const id = serverNamed('silent')
    await stage.peer.order(id, 1, { op: 'apply', spec: gameSpec(id, 1) })
    const reply = await stage.peer.request({ op: 'console.input', serverId: id, lines: ['x'] })
    expect(reply.error?.code).toBe('NOT_RUNNING')
    const unknown = await stage.peer.request({ op: 'console.input', serverId: 'srv_nobody', lines: ['x'] })
    expect(unknown.error?.code).toBe('UNKNOWN_SERVER')
  })
})
