/** Reads an answer of a game from its beginning to its end; reading beyond the end throws a RangeError. */
export class ByteReader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get left(): number {
    return this.#bytes.length - this.#at
  }

  take(count: number): Buffer {
    if (count < 0 || count > this.left) throw new RangeError('the answer is too short')
    this.#at += count
    return this.#bytes.subarray(this.#at - count, this.#at)
  }

  u8(): number {
    return this.take(1).readUInt8()
  }

  u16be(): number {
    return this.take(2).readUInt16BE()
  }

  u16le(): number {
    return this.take(2).readUInt16LE()
  }

  u32be(): number {
    return this.take(4).readUInt32BE()
  }

  /** The text up to the next NUL, which is read as well. */
  text(): string {
    const end = this.#bytes.indexOf(0, this.#at)
    if (end < 0) throw new RangeError('the answer ends within a text')
    const text = this.take(end - this.#at).toString('utf8')
    this.#at += 1
    return text
  }

  /** The rest as a text. */
  rest(): string {
    return this.take(this.left).toString('utf8')
  }
}
