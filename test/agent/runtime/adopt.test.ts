// @module-tag long
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { ConsoleTail } from '../../../src/agent/console/log/console-tail.ts'
import { type HolderPaths, holderPaths } from '../../../src/agent/holder/holder-files.ts'
import { ControlClient } from '../../../src/agent/runtime/control-client.ts'
import { DIST } from '../../run-panel.ts'
import { allLines, isLiving, otherProcess, Rig, texts, until } from './rig.ts'

let rig: Rig

beforeEach(() => {
  rig = new Rig()
})
afterEach(() => rig.close(), 30_000)

const COUNTER = 'i=0; while :; do echo line $i; i=$((i+1)); sleep 0.005; done'

/** Starts a run in a process of its own, as an agent that can be killed. */
function agentThatStarts(
  serverId: string,
  script: string,
  how = { sayBefore: false },
): Promise<{ line: string; kill(): Promise<void> }> {
  const place = rig.place(serverId)
  const launch = {
    kind: 'game',
    launchId: 'l1',
    argv: ['sh', '-c', script],
    env: { PATH: '/usr/bin:/bin' },
    image: null,
    ports: [],
    logMb: 8,
  }
  const limits = { memoryMb: 256, swapMb: 0, cpuCores: 1, pids: 100 }
  return otherProcess(
    join(rig.dataDir, 'agent'),
    `import { HeldRuns } from '${DIST}/src/agent/runtime/held-runs.js'
    import { ProcessRuntime } from '${DIST}/src/agent/runtime/process/process-runtime.js'
      import { ServerUsers } from '${DIST}/src/agent/runtime/server-users.js'
    import { systemClock } from '${DIST}/src/shared/kernel/time.js'
    const runs = new HeldRuns({ execArgv: ${JSON.stringify(rig.command)}, clock: systemClock })
    const runtime = new ProcessRuntime({ dataDir: '${rig.dataDir}', runs, users: new ServerUsers('${rig.dataDir}'), clock: systemClock })
    const place = ${JSON.stringify(place)}
    await runtime.prepare(place)
    await runtime.probe()
    if (${how.sayBefore}) console.log('now')
    const run = await runtime.start(place, ${JSON.stringify({ ...launch, limits })})
    console.log(run.record.pid)
    await new Promise(() => setTimeout(() => {}, 1e6))`,
  )
}

it('goes on when the agent is killed, and the next agent finds it', async () => {
  const place = rig.place('orphan')
  const agent = await agentThatStarts('orphan', `${COUNTER} & read x; echo got $x; kill %1; exit 6`)
  await agent.kill()
  const found = await rig.runs.adopt(place)
  if (found === undefined || !('run' in found)) throw new Error('the run was not found')
  expect(found.run.record.pid).toBe(Number(agent.line))
  const { last } = await new ConsoleTail(join(place.state, 'console')).bounds()
  await until('more lines', async () => (await allLines(place)).length > last + 20)
  await found.run.input('hello')
  expect(await found.run.exited).toMatchObject({ code: 6, launchId: 'l1', ordered: false })
  expect(await texts(place)).toContain('got hello')
}, 30_000)

it('finds the exit that happened while no agent was there', async () => {
  const place = rig.place('away')
  const agent = await agentThatStarts('away', 'echo hi; read x; exit 9')
  await agent.kill()
  const found = await rig.runs.adopt(place)
  if (found === undefined || !('run' in found)) throw new Error('the run was not found')
  await found.run.input('end')
  await found.run.exited
  expect(await rig.runs.adopt(place)).toMatchObject({ exit: { code: 9, launchId: 'l1' } })
  await rig.runs.forget(place, 'l1')
  expect(await rig.runs.adopt(place)).toBeUndefined()
}, 30_000)

it('replaces a killed holder without touching the game or losing a line', async () => {
  const place = rig.place('held')
  const run = await rig.start(place, ['sh', '-c', `(${COUNTER}) & read x; kill $!; wait; echo done; exit 3`])
  for (let round = 0; round < 3; round++) {
    const begun = (await texts(place)).length
    await until('lines of this holder', async () => (await texts(place)).length > begun + 50)
    const holder = await rig.holderPid(place)
    // What a holder has read and not yet written goes with it, so that the game says nothing while it is killed.
    process.kill(-run.record.pid, 'SIGSTOP')
    const looks: number[] = []
    await until('a log that stands still', async () => {
      looks.push((await texts(place)).length)
      return looks.length > 4 && new Set(looks.slice(-4)).size === 1
    })
    const count = looks.at(-1) ?? 0
    process.kill(holder, 'SIGKILL')
    process.kill(-run.record.pid, 'SIGCONT')
    await until('more lines', async () => (await texts(place)).length > count + 50)
    expect(isLiving(run.record.pid)).toBe(true)
    expect(await rig.holderPid(place)).not.toBe(holder)
  }
  await run.input('stop')
  expect(await run.exited).toMatchObject({ code: 3, signal: null })
  const lines = await texts(place)
  expect(lines.pop()).toBe('done')
  expect(lines.findIndex((line, i) => line !== `line ${i}`)).toBe(-1)
  const all = await allLines(place)
  expect(all.findIndex((line, i) => line[0] !== i + 1)).toBe(-1)
}, 60_000)

