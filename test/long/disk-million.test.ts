// @module-tag long
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { type Clock, systemClock } from '../../src/shared/kernel/time.ts'
import { DIST } from '../run-panel.ts'

type DiskUsageModule = typeof import('../../src/agent/disk/disk-usage.ts')

const ROOMY = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()
/** Of one core, on average. */
const MOST_SHARE = 0.02

it('a server with a million files costs less than 2 % of a core, and nobody waits for its count', async () => {
  // As it was built: it counts in a thread, whose main file is compiled.
  const { DiskUsage }: DiskUsageModule = await import(join(DIST, 'src/agent/disk/disk-usage.js'))
  const files = mkdtempSync(join(ROOMY, 'panel-million-'))
  let laterMs = 0
  const clock: Clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + laterMs }
  try {
    const make = 'for d in $(seq 1000); do mkdir $d; (cd $d && seq -f f%.0f 1000 | xargs touch); done'
    execFileSync('/bin/sh', ['-c', make], { cwd: files })
    const usage = new DiskUsage(clock)
    let turns = 0
    const turning = setInterval(() => turns++, 10)
    const before = process.cpuUsage()
    const began = performance.now()
    await usage.measure({ id: 'srv', files, running: true, limitMb: 100_000 }, new AbortController().signal)
    const { user, system } = process.cpuUsage(before)
    clearInterval(turning)
    const cpuMs = (user + system) / 1000
    const wallMs = performance.now() - began
    process.stderr.write(`1,000,000 files: ${Math.round(cpuMs)} ms of a processor in ${Math.round(wallMs)} ms\n`)
    laterMs = cpuMs / MOST_SHARE - wallMs - cpuMs * 0.1
    expect(usage.isDue('srv')).toBe(false)
    laterMs = Math.max(cpuMs * 80, wallMs * 25) + 60_000
    expect(usage.isDue('srv')).toBe(true)
    expect(turns).toBeGreaterThan(wallMs / 100)
  } finally {
    rmSync(files, { recursive: true, force: true })
  }
}, 300_000)

it('growth that is others’ has a server just below its limit counted seldom enough', async () => {
  const { DiskUsage }: DiskUsageModule = await import(join(DIST, 'src/agent/disk/disk-usage.js'))
  const files = mkdtempSync(join(tmpdir(), 'panel-near-'))
  const LIMIT_MB = 1000
  // As a million files need it: so much of a processor, and three times that until it is done on a busy machine.
  const [COUNT_CPU_SECONDS, COUNT_SECONDS] = [15, 45]
  const NEIGHBOURS_MB_PER_SECOND = 1
  const SECONDS = 24 * 3600
  let nowMs = 0
  const clock: Clock = { ...systemClock, monotonicMs: () => nowMs }
  const usage = new DiskUsage(clock)
  let counts = 0
  const count = async (): Promise<void> => {
    counts++
    const counted = usage.measure(
      { id: 'srv_near', files, running: true, limitMb: LIMIT_MB },
      new AbortController().signal,
    )
    nowMs += COUNT_SECONDS * 1000
    await counted
  }
  try {
    execFileSync('fallocate', ['-l', `${Math.floor(LIMIT_MB * 0.8995 * 1024)}KiB`, join(files, 'world')])
    await count()
    expect(usage.countedMb('srv_near')).toBeCloseTo(899.5, 0)
    while (nowMs < SECONDS * 1000) {
      nowMs += 2000
      usage.suspect('srv_near', (nowMs / 1000) * NEIGHBOURS_MB_PER_SECOND, LIMIT_MB * 0.9)
      if (usage.isDue('srv_near')) await count()
    }
    const share = (counts * COUNT_CPU_SECONDS) / SECONDS
    process.stderr.write(`${counts} counts in a day, ${(share * 100).toFixed(2)} % of a core\n`)
    expect(share).toBeLessThan(MOST_SHARE)
    // It is found all the same when the growth was its own.
    execFileSync('fallocate', ['-l', `${Math.floor(LIMIT_MB * 0.99 * 1024)}KiB`, join(files, 'world')])
    await count()
    usage.suspect('srv_near', 0, LIMIT_MB * 1.05)
    usage.suspect('srv_near', LIMIT_MB * 0.06 * 64, LIMIT_MB * 1.05)
    expect(usage.isDue('srv_near')).toBe(true)
  } finally {
    rmSync(files, { recursive: true, force: true })
  }
})
