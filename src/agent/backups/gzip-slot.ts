import { constants, createGzip, type Gzip, type ZlibReset } from 'node:zlib'
import { collectAfter } from '../../shared/platform/collect.ts'

/** Pieces of what is compressed: small ones, so that what is used up is collected before it is much. */
const PIECE_BYTES = 8 * 1024

/**
 * Compresses one buffer after the other with one compressor into the same memory: a fresh one for each leaves tens of mebibytes for the
 * collector, which counts memory outside its heap late.
 */
export class GzipSlot {
  readonly #gzip: Gzip & ZlibReset
  readonly #out: Buffer
  #used = 0
  #fail: (error: Error) => void = () => {}

  /** For buffers of at most `most` bytes. */
  constructor(level: number, most: number) {
    this.#gzip = createGzip({ level, chunkSize: PIECE_BYTES }) as Gzip & ZlibReset // every compressor of zlib can begin anew
    // What cannot be made smaller grows by five bytes for each 16 KiB, beside head and end.
    this.#out = Buffer.allocUnsafeSlow(most + (most >> 10) + 1024)
    this.#gzip.on('data', (piece: Buffer) => {
      this.#used += piece.copy(this.#out, this.#used)
    })
    this.#gzip.on('error', (error) => this.#fail(error))
  }

  /** One member; it is what this answers until the next call. */
  async compress(content: Buffer): Promise<Buffer> {
    this.#used = 0
    await new Promise<void>((resolve, reject) => {
      this.#fail = reject
      this.#gzip.write(content)
      // The last pieces are given out after this.
      this.#gzip.flush(constants.Z_FINISH, () => setImmediate(resolve))
    })
    this.#gzip.reset()
    collectAfter(this.#used)
    const member = this.#out.subarray(0, this.#used)
    if (this.#used < 18 || member.readUInt32LE(this.#used - 4) !== content.length) {
      throw new Error('zlib has not given all of a member')
    }
    return member
  }

  close(): void {
    this.#gzip.close()
  }
}