it('keeps the exit code of a game that ends without a holder', async () => {
  const place = rig.place('alone')
  const agent = await agentThatStarts('alone', 'while [ ! -e go ]; do sleep 0.02; done; exit 11')
  await agent.kill()
  process.kill(await rig.holderPid(place), 'SIGKILL')
  writeFileSync(join(place.files, 'go'), '')
  await until('the end', () => !isLiving(Number(agent.line)))
  const found = await rig.runs.adopt(place)
  const exit = found !== undefined && 'run' in found ? await found.run.exited : found?.exit
  expect(exit).toMatchObject({ code: 11, launchId: 'l1' })
}, 30_000)

it('takes over a run that a version without other runtimes has written down', async () => {
  const place = rig.place('older')
  const agent = await agentThatStarts('older', 'read x; echo got $x; exit 4')
  await agent.kill()
  const file = join(place.state, 'holder.json')
  const { run, ...record } = JSON.parse(readFileSync(file, 'utf8')) as { run: { runtime?: string } }
  expect(run.runtime).toBe('process')
  const { runtime: _, ...older } = run
  process.kill(await rig.holderPid(place), 'SIGKILL')
  writeFileSync(file, JSON.stringify({ ...record, run: older }))
  const found = await rig.runs.adopt(place)
  if (found === undefined || !('run' in found)) throw new Error('the run was not found')
  await found.run.input('hello')
  expect(await found.run.exited).toMatchObject({ code: 4, launchId: 'l1' })
  expect(await texts(place)).toContain('got hello')
}, 30_000)

it('tells a run of before the last boot from a living one', async () => {
  const place = rig.place('boot')
  const agent = await agentThatStarts('boot', 'read x; exit 0')
  await agent.kill()
  const living = await rig.runs.adopt(place)
  const file = join(place.state, 'holder.json')
  const record: unknown = JSON.parse(readFileSync(file, 'utf8'))
  const other = rig.place('boot2')
  mkdirSync(other.state, { recursive: true })
  const run = { ...(record as { run: object }).run, serverId: 'boot2', socket: join(rig.dataDir, 'run', 'other.sock') }
  writeFileSync(join(other.state, 'holder.json'), JSON.stringify({ ...(record as object), run, bootId: 'another' }))
  expect(await rig.runs.adopt(other)).toMatchObject({ exit: { code: null, by: 'restart of the machine' } })
  expect(living !== undefined && 'run' in living && isLiving(living.run.record.pid)).toBe(true)
}, 30_000)

it('withdraws a launch that no holder has taken', async () => {
  const place = rig.place('never')
  mkdirSync(place.state, { recursive: true })
  writeFileSync(join(place.state, 'launch.json'), JSON.stringify({ run: { socket: join(rig.dataDir, 'no.sock') } }))
  expect(await rig.runs.adopt(place)).toBeUndefined()
  expect(() => readFileSync(join(place.state, 'launch.json'))).toThrow()
})

it('writes remarks with and without a holder into one gapless log', async () => {
  const place = rig.place('notes')
  await rig.runs.note(place, 'before\nstart')
  const run = await rig.start(place, ['sh', '-c', 'echo up; read x; echo bye'])
  await until('up', async () => (await texts(place)).includes('up'))
  await Promise.all(Array.from({ length: 20 }, (_, i) => rig.runs.note(place, `remark ${i}`)))
  await run.input('x')
  const exit = await run.exited
  await Promise.all([
    rig.runs.forget(place, exit.launchId),
    rig.runs.note(place, 'after'),
    rig.runs.note(place, 'after'),
  ])
  const next = await rig.start(place, ['sh', '-c', 'echo again'])
  await next.exited
  const lines = await allLines(place)
  expect(lines.map((line) => line[0])).toEqual(lines.map((_, i) => i + 1))
  expect(lines.filter((line) => line[2] === 'system').length).toBe(24)
  expect(lines.at(-1)?.[3]).toBe('again')
  expect(run.record.firstSeq).toBe(3)
}, 30_000)

