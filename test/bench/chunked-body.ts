const LF = 10

/** Takes a response apart, as it comes: gives away the bytes of its chunks, in pieces that are only valid during the call. */
export class ChunkedBody {
  readonly #give: (bytes: Buffer) => void
  #isHead = true
  /** A line of the head, or the size of a chunk, that has not ended yet. */
  #line = ''
  /** What is left of the chunk. */
  #left = 0

  constructor(give: (bytes: Buffer) => void) {
    this.#give = give
  }

  take(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      if (this.#left === 0) {
        at = this.#readLine(bytes, at)
        continue
      }
      const length = Math.min(this.#left, bytes.length - at)
      this.#left -= length
      this.#give(bytes.subarray(at, at + length))
      at += length
    }
  }

  #readLine(bytes: Buffer, at: number): number {
    const end = bytes.indexOf(LF, at)
    this.#line += bytes.toString('latin1', at, end < 0 ? bytes.length : end)
    if (end < 0) return bytes.length
    const line = this.#line.trim()
    this.#line = ''
    if (this.#isHead) this.#isHead = line !== ''
    // An empty line ends a chunk.
    else if (line !== '') this.#left = Number.parseInt(line, 16)
    return end + 1
  }
}
