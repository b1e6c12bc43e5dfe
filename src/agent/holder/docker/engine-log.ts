import type { Engine } from '../../engine/engine.ts'
import { OutputFrames } from '../../engine/output-frames.ts'

/** An output of a container. */
export type Output = 'stdout' | 'stderr'

/** A message of the engine's log: a line with its end, or a piece of a long one. The bytes are only valid until the next ones come. */
export interface EngineLine {
  readonly output: Output
  /** Milliseconds since the epoch at which the engine has read it. */
  readonly ms: number
  readonly bytes: Buffer
}

/** A message is kept until its frame is complete; the engine cuts lines after 16 KiB. */
const MOST_MESSAGE_BYTES = 256 * 1024
const LF = 10

/** The engine's own log of a container, read so that no message comes twice over any number of calls. */
export class EngineLog {
  readonly #engine: Engine
  readonly #name: string
  readonly #isTerminal: boolean
  /** The instant of the newest message so far, and how many messages have it. */
  #lastStamp = ''
  #atLastStamp = 0
  #sinceMs = 0

  constructor(engine: Engine, name: string, isTerminal: boolean) {
    this.#engine = engine
    this.#name = name
    this.#isTerminal = isTerminal
  }

  /**
   * Hands on the messages that have not come yet, as many at once as the engine sends, the first time those since `sinceMs`; with
   * `follow` until the container has ended or the engine goes away. Rejects with EngineRefusal or EngineAway.
   */
  async read(
    take: (lines: readonly EngineLine[]) => void,
    how: { readonly follow: boolean; readonly sinceMs?: number },
  ): Promise<void> {
    this.#sinceMs = Math.max(0, how.sinceMs ?? this.#sinceMs)
    const since = this.#lastStamp === '' ? String(Math.floor(this.#sinceMs / 1000)) : this.#lastStamp
    const query = `stdout=1&stderr=1&timestamps=1&since=${since}${how.follow ? '&follow=1' : ''}`
    const answer = await this.#engine.stream({ method: 'GET', path: `/containers/${this.#name}/logs?${query}` })
    // Messages of the last instant come again.
    let repeats = this.#atLastStamp
    let lines: EngineLine[] = []
    let last = Buffer.alloc(0)
    const message = (output: Output, bytes: Buffer): void => {
      const blank = bytes.indexOf(' ')
      const said = bytes.toString('latin1', 0, Math.max(0, blank))
      const stamp = secondsOf(said)
      if (stamp < this.#lastStamp) return
      const isSaidAgain = isExact(stamp) && bytes.at(-1) === LF && bytes.equals(last)
      last = Buffer.from(bytes)
      if (stamp === this.#lastStamp && repeats > 0) {
        repeats--
        return
      }
      if (isSaidAgain) return
      if (stamp !== this.#lastStamp) this.#atLastStamp = 0
      this.#lastStamp = stamp
      this.#atLastStamp++
      lines.push({ output, ms: Date.parse(said), bytes: bytes.subarray(blank + 1) })
    }
    const frames = this.#isTerminal ? new RawMessages(message) : framedMessages(message)
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      frames.push(chunk)
      take(lines)
      lines = []
    }
  }
}

/**
 * No two lines have the same nanosecond, only the pieces of a long one: such a line is one that the engine has said once more when it
 * went on to the next file of its log. Of engines that know seconds alone nothing follows from that.
 */
function isExact(stamp: string): boolean {
  return !stamp.endsWith('.000000000')
}

type TakeMessage = (output: Output, message: Buffer) => void

/** Messages of a container without a terminal come in frames, one or more to each. */
function framedMessages(take: TakeMessage): OutputFrames {
  const held: Record<Output, Buffer[]> = { stdout: [], stderr: [] }
  return new OutputFrames((output, bytes, ends) => {
    const parts = held[output]
    parts.push(Buffer.from(bytes))
    const isTooLong = parts.reduce((sum, part) => sum + part.length, 0) > MOST_MESSAGE_BYTES
    if (!ends && !isTooLong) return
    held[output] = []
    take(output, Buffer.concat(parts))
  })
}

/**
 * Messages of a container with a terminal come one behind the other: a stamp, a blank, and a text up to its line feed or, as a
 * piece of a long line, of 16 KiB.
 */
class RawMessages {
  readonly #take: TakeMessage
  #held = Buffer.alloc(0)

  constructor(take: TakeMessage) {
    this.#take = take
  }

  push(chunk: Buffer): void {
    let bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk])
    for (let end = endOf(bytes); end > 0; end = endOf(bytes)) {
      this.#take('stdout', bytes.subarray(0, end))
      bytes = bytes.subarray(end)
    }
    this.#held = Buffer.from(bytes)
  }
}

const PIECE_BYTES = 16 * 1024
const MOST_STAMP_BYTES = 64

/** Where the first message ends; 0 while it is not complete. */
function endOf(bytes: Buffer): number {
  const blank = bytes.subarray(0, MOST_STAMP_BYTES).indexOf(' ')
  const most = Math.max(0, blank + 1) + PIECE_BYTES
  const feed = bytes.subarray(0, most).indexOf(LF)
  if (feed >= 0) return feed + 1
  return bytes.length >= most ? most : 0
}

/**
 * An instant of the engine (`2026-01-02T03:04:05.000000006Z`, by some without nanoseconds or the zeros at their end) as it takes it,
 * and as instants are compared: seconds since the epoch with nanoseconds.
 */
function secondsOf(stamp: string): string {
  const nanos = /\.(\d{1,9})/.exec(stamp)?.[1] ?? '0'
  return `${Math.floor(Date.parse(stamp) / 1000)}.${nanos.padEnd(9, '0')}`
}