it.each<[moment: string, seen: (paths: HolderPaths) => boolean]>([
  ['it is about to start', () => true],
  ['there is a launch file', ({ launch }) => existsSync(launch)],
  ['a holder is at work', ({ io }) => existsSync(io)],
  ['the run is on record', ({ record }) => existsSync(record)],
  ['the launch file is gone', ({ record, launch }) => existsSync(record) && !existsSync(launch)],
])(
  'leaves no process or one that is found when the agent is killed as soon as %s',
  { timeout: 60_000 },
  async (moment, seen) => {
    for (let time = 1; time <= 3; time++) {
      const place = rig.place(`${moment.replaceAll(' ', '-')}-${time}`)
      const agent = await agentThatStarts(place.serverId, 'while :; do sleep 0.05; done', { sayBefore: true })
      await until(moment, () => seen(holderPaths(place.state)))
      await agent.kill()
      const found = await rig.runs.adopt(place)
      if (found === undefined) {
        // A holder that comes late must find nothing to do: the next start is the only one.
        const run = await rig.start(place, ['sleep', '60'])
        expect((await run.stats()).processes).toBe(1)
      } else {
        if (!('run' in found)) throw new Error('the run has ended by itself')
        expect(isLiving(found.run.record.pid)).toBe(true)
      }
    }
  },
)

it('goes on when its holder is killed while nothing else happens, and flushes a prompt after a moment', async () => {
  const place = rig.place('prompt')
  const run = await rig.start(place, ['sh', '-c', 'printf "name> "; read x; echo hello $x; read y; exit 2'])
  await until('the prompt', async () => (await allLines(place)).some((line) => line[3] === 'name> ' && line[4] === 1))
  process.kill(await rig.holderPid(place), 'SIGKILL')
  await until('another holder', () =>
    run.input('you').then(
      () => true,
      () => false,
    ),
  )
  await until('the answer', async () => (await texts(place)).includes('hello you'))
  await run.input('end')
  expect(await run.exited).toMatchObject({ code: 2 })
}, 30_000)

it('takes a holder that says nothing for none, instead of waiting for ever', async () => {
  const silent = createServer()
  const path = join(rig.dataDir, 'silent.sock')
  await new Promise<void>((resolve) => silent.listen(path, resolve))
  const left = new Promise((resolve) => silent.once('connection', (socket) => socket.resume().once('close', resolve)))
  expect(await ControlClient.open(path, 50)).toBeUndefined()
  await left
  silent.close()
})

it('carries out an order although the holder is killed at that moment', async () => {
  const place = rig.place('order')
  const run = await rig.start(place, ['sh', '-c', 'trap "exit 8" TERM; echo up; while :; do sleep 0.05; done'])
  await until('up', async () => (await texts(place)).includes('up'))
  process.kill(await rig.holderPid(place), 'SIGKILL')
  await run.expectExit()
  await run.signal('SIGTERM')
  expect(await run.exited).toMatchObject({ code: 8, ordered: true })
}, 30_000)

/** Starts a program whose holder is killed at a moment of the beginning; it must run, and must have begun once. */
async function beginOnceThough(name: string, moment: (state: string) => Promise<unknown>): Promise<void> {
  const place = rig.place(name)
  const starting = rig.start(place, ['sh', '-c', 'echo $$ >> starts; while :; do sleep 0.05; done'])
  starting.catch(() => undefined) // told below
  const holder = await rig.holderPid(place)
  await moment(place.state)
  process.kill(holder, 'SIGKILL')
  const run = await starting.catch((error: unknown) => {
    throw new Error(`${name}: ${String(error)}`)
  })
  const file = join(place.files, 'starts')
  const starts = (): string => (existsSync(file) ? readFileSync(file, 'utf8') : '')
  await until(`the start of ${name}`, () => starts() !== '')
  expect(starts(), name).toBe(`${run.record.pid}\n`)
  expect(isLiving(run.record.pid)).toBe(true)
}

it.each<[moment: string, seen: (paths: HolderPaths) => boolean]>([
  ['there is a holder', () => true],
  ['its outputs are made', ({ io }) => existsSync(io)],
  ['it is on record', ({ record }) => existsSync(record)],
  ['its launch file is gone', ({ launch }) => !existsSync(launch)],
])('begins a run once although its holder is killed as soon as %s', { timeout: 60_000 }, async (moment, seen) => {
  for (let time = 1; time <= 6; time++) {
    await beginOnceThough(`${moment.replaceAll(' ', '-')}-${time}`, (state) => {
      return until(moment, () => seen(holderPaths(state)))
    })
  }
})
