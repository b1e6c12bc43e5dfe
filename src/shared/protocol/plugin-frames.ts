/** The largest frame between the daemon and a plugin, in bytes. */
export const MOST_FRAME_BYTES = 1024 * 1024 + 64 * 1024

/** What the daemon says to the process of a plugin. Frames are lines of JSON. */
export type ToPlugin =
  | {
      readonly t: 'start'
      readonly name: string
      readonly main: string
      readonly config: Readonly<Record<string, unknown>>
      /** The handlers that the manifest names; each must be there. */
      readonly handlers: readonly string[]
    }
  | { readonly t: 'call'; readonly id: number; readonly handler: string; readonly input: unknown }
  | { readonly t: 'answer'; readonly id: number; readonly value: unknown }
  | { readonly t: 'refusal'; readonly id: number; readonly error: Refusal }
  | { readonly t: 'ping'; readonly n: number }
  | { readonly t: 'stop' }

/** What the process of a plugin says to the daemon. */
export type FromPlugin =
  | { readonly t: 'ready' }
  | { readonly t: 'failed'; readonly message: string; readonly stack: string }
  | { readonly t: 'pong'; readonly n: number }
  | { readonly t: 'log'; readonly level: LogLevel; readonly text: string; readonly fields?: unknown }
  | { readonly t: 'request'; readonly id: number; readonly op: string; readonly input: unknown }
  | { readonly t: 'result'; readonly id: number; readonly value: unknown }
  | {
      readonly t: 'error'
      readonly id: number
      readonly message: string
      readonly stack: string
      readonly code?: string
    }

/** The levels of a plugin's log. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** Why a request of a plugin was refused. */
export interface Refusal {
  readonly code: string
  readonly message: string
  readonly status?: number
  readonly details?: unknown
}

/** A frame is longer than {@link MOST_FRAME_BYTES}. */
export class FrameTooLong extends Error {
  override readonly name = 'FrameTooLong'
}

/** Cuts a stream of bytes into lines; keeps at most one unfinished frame. */
export class FrameSplitter {
  #pieces: Uint8Array[] = []
  #waiting = 0

  /** The lines that are complete now, without their line feeds. Throws FrameTooLong. */
  push(chunk: Uint8Array): string[] {
    const lines: string[] = []
    let from = 0
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
      this.#keep(chunk.subarray(from, end))
      lines.push(this.#take())
      from = end + 1
    }
    if (from < chunk.length) this.#keep(chunk.subarray(from))
    return lines
  }

  #keep(piece: Uint8Array): void {
    this.#waiting += piece.length
    if (this.#waiting > MOST_FRAME_BYTES) throw new FrameTooLong(`a frame is longer than ${MOST_FRAME_BYTES} bytes`)
    this.#pieces.push(piece)
  }

  #take(): string {
    const whole = new Uint8Array(this.#waiting)
    let at = 0
    for (const piece of this.#pieces) {
      whole.set(piece, at)
      at += piece.length
    }
    this.#pieces = []
    this.#waiting = 0
    return new TextDecoder().decode(whole)
  }
}
