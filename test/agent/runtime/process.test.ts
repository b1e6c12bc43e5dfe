import { createHash } from 'node:crypto'
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { holderPaths } from '../../../src/agent/holder/holder-files.ts'
import { DIST } from '../../run-panel.ts'
import { skippedUnless } from '../../skips.ts'
import { allLines, asNobody, HOLDER, isLiving, isRoot, LIMITS, Rig, texts, until } from './rig.ts'

const NO_ROOT = skippedUnless(isRoot, 'root')

let rig: Rig

beforeEach(() => {
  rig = new Rig()
})
afterEach(() => rig.close(), 30_000)

describe('a run', () => {
  it('stores 200,000 lines at full speed, each once and in order', async () => {
    const place = rig.place('flood')
    const run = await rig.start(place, ['/usr/bin/python3', '-c', 'for i in range(200000): print("line", i)'])
    const exit = await run.exited
    expect(exit.code).toBe(0)
    const lines = await allLines(place)
    expect(lines.length).toBe(200_000)
    expect(exit.lastSeq).toBe(200_000)
    expect(lines.findIndex((line, i) => line[0] !== i + 1 || line[3] !== `line ${i}`)).toBe(-1)
  }, 60_000)

  it('takes an endless line of 50 MB without a newline, with NULs and broken UTF-8', async () => {
    const place = rig.place('endless')
    const program =
      'import sys\nfor i in range(50): sys.stdout.buffer.write(b"\\0\\xff\\xc3abc" * 174763)\nsys.stdin.readline()'
    const run = await rig.start(place, ['/usr/bin/python3', '-c', program], { logMb: 8 })
    const holder = await rig.holderPid(place)
    await run.input('end')
    const exit = await run.exited
    expect(exit.lastSeq).toBeGreaterThan(3195)
    const peak = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${holder}/status`, 'latin1'))?.[1]
    expect(Number(peak)).toBeLessThan(90 * 1024)
    const lines = await allLines(place)
    expect(lines.length).toBeGreaterThan(400)
    expect(lines.every((line) => line[2] === 'stdin' || /^[\ufffdabc]*$/.test(line[3]))).toBe(true)
  }, 30_000)

  it('has its socket in the data folder however long its path is, whatever others have made elsewhere', async () => {
    const long = new Rig(HOLDER, 'a-name-that-is-too-long-for-a-socket-'.repeat(4))
    const uid = process.getuid?.() ?? 0
    // Where earlier versions went, and where anybody could be first.
    const squatted = join(
      tmpdir(),
      `panel-${uid}-${createHash('sha256').update(long.dataDir).digest('hex').slice(0, 12)}`,
    )
    mkdirSync(squatted, { mode: 0o777 })
    if (isRoot) chownSync(squatted, 65_534, 65_534)
    try {
      const place = long.place('far')
      const run = await long.start(place, ['sh', '-c', 'read line; echo "heard $line"'])
      await run.input('you')
      expect((await run.exited).code).toBe(0)
      expect(await texts(place)).toContain('heard you')
      expect(readdirSync(squatted)).toEqual([])
    } finally {
      rmSync(squatted, { recursive: true })
      await long.close()
    }
  }, 20_000)

  it('tells exit codes and signals apart', async () => {
    const place = rig.place('exits')
    const ways: [string, number | null, string | null][] = [
      ['exit 0', 0, null],
      ['exit 7', 7, null],
      ['exit 137', 137, null],
      ['kill -KILL $$', null, 'SIGKILL'],
      ['kill -TERM $$', null, 'SIGTERM'],
      ['kill -SEGV $$', null, 'SIGSEGV'],
    ]
    for (const [script, code, signal] of ways) {
      const run = await rig.start(place, ['sh', '-c', script])
      const exit = await run.exited
      expect([script, exit.code, exit.signal, exit.oom]).toEqual([script, code, signal, false])
      await rig.runs.forget(place, exit.launchId)
    }
  }, 30_000)

  it('refuses a program that is not there, and leaves nothing behind', async () => {
    const place = rig.place('missing')
    await expect(rig.start(place, ['no-such-game'])).rejects.toMatchObject({ code: 'SPAWN_FAILED' })
    expect(await rig.runs.adopt(place)).toBeUndefined()
    const run = await rig.start(place, ['sh', '-c', 'echo fine'])
    await run.exited
    expect(await texts(place)).toContain('fine')
  }, 30_000)

  it('gives the child its environment, its home and three descriptors, and nothing else', async () => {
    const place = rig.place('clean')
    process.env['PANEL_TEST_SECRET'] = 'not for games'
    const env = { PATH: '/usr/bin:/bin', WORDS: `it's "$HOME" \\ $(id)`, LINES2: 'a\nb', EMPTY: '' }
    const run = await rig.start(place, ['sleep', '60'], { env, launchId: 'clean-1' })
    const { pid } = run.record
    const given = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').filter(Boolean)
    const home = isRoot ? '/mnt/server' : place.files
    const own = [`HOME=${home}`, `PWD=${home}`, 'PANEL_LAUNCH_ID=clean-1']
    expect(given.sort()).toEqual([...Object.entries(env).map(([name, value]) => `${name}=${value}`), ...own].sort())
    expect(readdirSync(`/proc/${pid}/fd`).sort()).toEqual(['0', '1', '2'])
    delete process.env['PANEL_TEST_SECRET']
  })

  it('can open its outputs by name', async () => {
    const place = rig.place('names')
    const run = await rig.start(place, [
      'sh',
      '-c',
      'echo one > /dev/stdout; echo two > /dev/stderr; read x < /dev/stdin; echo got $x',
    ])
    await run.input('three')
    await run.exited
    expect(await texts(place)).toEqual(['one', 'got three'])
    expect(await texts(place, 'stderr')).toEqual(['two'])
    expect(await texts(place, 'stdin')).toEqual(['three'])
  })

  it('refuses a line after 5 s when the program does not read, and never gives half of one', {
    tags: ['long'],
    timeout: 30_000,
  }, async () => {
    const place = rig.place('deaf')
    const run = await rig.start(place, ['sh', '-c', 'while [ ! -e go ]; do sleep 0.05; done; exec cat'])
    const line = 'x'.repeat(4000)
    let taken = 0
    let refusal: unknown
    for (; refusal === undefined && taken < 100; taken++)
      refusal = await run.input(line).catch((error: unknown) => error)
    expect(refusal).toMatchObject({ code: 'TIMEOUT' })
    writeFileSync(join(place.files, 'go'), '')
    await run.input('last')
    await until('the last line', async () => (await texts(place)).includes('last'))
    const read = await texts(place)
    expect(read.length).toBe(taken)
    expect(read.slice(0, -1).every((one) => one === line)).toBe(true)
  })

  it('ends processes that left the group when it is killed', async () => {
    const place = rig.place('forks')
    const script = 'setsid sh -c "setsid sleep 300 & sleep 300" & sleep 300 & echo ready; wait'
    const run = await rig.start(place, ['sh', '-c', script])
    // A process in the middle of its exec has no environment to be found by, although it is counted already.
    let before: number[] = []
    await until('the forks', async () => {
      before = processesOf(run.record.launchId)
      return before.length === 5 && (await run.stats()).processes === 5
    })
    await run.signal('SIGKILL')
    const exit = await run.exited
    expect(exit.signal).toBe('SIGKILL')
    expect(before.filter(isLiving)).toEqual([])
  })

  it('ends what the program leaves behind and does not wait for it', async () => {
    const place = rig.place('leaves')
    const run = await rig.start(place, ['sh', '-c', 'setsid sleep 300 & echo bye; exit 4'])
    const exit = await run.exited
    expect(exit.code).toBe(4)
    expect(processesOf(run.record.launchId)).toEqual([])
    expect(await texts(place)).toEqual(['bye'])
  })

  it('keeps that an exit was ordered, and signals the whole group', async () => {
    const place = rig.place('ordered')
    const run = await rig.start(place, [
      'sh',
      '-c',
      'trap "echo stopping; exit 5" TERM; echo up; while :; do sleep 0.05; done',
    ])
    await until('up', async () => (await texts(place)).includes('up'))
    await run.expectExit()
    await run.signal('SIGTERM')
    expect(await run.exited).toMatchObject({ code: 5, ordered: true })
    expect(await texts(place)).toEqual(['up', 'stopping'])
    await expect(run.input('late')).rejects.toMatchObject({ code: 'NOT_RUNNING' })
  })

  it('ends and is started again whatever a program has left among its FIFOs', async () => {
    const place = rig.place('litter')
    const { io } = holderPaths(place.state)
    const first = await rig.start(place, ['/bin/sh', '-c', 'sleep 1000'])
    mkdirSync(join(io, 'folder', 'deeper'), { recursive: true })
    await first.signal('SIGKILL')
    const { launchId } = await first.exited
    await rig.runs.forget(place, launchId)
    await until('the folder to be gone', () => !existsSync(io))
    mkdirSync(join(io, 'folder', 'deeper'), { recursive: true })
    const second = await rig.start(place, ['/bin/sh', '-c', 'exit 3'])
    expect(await second.exited).toMatchObject({ code: 3 })
  })

  it('is started once per launch id', async () => {
    const place = rig.place('once')
    const run = await rig.start(place, ['sleep', '60'], { launchId: 'same' })
    const again = await rig.start(place, ['sleep', '60'], { launchId: 'same' })
    expect(again.record).toEqual(run.record)
    await expect(rig.start(place, ['sleep', '60'], { launchId: 'other' })).rejects.toMatchObject({
      code: 'CONFLICT_STATE',
    })
    await run.signal('SIGKILL')
    const exit = await run.exited
    const ended = await rig.start(place, ['sleep', '60'], { launchId: 'same' })
    expect(await ended.exited).toEqual(exit)
    await rig.runs.forget(place, 'same')
    await expect(rig.start(place, ['sleep', '60'], { launchId: 'same' })).rejects.toMatchObject({
      code: 'CONFLICT_STATE',
    })
  })

  it('measures processor, memory and processes', async () => {
    const run = await rig.start(rig.place('busy'), [
      '/usr/bin/python3',
      '-c',
      'x = bytearray(50000000)\nwhile True: pass',
    ])
    await until('its memory', async () => ((await run.stats()).memoryMb ?? 0) > 45)
    const stats = await until('some load', async () => {
      const now = await run.stats()
      return (now.cpuCores ?? 0) > 0.3 && now
    })
    expect(stats.processes).toBe(1)
    expect(stats.networkRxBytes).toBeNull()
  })

  it('says that memory ran out', async () => {
    const { limits } = await rig.runtime.probe()
    const limited = limits?.startsWith('cgroup') === true
    const place = rig.place('hungry')
    const program = 'import time\nx = bytearray(120 * 1024 * 1024)\ntime.sleep(30)'
    const run = await rig.start(place, ['/usr/bin/python3', '-c', program], { limits: { ...LIMITS, memoryMb: 64 } })
    const exit = await run.exited
    expect(exit).toMatchObject({ oom: true, signal: 'SIGKILL', by: limited ? null : 'memory limit' })
  }, 30_000)
})

