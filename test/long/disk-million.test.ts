import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
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

it('growth that is others’ has a server near its limit counted seldom enough', async () => {
  const { DiskUsage }: DiskUsageModule = await import(join(DIST, 'src/agent/disk/disk-usage.js'))
  const files = mkdtempSync(join(ROOMY, 'panel-near-'))
  const LIMIT_MB = 10
  // As many times as a folder of a million files has the processor for 15 s with a limit of 10 GiB, whose neighbours write 10 MiB/s.
  const [COUNT_CPU_SECONDS, SHARE_PER_SECOND, SECONDS] = [15, 0.001, 12 * 3600]
  let nowMs = 0
  const clock: Clock = { ...systemClock, monotonicMs: () => nowMs }
  const usage = new DiskUsage(clock)
  const server = { id: 'srv_near', files, running: true, limitMb: LIMIT_MB }
  const { signal } = new AbortController()
  try {
    writeFileSync(join(files, 'world'), Buffer.alloc(Math.floor(LIMIT_MB * 0.8995 * 1024 * 1024), 1))
    await usage.measure(server, signal)
    let counts = 0
    for (let second = 0; second < SECONDS; second += 2) {
      nowMs += 2000
      const before = usage.isDue(server.id)
      usage.suspect(server.id, second * SHARE_PER_SECOND * LIMIT_MB, LIMIT_MB * 0.9)
      // The regular counts are bounded by the time that they take; here they take none.
      if (before || !usage.isDue(server.id)) continue
      counts++
      await usage.measure(server, signal)
    }
    const share = (counts * COUNT_CPU_SECONDS) / SECONDS
    process.stderr.write(`${counts} counts in 12 h, ${(share * 100).toFixed(2)} % of a core\n`)
    expect(counts).toBeGreaterThan(0)
    expect(share).toBeLessThan(MOST_SHARE)
  } finally {
    rmSync(files, { recursive: true, force: true })
  }
})
