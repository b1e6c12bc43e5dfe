/** Pieces of a file have at least, about and at most so many bytes. */
export const CHUNK_BYTES = { least: 256 * 1024, usual: 1024 * 1024, most: 2 * 1024 * 1024 } as const

/** Before the usual size a cut is one of 4 Mi places, behind it one of 256 Ki: most pieces end near it. */
const RARE = 0xfffffc00 | 0
const OFTEN = 0xffffc000 | 0
const GEAR = gears()

/**
 * Cuts a file into pieces at places that its bytes name (FastCDC: a rolling hash over the last 32 bytes), so that what is inserted in
 * the middle changes the pieces around it and not all behind it. The table below belongs to the format: with another one nothing that is
 * stored would be found again.
 */
export class Chunker {
  readonly #buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES.most)
  #used = 0
  #hash = 0

  /**
   * Takes a piece of the file and calls `take` for each chunk that ends in it, with a buffer that is used again afterwards.
   */
  async write(piece: Buffer, take: (chunk: Buffer) => Promise<void>): Promise<void> {
    for (let at = 0; at < piece.length; ) {
      const end = this.#cut(piece, at)
      piece.copy(this.#buffer, this.#used, at, end.at)
      this.#used += end.at - at
      at = end.at
      if (end.isCut) await this.#give(take)
    }
  }

  /** The rest of the file is the last chunk. */
  async end(take: (chunk: Buffer) => Promise<void>): Promise<void> {
    if (this.#used > 0) await this.#give(take)
  }

  async #give(take: (chunk: Buffer) => Promise<void>): Promise<void> {
    const chunk = this.#buffer.subarray(0, this.#used)
    this.#used = 0
    this.#hash = 0
    await take(chunk)
  }

  #cut(piece: Buffer, from: number): { readonly at: number; readonly isCut: boolean } {
    const { least, usual, most } = CHUNK_BYTES
    const end = Math.min(piece.length, from + most - this.#used)
    /** Where in the piece the chunk has so many bytes. */
    const placeOf = (bytes: number): number => Math.min(end, Math.max(from, from + bytes - this.#used))
    // The hash knows the last 32 bytes alone: what is before them in the least size need not be looked at.
    let at = placeOf(least - 32)
    let hash = this.#hash
    for (const [until, mask, mayCut] of [
      [placeOf(least), 0, false],
      [placeOf(usual), RARE, true],
      [end, OFTEN, true],
    ] as const) {
      for (; at < until; at++) {
        hash = ((hash << 1) + (GEAR[piece[at] ?? 0] ?? 0)) | 0
        if (mayCut && (hash & mask) === 0) return { at: at + 1, isCut: true }
      }
    }
    this.#hash = hash
    return { at: end, isCut: this.#used + end - from === most }
  }
}

/** A number for each byte, from a generator (xorshift) with a fixed beginning. */
function gears(): Int32Array {
  const table = new Int32Array(256)
  let state = 0x9e3779b9 | 0
  for (let at = 0; at < table.length; at++) {
    for (let round = 0; round < 4; round++) {
      state ^= state << 13
      state ^= state >>> 17
      state ^= state << 5
    }
    table[at] = state
  }
  return table
}
