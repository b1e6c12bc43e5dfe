import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { CommandOp } from '../../src/shared/protocol/server.ts'
import { until } from '../e2e/wait.ts'
import { quietPort } from '../ports.ts'
import { AgentStage, gameSpec, isAlive, type AgentStage as Stage } from './agent-stage.ts'

let stage: Stage
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

function send(id: string, serverId: string, generation: number, command: CommandOp): void {
  stage.peer.send({ type: 'command', id, serverId, generation, command })
}

const startsOf = (id: string): number =>
  stage.peer.lines(id).filter(([, , , text]) => text.startsWith('hello from')).length

async function watch(serverId: string): Promise<void> {
  await stage.peer.request({ op: 'console.subscribe', serverId, after: 0 })
}

async function journalHas(text: string): Promise<void> {
  const path = join(stage.dataDir, 'journal', 'journal.jsonl')
  const deadline = performance.now() + 10_000
  while (!(await readFile(path, 'utf8')).includes(text)) {
    if (performance.now() > deadline) throw new Error(`The journal never held ${text}`)
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
}

describe('commands', () => {
  it('are carried out once, however often and in whatever order they come', async () => {
    const id = serverNamed('dup')
    const [start, stop] = [stage.peer.nextId(), stage.peer.nextId()]
    const startOp: CommandOp = { op: 'start', spec: gameSpec(id, 1) }
    for (let i = 0; i < 3; i++) send(start, id, 1, startOp)
    send(stop, id, 2, { op: 'stop' })
    for (let i = 0; i < 3; i++) send(start, id, 1, startOp)
    expect(await stage.peer.done(start)).toMatchObject({ ok: true, noop: false })
    expect(await stage.peer.done(stop)).toMatchObject({ ok: true, noop: false })
    const before = stage.peer.events().filter((event) => event.type === 'command.done').length
    send(start, id, 1, startOp)
    await stage.peer.until(
      'the result again',
      () => stage.peer.events().filter((event) => event.type === 'command.done').length > before,
    )
    await watch(id)
    await stage.peer.until('the console', () => startsOf(id) > 0)
    expect(startsOf(id)).toBe(1)
    expect(stage.peer.reports(id).at(-1)?.power).toBe('offline')
  })

  it('of an older generation are refused', async () => {
    const id = serverNamed('stale')
    await stage.peer.order(id, 5, { op: 'start', spec: gameSpec(id, 5) })
    await stage.peer.order(id, 6, { op: 'stop' })
    const stale = await stage.peer.order(id, 5, { op: 'start', spec: gameSpec(id, 5) })
    expect(stale.error?.code).toBe('STALE_GENERATION')
    expect(stage.peer.reports(id).at(-1)).toMatchObject({ power: 'offline', generation: 6 })
  })

  it('run side by side on different servers and one after the other on one', { tags: ['long'] }, async () => {
    const slow = serverNamed('slow')
    const quick = serverNamed('quick')
    const install = { script: 'echo begun; sleep 600', entrypoint: 'sh', timeoutMs: 600_000 }
    send(stage.peer.nextId(), slow, 1, {
      op: 'install',
      spec: gameSpec(slow, 1, { install }),
      wipe: false,
      thenStart: false,
    })
    await stage.peer.report(slow, 'installing', ({ activity }) => activity === 'installing')
    expect((await stage.peer.order(quick, 1, { op: 'start', spec: gameSpec(quick, 1) })).ok).toBe(true)
  })
})

describe('an agent that is killed', () => {
  it.each([
    ['an order to start is sent', ''],
    ['it is accepted', '"state":"accepted"'],
    ['its run is written down', '"kind":"game"'],
    ['it is starting', '"power":"starting"'],
    ['it is running', '"power":"running"'],
  ])('as soon as %s never makes two processes and loses no order', { tags: ['long'] }, async (_, text) => {
    const id = serverNamed('killed')
    const start = stage.peer.nextId()
    const command: CommandOp = { op: 'start', spec: gameSpec(id, 1) }
    send(start, id, 1, command)
    await journalHas(text)
    await stage.killAgent()
    await stage.startAgent()
    // What was not accepted is sent again, as the daemon does.
    send(start, id, 1, command)
    expect(await stage.peer.done(start)).toMatchObject({ ok: true })
    await stage.peer.until(
      'running',
      () =>
        [...stage.peer.of('snapshot').flatMap(({ servers }) => servers), ...stage.peer.reports(id)].at(-1)?.power ===
        'running',
    )
    await watch(id)
    await stage.peer.until('the console', () => startsOf(id) > 0)
    await stage.peer.request({ op: 'console.input', serverId: id, lines: ['once'] })
    await stage.peer.until('the answer', () => stage.peer.lines(id).some(([, , , text]) => text === 'got once'))
    expect(startsOf(id)).toBe(1)
  })

  it.each([
    ['its run is written down', '"kind":"install"'],
    ['its exit is written down', '"ended":true'],
  ])('when %s in the journal runs an install script once', { tags: ['long'] }, async (_, text) => {
    const id = serverNamed('noted')
    const order = stage.peer.nextId()
    const install = { script: 'echo ran >> "$MNT_SERVER/ran.txt"', entrypoint: 'sh', timeoutMs: 60_000 }
    send(order, id, 1, { op: 'install', spec: gameSpec(id, 1, { install }), wipe: false, thenStart: false })
    await journalHas(text)
    await stage.killAgent()
    await stage.startAgent()
    expect(await stage.peer.done(order)).toMatchObject({ ok: true, error: null })
    expect(await readFile(join(stage.dataDir, 'servers', id, 'ran.txt'), 'utf8')).toBe('ran\n')
  })

  it('before a start after a crash has begun makes up for it, and counts no crash more', {
    tags: ['long'],
  }, async () => {
    const id = serverNamed('unbegun')
    await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1) })
    await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    await stage.killAgent()
    const [usual, pidFile] = [stage.holder, join(stage.dataDir, 'never.pid')]
    stage.holder = ['/bin/sh', '-c', `echo $$ > ${pidFile}.new; mv ${pidFile}.new ${pidFile}; exec sleep 600`]
    await stage.startAgent()
    await stage.peer.request({ op: 'console.input', serverId: id, lines: ['crash'] })
    const holder = Number(await until('the holder', () => readFile(pidFile, 'utf8')))
    await stage.killAgent()
    process.kill(holder, 'SIGKILL')
    stage.holder = usual
    const before = stage.peer.reports(id).length
    await stage.startAgent()
    await stage.peer.until('running again', () => stage.peer.reports(id).slice(before).at(-1)?.power === 'running')
    const lastExit = expect.objectContaining({ code: 3 })
    expect(stage.peer.reports(id).at(-1)).toMatchObject({ crash: { count: 1, crashed: false }, lastExit })
    await watch(id)
    await stage.peer.until('the console', () => startsOf(id) === 2)
    expect(stage.peer.lines(id).map(([, , , text]) => text)).not.toContainEqual(expect.stringContaining('vanished'))
  })

  it('finds its running servers again, with the same process', async () => {
    const id = serverNamed('adopt')
    await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1) })
    const running = await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    await stage.killAgent()
    expect(await isAlive(running.pid ?? 0)).toBe(true)
    await stage.startAgent()
    const [report] = stage.peer.of('snapshot').at(-1)?.servers ?? []
    expect(report).toMatchObject({ serverId: id, power: 'running', pid: running.pid, generation: 1 })
    expect(report?.uptimeMs).toBeGreaterThan(0)
  })

  it('judges a crash of the time when it was away once, with its real exit', { tags: ['long'] }, async () => {
    const id = serverNamed('away')
    const spec = gameSpec(id, 1, {
      startup: 'echo ready; while [ ! -e go ]; do sleep 0.05; done; exit 6',
      restart: { policy: 'on-failure', maxCrashes: 1 },
    })
    await stage.peer.order(id, 1, { op: 'start', spec })
    const running = await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    await stage.killAgent()
    const { writeFile } = await import('node:fs/promises')
    await writeFile(join(stage.dataDir, 'servers', id, 'go'), '')
    const deadline = performance.now() + 10_000
    while ((await isAlive(running.pid ?? 0)) && performance.now() < deadline)
      await new Promise((resolve) => setTimeout(resolve, 20))
    await stage.startAgent()
    const crashed = await stage.peer.report(id, 'crashed', ({ crash }) => crash.crashed)
    expect(crashed).toMatchObject({ lastExit: { code: 6, expected: false }, crash: { count: 1 } })
    await stage.killAgent()
    await stage.startAgent()
    expect(stage.peer.of('snapshot').at(-1)?.servers[0]).toMatchObject({ crash: { count: 1, crashed: true } })
    // An event may come twice, under its number.
    const exits = stage.peer
      .of('event')
      .filter(({ event }) => event.type === 'server.state' && event.report.lastExit?.code === 6)
    expect(new Set(exits.map(({ seq }) => seq)).size).toBe(1)
  })

  it('in the first phase of a stop still escalates', { tags: ['long'] }, async () => {
    const id = serverNamed('midstop')
    const spec = gameSpec(id, 1, {
      startup: 'echo ready; while read -r line; do :; done',
      stop: { type: 'command', value: 'quit', timeoutMs: 1500 },
    })
    await stage.peer.order(id, 1, { op: 'start', spec })
    await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    const stop = stage.peer.nextId()
    send(stop, id, 2, { op: 'stop' })
    await stage.peer.passing(id, 'stopping', ({ power }) => power === 'stopping')
    await stage.killAgent()
    await stage.startAgent()
    expect(await stage.peer.done(stop)).toMatchObject({ ok: true })
    const offline = await stage.peer.report(id, 'offline', ({ power }) => power === 'offline')
    expect(offline).toMatchObject({ lastExit: { expected: true }, crash: { crashed: false } })
  })

  it('in the middle of a restart finishes it', { tags: ['long'] }, async () => {
    const id = serverNamed('midrestart')
    const stop = { type: 'command' as const, value: 'quit', timeoutMs: 1000 }
    const spec = gameSpec(id, 1, { startup: 'echo "hello from x"; echo ready; while read -r line; do :; done', stop })
    await stage.peer.order(id, 1, { op: 'start', spec })
    const first = await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    const restart = stage.peer.nextId()
    send(restart, id, 2, { op: 'restart', spec: { ...spec, generation: 2 } })
    await stage.peer.passing(id, 'stopping', ({ power }) => power === 'stopping')
    await stage.killAgent()
    await stage.startAgent()
    expect(await stage.peer.done(restart)).toMatchObject({ ok: true })
    await stage.peer.report(id, 'running', ({ power, pid }) => power === 'running' && pid !== first.pid)
    await watch(id)
    await stage.peer.until('both starts', () => startsOf(id) === 2)
  })

  it('in the middle of an installation follows the script to its end', { tags: ['long'] }, async () => {
    const id = serverNamed('midinstall')
    const install = {
      script: 'echo begun; while [ ! -e go ]; do sleep 0.05; done; echo done > result',
      entrypoint: 'sh',
      timeoutMs: 60_000,
    }
    const order = stage.peer.nextId()
    send(order, id, 1, { op: 'install', spec: gameSpec(id, 1, { install }), wipe: false, thenStart: true })
    await journalHas('"kind":"install"')
    await watch(id)
    await stage.peer.until('the script', () => stage.peer.lines(id).some(([, , , text]) => text === 'begun'))
    await stage.killAgent()
    await stage.startAgent()
    const { writeFile } = await import('node:fs/promises')
    await writeFile(join(stage.dataDir, 'servers', id, 'go'), '')
    expect(await stage.peer.done(order)).toMatchObject({ ok: true, error: null })
    await stage.peer.report(id, 'running', ({ power, installed }) => power === 'running' && installed)
  })

  it('waits on for the next start of a crashed server', { tags: ['long'] }, async () => {
    const id = serverNamed('midwait')
    await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1) })
    await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    await stage.peer.request({ op: 'console.input', serverId: id, lines: ['crash'] })
    await stage.peer.passing(id, 'crashed', ({ crash }) => crash.nextRestartMs !== null)
    await stage.killAgent()
    await stage.startAgent()
    await stage.peer.report(id, 'running again', ({ power, crash }) => power === 'running' && crash.count === 1)
  })
})

describe('an agent that is stopped', () => {
  it('leaves its games alone and gives the folder free', { tags: ['long'] }, async () => {
    const id = serverNamed('left')
    await stage.peer.order(id, 1, {
      op: 'start',
      spec: gameSpec(id, 1, { ports: [{ ip: '127.0.0.1', port: await quietPort(), primary: true }] }),
    })
    const running = await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    await stage.stopAgent()
    expect(await isAlive(running.pid ?? 0)).toBe(true)
    await stage.startAgent()
    expect(stage.peer.of('snapshot').at(-1)?.servers[0]).toMatchObject({ power: 'running', pid: running.pid })
  })

  it('refuses to share its folder with a second one', { tags: ['long'] }, async () => {
    const second = await stage.spawnSecond()
    expect(second.code).not.toBe(0)
    expect(second.output).toContain('Another agent')
  })
})
