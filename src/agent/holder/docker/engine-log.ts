import type { Engine } from '../../engine/engine.ts'
import { OutputFrames } from '../../engine/output-frames.ts'

/** An output of a container. */
export type Output = 'stdout' | 'stderr'

/** A message of the engine's log: a line with its end, or a piece of a long one. The bytes are only valid during the call. */
export interface EngineLine {
  readonly output: Output
  /** Milliseconds since the epoch at which the engine has read it. */
  readonly ms: number
  readonly bytes: Buffer
}

/** A message is kept until its frame is complete; the engine cuts lines after 16 KiB. */
const MOST_MESSAGE_BYTES = 256 * 1024

/** The engine's own log of a container, read so that no message comes twice over any number of calls. */
export class EngineLog {
  readonly #engine: Engine
  readonly #name: string
  /** The instant of the newest message so far, and how many messages have it. */
  #lastStamp = ''
  #atLastStamp = 0
  #sinceMs = 0

  constructor(engine: Engine, name: string) {
    this.#engine = engine
    this.#name = name
  }

  /**
   * Hands on the messages that have not come yet, the first time those since `sinceMs`; with `follow` until the container has
   * ended or the engine goes away. Rejects with EngineRefusal or EngineAway.
   */
  async read(
    take: (line: EngineLine) => void,
    how: { readonly follow: boolean; readonly sinceMs?: number },
  ): Promise<void> {
    this.#sinceMs = Math.max(0, how.sinceMs ?? this.#sinceMs)
    const since = this.#lastStamp === '' ? String(Math.floor(this.#sinceMs / 1000)) : secondsOf(this.#lastStamp)
    const query = `stdout=1&stderr=1&timestamps=1&since=${since}${how.follow ? '&follow=1' : ''}`
    const answer = await this.#engine.stream({ method: 'GET', path: `/containers/${this.#name}/logs?${query}` })
    // Messages of the last instant come again.
    let repeats = this.#atLastStamp
    const held: Record<Output, Buffer[]> = { stdout: [], stderr: [] }
    const frames = new OutputFrames((output, bytes, ends) => {
      const parts = held[output]
      parts.push(Buffer.from(bytes))
      const isTooLong = parts.reduce((sum, part) => sum + part.length, 0) > MOST_MESSAGE_BYTES
      if (!ends && !isTooLong) return
      const message = Buffer.concat(parts)
      held[output] = []
      const blank = message.indexOf(' ')
      const stamp = message.toString('latin1', 0, Math.max(0, blank))
      if (stamp < this.#lastStamp) return
      if (stamp === this.#lastStamp && repeats > 0) {
        repeats--
        return
      }
      if (stamp !== this.#lastStamp) this.#atLastStamp = 0
      this.#lastStamp = stamp
      this.#atLastStamp++
      take({ output, ms: Date.parse(stamp), bytes: message.subarray(blank + 1) })
    })
    for await (const chunk of answer as AsyncIterable<Buffer>) frames.push(chunk)
  }
}

/** An instant of the engine (`2026-01-02T03:04:05.000000006Z`) as it takes it: seconds since the epoch with nanoseconds. */
function secondsOf(stamp: string): string {
  const nanos = /\.(\d{1,9})/.exec(stamp)?.[1] ?? '0'
  return `${Math.floor(Date.parse(stamp) / 1000)}.${nanos.padEnd(9, '0')}`
}
