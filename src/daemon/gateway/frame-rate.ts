import type { Clock } from '../../shared/kernel/time.ts'

/** Why a connection was closed whose agent sends too many frames; an agent waits and comes back. */
export const TOO_MANY_FRAMES = 4429

const SECOND = 1000
/** What a command has an agent send at most: that it has it, four states of its server where it is started again, and the end. */
const FRAMES_OF_COMMAND = 6
/** Those of a thousand commands: more than are under way together. */
const MOST_ANSWERS = 6000

/** Counts the frames of one connection, second by second. Those that answer the daemon's own commands may be more than the rest: how many come is up to the daemon. */
export class FrameRate {
  readonly #clock: Clock
  #beganMs = Number.NEGATIVE_INFINITY
  #count = 0
  #answers = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** A command was sent. */
  commanded(): void {
    this.#answers = Math.min(this.#answers + FRAMES_OF_COMMAND, MOST_ANSWERS)
  }

  /** Counts one frame; false when this second has had `most` already, and no answers to commands are missing. */
  take(most: number): boolean {
    const now = this.#clock.monotonicMs()
    if (now - this.#beganMs >= SECOND) {
      this.#beganMs = now
      this.#count = 0
    }
    this.#count += 1
    if (this.#count <= most) return true
    if (this.#answers === 0) return false
    this.#answers -= 1
    return true
  }
}
