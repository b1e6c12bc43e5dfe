import { createHash } from 'node:crypto'
import { AgentFailure } from '../failure.ts'
import { noSpace } from '../files/place.ts'

/** What an archive has to be, where that is known. */
export interface Expected {
  readonly bytes: number | null
  /** In hexadecimal. */
  readonly sha1: string | null
  /** What comes at most, where the bytes are not known. */
  readonly mostBytes: number
}

/**
 * The bytes of an archive as they come: counted and hashed whether or not its reader has wanted all of them. A tar ends before its file
 * does, and one that is damaged is read no further; the hash is of all that came.
 */
export class Arrival {
  readonly #content: AsyncIterator<Uint8Array>
  readonly #expected: Expected
  readonly #report: (bytes: number) => void
  readonly #hash = createHash('sha1')
  #bytes = 0
  #first: Buffer | undefined
  #isEnded = false
  /** Whoever unpacks what came before it sees an archive that is damaged. */
  #failure: AgentFailure | undefined

  constructor(content: AsyncIterable<Uint8Array>, expected: Expected, report: (bytes: number) => void) {
    this.#content = content[Symbol.asyncIterator]()
    this.#expected = expected
    this.#report = report
  }

  get bytes(): number {
    return this.#bytes
  }

  /** The first piece, which {@link Arrival.pieces} has as well. */
  async first(): Promise<Buffer> {
    this.#first ??= await this.#next()
    return this.#first ?? Buffer.alloc(0)
  }

  /** Who stops reading in the middle leaves the rest for {@link Arrival.end}. */
  async *pieces(): AsyncGenerator<Buffer> {
    const first = this.#first
    this.#first = undefined
    if (first !== undefined) yield first
    for (let piece = await this.#next(); piece !== undefined; piece = await this.#next()) yield piece
  }

  /** Takes what is left; throws CHECKSUM for other bytes than are expected. Answers the SHA-1 of all of them. */
  async end(): Promise<string> {
    while ((await this.#next()) !== undefined);
    if (this.#failure !== undefined) throw this.#failure
    const sha1 = this.#hash.digest('hex')
    const { bytes, sha1: expected } = this.#expected
    if (bytes !== null && bytes !== this.#bytes) throw other(`it has ${this.#bytes} bytes in place of ${bytes}`)
    if (expected !== null && expected !== sha1) throw other(`its SHA-1 is ${sha1} in place of ${expected}`)
    return sha1
  }

  /** Nothing more is wanted; the connection ends. */
  close(): void {
    this.#isEnded = true
    void Promise.resolve(this.#content.return?.()).catch(() => {}) // whatever it says, nobody reads it
  }

  #fail(failure: AgentFailure): AgentFailure {
    this.#isEnded = true
    this.#failure ??= failure
    return failure
  }

  async #next(): Promise<Buffer | undefined> {
    if (this.#isEnded) return undefined
    const { done, value } = await this.#content.next().catch((error: unknown) => {
      throw this.#fail(error instanceof AgentFailure ? error : cutOff(error))
    })
    if (done === true) {
      this.#isEnded = true
      return undefined
    }
    this.#bytes += value.length
    const { bytes, mostBytes } = this.#expected
    if (bytes !== null && this.#bytes > bytes) throw this.#fail(other(`it has more than ${bytes} bytes`))
    if (this.#bytes > mostBytes) throw this.#fail(noSpace())
    this.#hash.update(value)
    this.#report(this.#bytes)
    return Buffer.from(value.buffer, value.byteOffset, value.length)
  }
}

/** The source, or the way to it, has failed. */
export function cutOff(error: unknown): AgentFailure {
  const reason = error instanceof Error ? error.message.slice(0, 200) : 'it ended'
  return new AgentFailure('INTERRUPTED', `The archive has not come as a whole: ${reason}`, { cause: error })
}

function other(reason: string): AgentFailure {
  return new AgentFailure('CHECKSUM', `The archive is not the one that was expected: ${reason}`)
}
