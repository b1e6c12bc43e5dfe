import type { Clock } from '../../shared/kernel/time.ts'

/** Why a connection was closed whose agent sends too many frames; an agent waits and comes back. */
export const TOO_MANY_FRAMES = 4429

const SECOND = 1000

/** Counts the frames of one connection, second by second. */
export class FrameRate {
  readonly #clock: Clock
  #beganMs = Number.NEGATIVE_INFINITY
  #count = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Counts one frame; false when this second has had `most` already. */
  take(most: number): boolean {
    const now = this.#clock.monotonicMs()
    if (now - this.#beganMs >= SECOND) {
      this.#beganMs = now
      this.#count = 0
    }
    this.#count += 1
    return this.#count <= most
  }
}
