import type { Clock } from '../../shared/kernel/time.ts'

/** The share of a server's own processors that may go into reading its output. */
const SHARE = 0.25
/** Seconds of work that may be done at once: what a server says when it starts is read at full speed. */
const BURST_SECONDS = 0.5
const LONGEST_PAUSE_MS = 200

/**
 * Paces the reading of a server's output. The holder works outside of the server's limits; a game that writes without end
 * would have it work without end. Over its budget of processor time it leaves the output unread for a moment: the pipe
 * fills, and the game waits in its write. Nothing is lost.
 */
export class ReadingBudget {
  private readonly clock: Clock
  private readonly share: number
  private readonly cpuSeconds: () => number
  private saved = BURST_SECONDS
  private at: number
  private used: number

  /** `cpuCores` of 0 or less is no limit; `cpuSeconds` is what this process has used of processors so far. */
  constructor(cpuCores: number, clock: Clock, cpuSeconds: () => number = ownCpuSeconds) {
    this.clock = clock
    this.share = cpuCores > 0 ? cpuCores * SHARE : Number.POSITIVE_INFINITY
    this.cpuSeconds = cpuSeconds
    this.at = clock.monotonicMs()
    this.used = cpuSeconds()
  }

  /** Milliseconds to leave the outputs unread now; 0 while there is budget left. */
  pauseMs(): number {
    if (this.share === Number.POSITIVE_INFINITY) return 0
    const [now, used] = [this.clock.monotonicMs(), this.cpuSeconds()]
    const earned = ((now - this.at) / 1000) * this.share
    this.saved = Math.min(BURST_SECONDS, this.saved + earned) - (used - this.used)
    this.at = now
    this.used = used
    if (this.saved >= 0) return 0
    return Math.min(LONGEST_PAUSE_MS, Math.ceil((-this.saved / this.share) * 1000))
  }
}

function ownCpuSeconds(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}