describe('isolation', () => {
  it.runIf(isRoot)(`gives each server a user without rights and only its own folder${NO_ROOT}`, async () => {
    const one = rig.place('one')
    const two = rig.place('two')
    await rig.runtime.prepare(two)
    writeFileSync(join(two.files, 'secret'), 'two')
    const script = `cat ${join(two.files, 'secret')}; ls /mnt; touch mine; grep -E "NoNewPrivs|CapEff|CapBnd" /proc/self/status; ulimit -c`
    const run = await rig.start(one, ['sh', '-c', script])
    await run.exited
    const said = (await texts(one)).map((line) => line.replaceAll(/\s+/g, ' '))
    expect(said).toEqual(['server', 'CapEff: 0000000000000000', 'CapBnd: 0000000000000000', 'NoNewPrivs: 1', '0'])
    expect(existsSync(join(one.files, 'mine'))).toBe(true)
    // Closed to it by its mode, or not even there where the data folder is below a folder that is private to each game.
    expect((await texts(one, 'stderr')).join()).toMatch(/Permission denied|No such file/)
  })

  it.runIf(isRoot)(
    `works as an ordinary user and says that nothing is isolated${NO_ROOT}`,
    () => {
      const folder = asNobody(['mktemp', '-d']).trim()
      const program = `
      import { HeldRuns } from '${DIST}/src/agent/runtime/held-runs.js'
      import { ProcessRuntime } from '${DIST}/src/agent/runtime/process/process-runtime.js'
      import { ServerUsers } from '${DIST}/src/agent/runtime/server-users.js'
      import { systemClock } from '${DIST}/src/shared/kernel/time.js'
      const runs = new HeldRuns({ execArgv: ${JSON.stringify(HOLDER)}, clock: systemClock })
      const runtime = new ProcessRuntime({ dataDir: '${folder}', runs, users: new ServerUsers('${folder}'), clock: systemClock })
      const place = { serverId: 's', files: '${folder}/servers/s', state: '${folder}/state/s' }
      await runtime.prepare(place)
      const argv = ['sh', '-c', 'setsid sleep 300 & id -u; pwd; exit 3']
      const limits = { memoryMb: 100, swapMb: 0, cpuCores: 1, pids: 50 }
      const run = await runtime.start(place, { kind: 'game', launchId: 'l', argv, env: { PATH: '/usr/bin:/bin' }, image: null, ports: [], limits, logMb: 1 })
      const { code, lastSeq } = await run.exited
      await runs.forget(place, 'l')
      const { isolation, mounts, limits: held, userNamespaces, capabilities } = await runtime.probe()
      console.log(JSON.stringify({ code, lastSeq, isolation, mounts, held, userNamespaces, capabilities }))
    `
      const said: unknown = JSON.parse(asNobody([process.execPath, '--input-type=module', '-e', program]))
      expect(said).toEqual({
        code: 3,
        lastSeq: 3,
        isolation: 'none',
        mounts: 'shared',
        held: 'watchdog',
        userNamespaces: 'allowed',
        capabilities: ['isolation: none', 'limits: watchdog'],
      })
      asNobody(['rm', '-rf', folder])
    },
    30_000,
  )

  it.runIf(isRoot)(
    `ends a server that needs too much memory where the kernel does not${NO_ROOT}`,
    { tags: ['long'], timeout: 30_000 },
    () => {
      const folder = asNobody(['mktemp', '-d']).trim()
      const program = `
      import { HeldRuns } from '${DIST}/src/agent/runtime/held-runs.js'
      import { ProcessRuntime } from '${DIST}/src/agent/runtime/process/process-runtime.js'
      import { ServerUsers } from '${DIST}/src/agent/runtime/server-users.js'
      import { systemClock } from '${DIST}/src/shared/kernel/time.js'
      const runs = new HeldRuns({ execArgv: ${JSON.stringify(HOLDER)}, clock: systemClock })
      const runtime = new ProcessRuntime({ dataDir: '${folder}', runs, users: new ServerUsers('${folder}'), clock: systemClock })
      const place = { serverId: 's', files: '${folder}/servers/s', state: '${folder}/state/s' }
      await runtime.prepare(place)
      const argv = ['/usr/bin/python3', '-c', 'import time; x = bytearray(99000000); time.sleep(60)']
      const limits = { memoryMb: 32, swapMb: 0, cpuCores: 1, pids: 50 }
      const run = await runtime.start(place, { kind: 'game', launchId: 'l', argv, env: { PATH: '/usr/bin:/bin' }, image: null, ports: [], limits, logMb: 1 })
      const { signal, oom, by } = await run.exited
      await runs.forget(place, 'l')
      console.log(JSON.stringify({ signal, oom, by }))
    `
      const said: unknown = JSON.parse(asNobody([process.execPath, '--input-type=module', '-e', program]))
      expect(said).toEqual({ signal: 'SIGKILL', oom: true, by: 'memory limit' })
      asNobody(['rm', '-rf', folder])
    },
  )
})

function processesOf(launchId: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => isLiving(pid) && environment(pid).includes(`PANEL_LAUNCH_ID=${launchId}`))
}

function environment(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0')
  } catch {
    return [] // it ended meanwhile
  }
}
