import type { Clock, IsoTime } from '../../../../shared/kernel/time.ts'
import type { Log } from '../../../core/log.ts'
import type { Db, Tx } from '../../../db/db.ts'

/** Nodes that come back come within moments of each other. */
const QUIET_MS = 1000
const MOST_WAITS = 60
/** Servers that are written in one transaction. */
const PART = 500

interface SeenAgainDeps {
  readonly db: Pick<Db, 'write'>
  readonly clock: Clock
  readonly log: Log
  /** Writes that these servers were observed as they were. */
  readonly touch: (tx: Tx, serverIds: readonly string[], at: IsoTime) => Promise<void>
}

/**
 * Servers that were observed as they had been: that this was so is written when no more nodes come in, or after a minute. Hundreds of nodes with thousands of
 * servers come back in the same moment, and then have better things to wait for than a time that is shown.
 */
export class SeenAgain {
  readonly #deps: SeenAgainDeps
  readonly #waiting = new Map<string, IsoTime>()
  #isWriting = false

  constructor(deps: SeenAgainDeps) {
    this.#deps = deps
  }

  /** They were observed then; `signal` ends the waiting, and then it is not written. */
  add(serverIds: readonly string[], at: IsoTime, signal: AbortSignal | undefined): void {
    for (const id of serverIds) this.#waiting.set(id, at)
    if (this.#waiting.size === 0 || this.#isWriting) return
    this.#isWriting = true
    void this.#writeLater(signal)
  }

  async #writeLater(signal: AbortSignal | undefined): Promise<void> {
    const { clock, db, log, touch } = this.#deps
    try {
      let known = -1
      for (let waits = 0; waits < MOST_WAITS && this.#waiting.size !== known; waits++) {
        known = this.#waiting.size
        await clock.sleep(QUIET_MS, signal)
      }
      while (this.#waiting.size > 0 && signal?.aborted !== true) {
        const part = [...this.#waiting].slice(0, PART)
        const earliest = part.reduce((least, [, at]) => (at < least ? at : least), part[0]?.[1] as IsoTime) // of one at least
        for (const [id] of part) this.#waiting.delete(id)
        await db.write((tx) => touch(tx, part.map(([id]) => id), earliest), { isLast: true }) // biome-ignore format: one line
      }
    } catch (err) {
      log.warn(
        { err, servers: this.#waiting.size },
        'cannot record when servers were observed; the next report records it',
      )
      this.#waiting.clear()
    } finally {
      this.#isWriting = false
    }
  }
}
