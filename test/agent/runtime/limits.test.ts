import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  cgroupPids,
  cgroupUsage,
  joinCgroup,
  killCgroup,
  limitsMemory,
  makeCgroup,
  oomKills,
  removeCgroup,
} from '../../../src/agent/holder/cgroup.ts'
import { processFacts } from '../../../src/agent/holder/proc.ts'
import { killRun, runPids, signalRun } from '../../../src/agent/holder/run-processes.ts'
import { findCgroups } from '../../../src/agent/runtime/process/cgroup-places.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import { isLiving, isRoot, LIMITS, Rig, texts, until } from './rig.ts'

const MIB = 1024 * 1024
const base = isRoot ? await findCgroups() : null
/** The second version without controllers is there beside the first one on many machines. */
const UNIFIED = '/sys/fs/cgroup/unified'
const versions =
  base === null ? 'control groups (skipped: there are none here)' : `control groups of version ${base.version}`

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'panel-limits-'))
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

const read = (...name: string[]): string => readFileSync(join(dir, ...name), 'utf8')

describe('the files of control groups', () => {
  const limits = { memoryMb: 1000, swapMb: 100, cpuCores: 0.5, pids: 77 }

  it('carry the limits of version 2', () => {
    const place = { version: 2, dir: join(dir, 'run') } as const
    makeCgroup(place, limits)
    const files = ['memory.max', 'memory.swap.max', 'memory.oom.group', 'cpu.max', 'pids.max']
    // 15 % on top of what the server was given.
    const expected = [String(1150 * MIB), String(100 * MIB), '1', '50000 100000', '77']
    expect(files.map((name) => read('run', name))).toEqual(expected)
    joinCgroup(place, 4711)
    expect(read('run', 'cgroup.procs')).toBe('4711')
    expect([limitsMemory(place), cgroupPids(place)]).toEqual([true, [4711]])
    expect(killCgroup(place)).toBe(true)
    expect(read('run', 'cgroup.kill')).toBe('1')
  })

  it('carry the limits of version 1, each in the group of its controller', () => {
    const dirs = Object.fromEntries(['memory', 'pids', 'cpu', 'cpuacct'].map((name) => [name, join(dir, name)]))
    const place = { version: 1, dirs } as const
    makeCgroup(place, limits)
    expect(read('memory', 'memory.limit_in_bytes')).toBe(String(1150 * MIB))
    expect(read('memory', 'memory.memsw.limit_in_bytes')).toBe(String(1250 * MIB))
    expect([read('cpu', 'cpu.cfs_period_us'), read('cpu', 'cpu.cfs_quota_us')]).toEqual(['100000', '50000'])
    expect(read('pids', 'pids.max')).toBe('77')
    joinCgroup(place, 4711)
    for (const name of Object.keys(dirs)) expect(read(name, 'cgroup.procs')).toBe('4711')
    expect(killCgroup(place)).toBe(false)
  })

  it('carry nothing where there is no limit', () => {
    const none = { memoryMb: 0, swapMb: -1, cpuCores: 0, pids: 0 }
    makeCgroup({ version: 2, dir: join(dir, 'run') }, none)
    for (const name of ['memory.max', 'memory.swap.max', 'cpu.max', 'pids.max']) {
      expect(existsSync(join(dir, 'run', name)), name).toBe(false)
    }
  })

  it('say what a run has used and how often it had too little memory', () => {
    const place = { version: 2, dir } as const
    writeFileSync(join(dir, 'cpu.stat'), 'usage_usec 2500000\nuser_usec 1\n')
    writeFileSync(join(dir, 'memory.current'), `${50 * MIB}\n`)
    writeFileSync(join(dir, 'memory.stat'), `anon 1\ninactive_file ${20 * MIB}\n`)
    writeFileSync(join(dir, 'memory.events'), 'low 0\noom 5\noom_kill 3\n')
    expect(cgroupUsage(place)).toEqual({ cpuSeconds: 2.5, memoryBytes: 30 * MIB })
    expect(oomKills(place)).toBe(3)
    expect(oomKills({ version: 2, dir: join(dir, 'gone') })).toBe(0)
  })
})

