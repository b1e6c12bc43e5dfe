import type { Duplex } from 'node:stream'
import type { Clock } from '../../../shared/kernel/time.ts'
import { FrameSplitter, FrameTooLong, type FromPlugin, type ToPlugin } from '../../../shared/protocol/plugin-frames.ts'
import { parseFrame } from './frames.ts'

/** What a plugin may send within a second. The daemon has one thread: whoever sends more is ended. */
export const MOST_FRAMES_PER_SECOND = 5_000
export const MOST_BYTES_PER_SECOND = 16 * 1024 * 1024
/** What may wait for a plugin that does not read. */
const MOST_UNSENT_BYTES = 4 * 1024 * 1024
const FLOOD = 'it floods its pipe'

/** What the owner of a channel is notified of. */
export interface ChannelListener {
  frame(frame: FromPlugin): void
  /** The plugin does not keep to the protocol; nothing more is read. A sentence part: `it floods its pipe`. */
  trouble(why: string): void
}

/** The daemon's end of the pipe to one plugin. */
export class Channel {
  readonly #pipe: Duplex
  readonly #clock: Clock
  readonly #listener: ChannelListener
  readonly #splitter = new FrameSplitter()
  #window = { sinceMs: 0, frames: 0, bytes: 0 }
  #deaf = false

  constructor(pipe: Duplex, clock: Clock, listener: ChannelListener) {
    this.#pipe = pipe
    this.#clock = clock
    this.#listener = listener
    pipe.on('error', () => undefined) // the end of the process follows, and says why
    pipe.on('data', (chunk: Buffer) => this.#read(chunk))
  }

  /** Whether there was room for it; what does not fit is not sent. */
  send(frame: ToPlugin): boolean {
    if (this.#pipe.writableLength > MOST_UNSENT_BYTES || this.#pipe.destroyed || this.#pipe.writableEnded) return false
    this.#pipe.write(`${JSON.stringify(frame)}\n`)
    return true
  }

  close(): void {
    this.#deaf = true
    this.#pipe.destroy()
  }

  #read(chunk: Buffer): void {
    if (this.#deaf) return
    const trouble = this.#takeAll(chunk)
    if (trouble === undefined) return
    this.#deaf = true
    this.#pipe.pause()
    this.#listener.trouble(trouble)
  }

  /** Hands over what is complete; what is wrong with it, if something is. */
  #takeAll(chunk: Buffer): string | undefined {
    if (!this.#within(0, chunk.length)) return FLOOD
    try {
      for (const line of this.#splitter.push(chunk)) {
        if (this.#deaf) return undefined
        if (!this.#within(1, 0)) return FLOOD
        const frame = parseFrame(line)
        if (frame === undefined) return 'it writes into its pipe what is no frame'
        this.#listener.frame(frame)
      }
      return undefined
    } catch (error) {
      if (error instanceof FrameTooLong) return error.message
      throw error
    }
  }

  #within(frames: number, bytes: number): boolean {
    const nowMs = this.#clock.monotonicMs()
    if (nowMs - this.#window.sinceMs >= 1000) this.#window = { sinceMs: nowMs, frames: 0, bytes: 0 }
    this.#window.frames += frames
    this.#window.bytes += bytes
    return this.#window.frames <= MOST_FRAMES_PER_SECOND && this.#window.bytes <= MOST_BYTES_PER_SECOND
  }
}
