// @module-tag long
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { DiskUsage } from '../../src/agent/disk/disk-usage.ts'
import { type Clock, systemClock } from '../../src/shared/kernel/time.ts'

const ROOMY = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()
/** Of one core, on average. */
const MOST_SHARE = 0.02

it('a server with a million files costs less than 2 % of a core, and nobody waits for its count', async () => {
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
