import type { Clock } from '../../shared/kernel/time.ts'
import { FolderCounter } from './measure.ts'

const SHORTEST_MS = 60_000
/** What the kernel holds is counted as well, because a program with the right to may have its files counted elsewhere. */
const HELD_MS = 10 * 60_000
/** A server that does not run changes its files seldom. */
const IDLE_MS = 30 * 60_000
/** A count takes its time once, and so much processor time in so many times that. */
const TIME_FACTOR = 20
const CPU_FACTOR = 60
/** After this share of its pause a server is counted as soon as another one is due: one count of many wakes the agent once. */
const NEAR_SHARE = 2 / 3

const MIB = 1024 * 1024
/** A server that uses so many times its limit is over it, whatever else there is to count. */
const ENOUGH_SHARE = 2
/** A count that growth of the file system has asked for in vain makes the next one wait for so much more growth, up to a bound. */
const DOUBT_FACTOR = 2
const MOST_DOUBT = 64
/** Growth by less than this share of its limit has no server counted: just below it, others' files would have it done all the time. */
const LEAST_SHARE = 0.02
/** Growth of less than this share of what was suspected was in vain. */
const FRUIT_SHARE = 0.25

/** What is to be measured. */
interface MeasuredServer {
  readonly id: string
  readonly files: string
  readonly running: boolean
  /** 0 or less: there is none. */
  readonly limitMb: number
  /** The kernel holds it to its limit. */
  readonly isHeld?: boolean
}

interface Measured {
  /** At the last count. */
  usedMb: number
  nextAtMs: number
  /** From when on it may be counted with others. */
  readonly nearAtMs: number
  /** The least that the file system has held since the last count, in MiB; `null` before it was looked at. */
  leastMb: number | null
  doubt: number
  /** The next count is asked for by growth of the file system. */
  isSuspected: boolean
}

/**
 * Disk use of servers by counting their files, one server at a time. Counting costs, so a server waits for its next turn by what
 * the last one has cost; when the file system has grown by as much as a server has left, its turn comes at once.
 */
export class DiskUsage {
  readonly #clock: Clock
  readonly #counter = new FolderCounter()
  /** For what is suspected: it does not wait behind a folder of a million files. */
  readonly #urgent = new FolderCounter()
  readonly #measured = new Map<string, Measured>()
  /** What the kernel counts, for servers that it holds. */
  readonly #counted = new Map<string, number>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** MiB as far as it is known: the last count, or the kernel's number where that is newer. `null` before both. */
  usedMb(serverId: string): number | null {
    return this.#counted.get(serverId) ?? this.countedMb(serverId)
  }

  /** MiB at the last count of the files; `null` before the first. */
  countedMb(serverId: string): number | null {
    return this.#measured.get(serverId)?.usedMb ?? null
  }

  /** Takes what the kernel counts for a server; `null`: nothing. */
  setKernelMb(serverId: string, usedMb: number | null): void {
    if (usedMb === null) this.#counted.delete(serverId)
    else this.#counted.set(serverId, usedMb)
  }

  isDue(serverId: string): boolean {
    const measured = this.#measured.get(serverId)
    return measured === undefined || this.#clock.monotonicMs() >= measured.nextAtMs
  }

  /** Whether it may as well be counted when others are. */
  isNearlyDue(serverId: string): boolean {
    const measured = this.#measured.get(serverId)
    return this.isDue(serverId) || (measured !== undefined && this.#clock.monotonicMs() >= measured.nearAtMs)
  }

  /**
   * Takes how much the file system holds now. Has a server counted at once when all that came since its last count could be its
   * own and would lead above `boundMb`.
   */
  suspect(serverId: string, fileSystemMb: number, boundMb: number): void {
    const measured = this.#measured.get(serverId)
    if (measured === undefined) return
    if (measured.leastMb === null || fileSystemMb < measured.leastMb) measured.leastMb = fileSystemMb
    const grownMb = fileSystemMb - measured.leastMb
    const leftMb = Math.max(1, LEAST_SHARE * boundMb, boundMb - measured.usedMb)
    if (grownMb < leftMb * measured.doubt) return
    measured.nextAtMs = 0
    measured.isSuspected = true
  }

  /** Counts the files of a server. Rejects when the folder cannot be read. */
  async measure(server: MeasuredServer, signal: AbortSignal): Promise<number> {
    const began = this.#clock.monotonicMs()
    const before = this.#measured.get(server.id)
    const enoughBytes = server.limitMb > 0 ? ENOUGH_SHARE * server.limitMb * MIB : Infinity
    const counter = before?.isSuspected === true ? this.#urgent : this.#counter
    const { bytes, cpuMs } = await counter.count({ folder: server.files, enoughBytes }, signal)
    const usedMb = bytes / MIB
    const endedAtMs = this.#clock.monotonicMs()
    const shortest = server.running ? (server.isHeld === true ? HELD_MS : SHORTEST_MS) : IDLE_MS
    const costMs = Math.max(TIME_FACTOR * (endedAtMs - began), CPU_FACTOR * cpuMs)
    const doubt = before === undefined ? 1 : doubtAfter(before, usedMb, server.limitMb)
    this.#measured.set(server.id, {
      usedMb,
      nextAtMs: endedAtMs + Math.max(shortest, costMs),
      nearAtMs: endedAtMs + Math.max(shortest * NEAR_SHARE, costMs),
      leastMb: null,
      doubt,
      isSuspected: false,
    })
    return usedMb
  }

  /** The next look at this server is due now: it was started, stopped or installed. */
  expire(serverId: string): void {
    const measured = this.#measured.get(serverId)
    if (measured !== undefined) measured.nextAtMs = 0
  }

  forget(serverId: string): void {
    this.#measured.delete(serverId)
    this.#counted.delete(serverId)
  }
}

/** What the file system has grown by was others' when the server has not grown with it. */
function doubtAfter({ usedMb: before, doubt, isSuspected }: Measured, usedMb: number, limitMb: number): number {
  if (!isSuspected) return doubt
  const leftMb = Math.max(1, limitMb - before)
  return usedMb - before >= FRUIT_SHARE * leftMb ? 1 : Math.min(MOST_DOUBT, doubt * DOUBT_FACTOR)
}
