import type { Clock } from '../../shared/kernel/time.ts'
import { treeBytes } from './tree.ts'

const SHORTEST_MS = 60_000
/** A server that does not run changes its files seldom. */
const IDLE_MS = 30 * 60_000
const COST_FACTOR = 20

const MIB = 1024 * 1024
/** A server that uses so many times its limit is over it, whatever else there is to count. */
const ENOUGH_SHARE = 2

/** What is to be measured. */
interface MeasuredServer {
  readonly id: string
  readonly files: string
  readonly running: boolean
  /** 0 or less: there is none. */
  readonly limitMb: number
}

interface Measured {
  usedMb: number
  nextAtMs: number
}

/**
 * Disk use of servers by walking their folders, one at a time. A walk costs; the pause after it is twenty times as long as
 * it took, and at least a minute.
 */
export class DiskUsage {
  readonly #clock: Clock
  readonly #measured = new Map<string, Measured>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** MiB at the last walk; `null` before the first. */
  usedMb(serverId: string): number | null {
    return this.#measured.get(serverId)?.usedMb ?? null
  }

  isDue(serverId: string): boolean {
    const measured = this.#measured.get(serverId)
    return measured === undefined || this.#clock.monotonicMs() >= measured.nextAtMs
  }

  async measure(server: MeasuredServer, signal: AbortSignal): Promise<number> {
    const began = this.#clock.monotonicMs()
    const enoughBytes = server.limitMb > 0 ? ENOUGH_SHARE * server.limitMb * MIB : Infinity
    const usedMb = (await treeBytes(server.files, { signal, enoughBytes })) / MIB
    const tookMs = this.#clock.monotonicMs() - began
    const pauseMs = Math.max(server.running ? SHORTEST_MS : IDLE_MS, COST_FACTOR * tookMs)
    if (!signal.aborted) this.#measured.set(server.id, { usedMb, nextAtMs: this.#clock.monotonicMs() + pauseMs })
    return usedMb
  }

  /** The next look at this server is due now: it was started, stopped or installed. */
  expire(serverId: string): void {
    const measured = this.#measured.get(serverId)
    if (measured !== undefined) measured.nextAtMs = 0
  }

  forget(serverId: string): void {
    this.#measured.delete(serverId)
  }
}
