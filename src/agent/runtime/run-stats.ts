import type { Clock } from '../../shared/kernel/time.ts'
import { cgroupUsage } from '../holder/cgroup.ts'
import { diskBytes, type ProcessFacts, processFacts } from '../holder/proc.ts'
import { type RunScope, runPids } from '../holder/run-processes.ts'
import type { ProcessTable } from './process-table.ts'
import type { RunStats } from './runtime.ts'

const MIB = 1024 * 1024

/** Measures one run over its life: counters of processes that have ended are kept, so sums never go back. */
export class StatsMeter {
  private readonly scope: RunScope
  private readonly clock: Clock
  private readonly processes: ProcessTable
  private readonly seen = new Map<string, Counters>()
  private last: { cpuSeconds: number; atMs: number } | undefined

  constructor(scope: RunScope, at: { readonly clock: Clock; readonly processes: ProcessTable }) {
    this.scope = scope
    this.clock = at.clock
    this.processes = at.processes
  }

  /** CPU as cores used since the last call (`null` on the first), memory now, bytes since this meter began to look. */
  measure(): RunStats {
    const { cgroup } = this.scope.isolation
    const facts = runPids(this.scope, this.processes.now()).flatMap((pid) => processFacts(pid) ?? [])
    for (const one of facts) this.count(one)
    const sums = this.sums()
    const usage = cgroup === null ? { cpuSeconds: null, memoryBytes: null } : cgroupUsage(cgroup)
    const memory = usage.memoryBytes ?? facts.reduce((sum, one) => sum + one.rssBytes, 0)
    return {
      cpuCores: this.coresSinceLast(usage.cpuSeconds ?? sums.cpuSeconds),
      memoryMb: Math.round((memory / MIB) * 10) / 10,
      ioReadBytes: sums.known ? String(sums.read) : null,
      ioWriteBytes: sums.known ? String(sums.write) : null,
      networkRxBytes: null,
      networkTxBytes: null,
      processes: facts.length,
    }
  }

  private coresSinceLast(cpuSeconds: number): number | null {
    const atMs = this.clock.monotonicMs()
    const before = this.last
    this.last = { cpuSeconds, atMs }
    if (before === undefined || atMs <= before.atMs) return null
    const cores = (cpuSeconds - before.cpuSeconds) / ((atMs - before.atMs) / 1000)
    return Math.max(0, Math.round(cores * 1000) / 1000)
  }

  private count(one: ProcessFacts): void {
    const disk = diskBytes(one.pid)
    const key = `${one.pid} ${one.start}`
    const before = this.seen.get(key)
    this.seen.set(key, {
      cpuSeconds: one.cpuSeconds,
      read: disk?.read ?? before?.read ?? 0,
      write: disk?.write ?? before?.write ?? 0,
      known: disk !== undefined || before?.known === true,
    })
    if (this.seen.size > 4096) this.fold(new Set([key]))
  }

  /** A run that starts processes without end does not make this grow: those that ended become one entry. */
  private fold(keep: ReadonlySet<string>): void {
    const gone = { cpuSeconds: 0, read: 0, write: 0, known: true }
    for (const [key, one] of this.seen) {
      const [pid, start] = key.split(' ')
      if (keep.has(key) || (pid !== 'gone' && processFacts(Number(pid))?.start === start)) continue
      gone.cpuSeconds += one.cpuSeconds
      gone.read += one.read
      gone.write += one.write
      this.seen.delete(key)
    }
    this.seen.set('gone 0', gone)
  }

  private sums(): Counters {
    const sum = { cpuSeconds: 0, read: 0, write: 0, known: false }
    for (const one of this.seen.values()) {
      sum.cpuSeconds += one.cpuSeconds
      sum.read += one.read
      sum.write += one.write
      sum.known ||= one.known
    }
    return sum
  }
}

interface Counters {
  cpuSeconds: number
  read: number
  write: number
  known: boolean
}
