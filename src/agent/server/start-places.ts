import type { Clock } from '../../shared/kernel/time.ts'

/** How many servers a node starts at the same time by itself, unless its settings say otherwise. */
export const STARTS_AT_ONCE = 4
/** A start that takes longer gives its place to the next one, and goes on: as long as a start without a ready rule takes. */
const MOST_HELD_MS = 120_000

/** The place of one start; releasing it twice is the same as once. */
export interface StartPlace {
  release(): void
}

/** Which start comes first: the lower order, then the name. */
export interface StartRank {
  readonly order: number
  readonly name: string
  readonly id: string
}

interface Waiting {
  readonly rank: StartRank
  readonly grant: (place: StartPlace) => void
  /** Called once when others come first; `undefined` afterwards. */
  queued: (() => void) | undefined
}

/**
 * Lets a node start so many servers at the same time by itself: after a restart of the machine, and after crashes. Who waits is let in by
 * rank. An order of a person waits for nobody: it takes a place at once, and what the node starts by itself waits for it.
 */
export class StartPlaces {
  readonly atOnce: number
  readonly #clock: Clock
  readonly #held = new Set<StartPlace>()
  readonly #waiting: Waiting[] = []
  #isGranting = false

  constructor(clock: Clock, atOnce = STARTS_AT_ONCE) {
    this.#clock = clock
    this.atOnce = atOnce
  }

  /** A place for an order, at once. */
  take(): StartPlace {
    const over = new AbortController()
    const place: StartPlace = {
      release: () => {
        over.abort()
        if (this.#held.delete(place)) this.#grantSoon()
      },
    }
    this.#held.add(place)
    void this.#clock.sleep(MOST_HELD_MS, over.signal).then(place.release)
    return place
  }

  /**
   * Waits for a place; `undefined` when `signal` aborts first. Those that begin to wait in the same turn are let in by rank; `queued` is
   * called when others come first.
   */
  wait(rank: StartRank, signal: AbortSignal, queued: () => void): Promise<StartPlace | undefined> {
    return new Promise((resolve) => {
      const leave = (): void => {
        const at = this.#waiting.indexOf(waiting)
        if (at !== -1) this.#waiting.splice(at, 1)
        resolve(undefined)
      }
      const waiting: Waiting = {
        rank,
        queued,
        grant: (place) => {
          signal.removeEventListener('abort', leave)
          resolve(place)
        },
      }
      if (signal.aborted) return resolve(undefined)
      signal.addEventListener('abort', leave, { once: true })
      this.#waiting.push(waiting)
      this.#grantSoon()
    })
  }

  #grantSoon(): void {
    if (this.#isGranting) return
    this.#isGranting = true
    queueMicrotask(() => {
      this.#isGranting = false
      this.#grant()
    })
  }

  #grant(): void {
    while (this.#held.size < this.atOnce) {
      const first = this.#waiting.sort((a, b) => compare(a.rank, b.rank)).shift()
      if (first === undefined) return
      first.grant(this.take())
    }
    for (const waiting of this.#waiting) {
      waiting.queued?.()
      waiting.queued = undefined
    }
  }
}

function compare(a: StartRank, b: StartRank): number {
  if (a.order !== b.order) return a.order - b.order
  if (a.name !== b.name) return a.name < b.name ? -1 : 1
  return a.id < b.id ? -1 : 1
}
