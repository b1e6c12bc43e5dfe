import { MAX_LINE_BYTES } from './record.ts'

const LF = 10
const CR = 13

/** Takes one piece of a line; `partial`: its end of line has not come yet. The bytes are only valid during the call. */
export type TakePiece = (bytes: Buffer, partial: boolean) => void

/**
 * Cuts one stream of bytes into lines, holding at most one piece (16 KiB) of memory. LF, CR LF and a lone CR end a line.
 * A longer line comes in pieces; all but its last are partial. No piece ends within a UTF-8 character.
 */
export class LineSplitter {
  private readonly take: TakePiece
  private readonly held = Buffer.allocUnsafeSlow(MAX_LINE_BYTES)
  private heldBytes = 0
  private afterCr = false
  /** The last piece given away was partial, so that the line is still open. */
  private open = false

  constructor(take: TakePiece) {
    this.take = take
  }

  /** Whether text waits for its end of line. */
  get pending(): boolean {
    return this.heldBytes > 0
  }

  push(chunk: Buffer): void {
    if (chunk.length === 0) return
    let at = this.afterCr && chunk[0] === LF ? 1 : 0
    this.afterCr = false
    let lf = next(chunk, LF, at)
    let cr = next(chunk, CR, at)
    while (at < chunk.length) {
      if (lf < at) lf = next(chunk, LF, at)
      if (cr < at) cr = next(chunk, CR, at)
      const end = Math.min(lf, cr)
      if (end >= chunk.length) {
        this.hold(chunk.subarray(at))
        return
      }
      this.line(chunk.subarray(at, end))
      at = end + 1
      if (end === cr) {
        if (at === chunk.length) this.afterCr = true
        else if (chunk[at] === LF) at++
      }
    }
  }

  /** Gives away what waits as a partial piece, less the beginning of an unfinished character. */
  flush(): void {
    const whole = wholeCharacters(this.held, this.heldBytes)
    if (whole > 0) this.giveHeld(whole)
  }

  /** The stream is over: what waits is a line, and a line that is still open gets its last piece. */
  end(): void {
    if (this.heldBytes > 0 || this.open) this.line(Buffer.alloc(0))
    this.afterCr = false
  }

  private line(rest: Buffer): void {
    if (this.heldBytes === 0 && rest.length <= MAX_LINE_BYTES) {
      this.take(rest, false)
    } else {
      this.hold(rest)
      this.take(this.held.subarray(0, this.heldBytes), false)
      this.heldBytes = 0
    }
    this.open = false
  }

  private hold(bytes: Buffer): void {
    let at = 0
    while (this.heldBytes + bytes.length - at > MAX_LINE_BYTES) {
      at += bytes.copy(this.held, this.heldBytes, at, at + MAX_LINE_BYTES - this.heldBytes)
      this.heldBytes = MAX_LINE_BYTES
      this.giveHeld(wholeCharacters(this.held, MAX_LINE_BYTES))
    }
    this.heldBytes += bytes.copy(this.held, this.heldBytes, at)
  }

  private giveHeld(bytes: number): void {
    this.take(this.held.subarray(0, bytes), true)
    this.open = true
    this.held.copyWithin(0, bytes, this.heldBytes)
    this.heldBytes -= bytes
  }
}

function next(chunk: Buffer, byte: number, from: number): number {
  const at = chunk.indexOf(byte, from)
  return at < 0 ? chunk.length : at
}

/** How many of the first `length` bytes remain when an unfinished UTF-8 character at their end is left out. */
function wholeCharacters(bytes: Buffer, length: number): number {
  for (let back = 1; back <= 3 && back <= length; back++) {
    const byte = bytes[length - back] ?? 0
    if ((byte & 0xc0) === 0x80) continue
    const needs = byte >= 0xf0 && byte < 0xf8 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1
    return byte < 0xf8 && needs > back ? length - back : length
  }
  return length
}
