/** What stands in place of a secret. */
const MASK = Buffer.from('********')
/** Shorter values stand in too many other words: to mask them would ruin the log and give them away. */
const SHORTEST_BYTES = 4

/**
 * Masks values in a stream of bytes, wherever it is cut. What may be the beginning of a value waits for what follows; it is
 * shorter than the longest value.
 */
export class SecretMask {
  private readonly secrets: readonly Buffer[]
  private held: Buffer = Buffer.alloc(0)

  constructor(values: readonly string[]) {
    this.secrets = [...new Set(values)]
      .map((value) => Buffer.from(value))
      .filter((bytes) => bytes.length >= SHORTEST_BYTES)
      .sort((a, b) => b.length - a.length)
  }

  /** What may be shown now of all that has come so far. */
  push(chunk: Buffer): Buffer {
    if (this.secrets.length === 0) return chunk
    return this.take(this.held.length === 0 ? chunk : Buffer.concat([this.held, chunk]), false)
  }

  /** What waited: the stream is over. */
  end(): Buffer {
    return this.take(this.held, true)
  }

  private take(bytes: Buffer, isLast: boolean): Buffer {
    const parts: Buffer[] = []
    const places = this.secrets.map((secret) => ({ secret, at: -1 }))
    // A short value may be the beginning of a longer one of which the rest is still to come.
    const certain = isLast ? bytes.length : bytes.length - this.beginning(bytes)
    let at = 0
    for (let found = next(bytes, at, places); found !== undefined && found.at < certain; ) {
      parts.push(bytes.subarray(at, found.at), MASK)
      at = found.at + found.secret.length
      found = next(bytes, at, places)
    }
    const rest = bytes.subarray(at)
    const waits = isLast ? 0 : this.beginning(rest)
    this.held = Buffer.from(rest.subarray(rest.length - waits))
    return Buffer.concat([...parts, rest.subarray(0, rest.length - waits)])
  }

  /** How many bytes at the end may be the beginning of a value. */
  private beginning(bytes: Buffer): number {
    let longest = 0
    for (const secret of this.secrets) {
      for (let length = Math.min(secret.length - 1, bytes.length); length > longest; length--) {
        if (bytes.subarray(bytes.length - length).equals(secret.subarray(0, length))) longest = length
      }
    }
    return longest
  }
}

/** A value and where it stands next; at or behind the end of the bytes where it does not. */
interface Occurrence {
  readonly secret: Buffer
  at: number
}

/** The first value from here on; of two at one place the longer one. Each value is looked for once behind its last place. */
function next(bytes: Buffer, from: number, places: readonly Occurrence[]): Occurrence | undefined {
  let first: Occurrence | undefined
  for (const place of places) {
    if (place.at < from) {
      const at = bytes.indexOf(place.secret, from)
      place.at = at < 0 ? bytes.length : at
    }
    if (place.at < bytes.length && (first === undefined || place.at < first.at)) first = place
  }
  return first
}