describe.runIf(isRoot && existsSync(UNIFIED))(
  'a group of version 2 of this kernel (without controllers; skipped unless root has one)',
  () => {
    it('ends every process at once, those that fork too, and is removed', async () => {
      const place = { version: 2, dir: join(UNIFIED, `panel-test-${process.pid}`) } as const
      makeCgroup(place, { memoryMb: 0, swapMb: 0, cpuCores: 0, pids: 0 })
      const script = 'read go; while :; do setsid sh -c "sleep 30" & done 2> /dev/null'
      const child = spawn('sh', ['-c', script], { stdio: ['pipe', 'ignore', 'ignore'] })
      try {
        joinCgroup(place, child.pid ?? 0)
        child.stdin.end('go\n')
        await until('many processes', () => cgroupPids(place).length > 20)
        expect(killCgroup(place)).toBe(true)
        await until('the end of all', () => cgroupPids(place).length === 0)
        expect(cgroupUsage(place).cpuSeconds).toBeGreaterThan(0)
        await until('the group to go', () => removeCgroup(place))
      } finally {
        if (existsSync(place.dir)) {
          killCgroup(place)
          await until('the group to go', () => removeCgroup(place))
        }
      }
    })
  },
)

describe.runIf(base !== null)(`limits, skipped without control groups: ${versions}`, () => {
  let rig: Rig
  beforeEach(() => {
    rig = new Rig()
  })
  afterEach(() => rig.close(), 30_000)

  it('hold for processors, processes and memory', async () => {
    const place = rig.place('limited')
    const forks = `
import os, signal
pids = []
try:
    for i in range(40):
        pid = os.fork()
        if pid == 0: signal.pause()
        pids.append(pid)
except OSError:
    print('refused', flush=True)
for pid in pids:
    os.kill(pid, 9)
    os.waitpid(pid, 0)
`
    const script = `
      python3 -c "$FORKS"
      python3 -c 'bytearray(200000000)' || echo "ended with $?"
      echo busy; exec python3 -c 'while True: pass'`
    const env = { PATH: '/usr/bin:/bin', FORKS: forks }
    const limits = { ...LIMITS, memoryMb: 128, cpuCores: 0.25, pids: 20 }
    const run = await rig.start(place, ['sh', '-c', script], { env, limits })
    await until('the busy part', async () => (await texts(place)).includes('busy'))
    expect(await texts(place)).toEqual(['refused', 'ended with 137', 'busy'])
    await run.stats()
    await new Promise((resolve) => setTimeout(resolve, 2000)) // the time over which the processor is measured
    const stats = await run.stats()
    expect(stats.cpuCores).toBeGreaterThan(0.02)
    expect(stats.cpuCores).toBeLessThan(0.35)
    expect(stats.processes).toBeLessThanOrEqual(20)
    await run.signal('SIGKILL')
    const exit = await run.exited
    expect(exit).toMatchObject({ signal: 'SIGKILL' })
    const group = base?.version === 2 ? base.dir : Object.values(base?.dirs ?? {})[0]
    await until('its group is gone', async () => !existsSync(join(group ?? '', `panel-${exit.launchId}`)))
  }, 30_000)
})

describe('a process number that belongs to another process by now', () => {
  it('gets no signal, and is no part of the run', async () => {
    const stranger = spawn('sleep', ['60'], { detached: true, stdio: 'ignore' })
    const pid = stranger.pid ?? 0
    const start = processFacts(pid)?.start ?? ''
    const isolation = { uid: null, mounts: false, cgroup: null }
    const scope = { launchId: 'of-before', pid, start: String(Number(start) - 100), isolation }
    expect(signalRun(scope, 'SIGTERM')).toBe(false)
    expect(runPids(scope)).toEqual([])
    expect(await killRun(scope, systemClock)).toBe(0)
    expect(isLiving(pid)).toBe(true)
    expect(signalRun({ ...scope, start }, 'SIGKILL')).toBe(true)
    await until('its end', () => !isLiving(pid))
  })
})
