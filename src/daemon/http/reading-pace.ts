import type { Socket } from 'node:net'
import type { ShortReads } from '../core/short-reads.ts'

/** So many requests that are answered from what is stored are worked on at once before further ones wait. */
const MOST = 40
/** Nobody waits longer than twice this for requests of others, which may take long. */
const LONGEST_MS = 100

/**
 * Where hundreds of connections ask all the time, the next requests of those that have just got an answer are read a few at a time: what waits for its turn
 * waits in the kernel, and is no request yet that V8 would have to copy in each of its collections. A connection that asks nothing more
 * waits for nobody, and nobody for it.
 */
export class ReadingPace {
  readonly #reads: ShortReads
  #waiting: Socket[] = []
  #isPlanned = false
  /** How many wait since the last look already. */
  #before = 0
  #timer: NodeJS.Timeout | undefined

  constructor(reads: ShortReads) {
    this.#reads = reads
    reads.onEnd = () => this.#plan()
  }

  /** A request of this connection that was answered from what is stored is over. */
  answered(connection: Socket): void {
    if (this.#reads.underWay < MOST && this.#waiting.length === 0) return
    if (connection.destroyed || connection.isPaused()) return
    connection.pause()
    this.#waiting.push(connection)
    this.#timer ??= setTimeout(() => this.#look(), LONGEST_MS).unref()
    this.#plan()
  }

  /** In each turn of the event loop as many go on as there is room for; those that ask nothing take none. Without room the next end makes some. */
  #plan(): void {
    if (this.#isPlanned || this.#waiting.length === 0 || this.#reads.underWay >= MOST) return
    this.#isPlanned = true
    setImmediate(() => {
      this.#isPlanned = false
      this.#resume(Math.max(MOST - this.#reads.underWay, 0))
      this.#plan()
    })
  }

  /** Those that have waited since the look before go on. */
  #look(): void {
    this.#resume(this.#before)
    this.#before = this.#waiting.length
    this.#timer = this.#before === 0 ? undefined : setTimeout(() => this.#look(), LONGEST_MS).unref()
  }

  #resume(count: number): void {
    for (const connection of this.#waiting.splice(0, count)) connection.resume()
    this.#before = Math.max(this.#before - count, 0)
  }
}
