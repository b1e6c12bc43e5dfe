const START = 64 * 1024
/** What was needed for an answer larger than this is given back after it. */
const KEPT = 1024 * 1024
/** What is longer is copied by V8; for what is shorter that call costs more than the copy. */
const SHORT = 48
const QUOTE = 0x22
const BACKSLASH = 0x5c
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what JSON escapes
const ESCAPED = /[\u0000-\u001f"\\\ud800-\udfff]/

/**
 * JSON that is put together as UTF-8 bytes, because most of an answer is short pieces: as one string they become a tree of
 * pieces first, which costs as much again when it is sent. One is used again and again; what is taken out of it is a copy.
 */
export class JsonBytes {
  #bytes = Buffer.allocUnsafeSlow(START)
  #at = 0

  /** How many bytes there are. */
  get length(): number {
    return this.#at
  }

  /** Adds text that is JSON, or a part of it. */
  json(text: string): void {
    if (text.length > SHORT || !this.#copiedByHand(text)) this.#copied(text)
  }

  /** Adds a string as `JSON.stringify` writes it. */
  string(text: string): void {
    const { length } = text
    const from = this.#at
    this.#reserve(length + 2)
    this.#bytes[this.#at++] = QUOTE
    if (length > SHORT ? ESCAPED.test(text) : !this.#copiedByHand(text, QUOTE, BACKSLASH)) {
      this.#at = from
      this.#copied(JSON.stringify(text))
      return
    }
    if (length > SHORT) this.#copied(text)
    this.#reserve(1)
    this.#bytes[this.#at++] = QUOTE
  }

  /** Adds JSON that was taken out before. */
  bytes(part: Uint8Array): void {
    const { length } = part
    this.#reserve(length)
    const at = this.#at
    if (length > SHORT) this.#bytes.set(part, at)
    else for (let i = 0; i < length; i++) this.#bytes[at + i] = part[i] ?? 0
    this.#at = at + length
  }

  /** A copy of what came after the first `from` bytes. */
  since(from: number): Buffer {
    return Buffer.from(this.#bytes.subarray(from, this.#at))
  }

  /** Drops what came after the first `length` bytes. */
  back(length: number): void {
    this.#at = length
  }

  /** A copy of everything; nothing is left. */
  take(): Buffer {
    const all = this.since(0)
    this.#at = 0
    if (this.#bytes.length > KEPT) this.#bytes = Buffer.allocUnsafeSlow(START)
    return all
  }

  /** False, and nothing is added, when the text has more than printable ASCII, or one of the codes that are excluded. */
  #copiedByHand(text: string, without = 0, nor = 0): boolean {
    const { length } = text
    this.#reserve(length)
    const bytes = this.#bytes
    let at = this.#at
    for (let i = 0; i < length; i++) {
      const code = text.charCodeAt(i)
      if (code < 0x20 || code > 0x7e || code === without || code === nor) return false
      bytes[at++] = code
    }
    this.#at = at
    return true
  }

  #copied(text: string): void {
    this.#reserve(text.length * 3)
    this.#at += this.#bytes.write(text, this.#at)
  }

  #reserve(size: number): void {
    const needed = this.#at + size
    if (needed <= this.#bytes.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, 2 * this.#bytes.length))
    this.#bytes.copy(larger, 0, 0, this.#at)
    this.#bytes = larger
  }
}
