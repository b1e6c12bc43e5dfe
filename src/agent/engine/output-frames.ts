const HEAD_BYTES = 8

/** The outputs of a container as the engine names them in the head of a frame. */
const STREAMS: readonly ('stdout' | 'stderr' | undefined)[] = [undefined, 'stdout', 'stderr']

/** Takes a part of an output; `ends`: it is the last one of a frame. The bytes are only valid during the call. */
export type TakeOutput = (stream: 'stdout' | 'stderr', bytes: Buffer, ends: boolean) => void

/**
 * Takes apart the stream of a container without a terminal: frames with a head of 8 bytes (one byte for the output, the length
 * as the last four, the highest first). Frames are handed on as they come and never held.
 */
export class OutputFrames {
  readonly #take: TakeOutput
  readonly #head = Buffer.alloc(HEAD_BYTES)
  #headBytes = 0
  #left = 0

  constructor(take: TakeOutput) {
    this.#take = take
  }

  /** Throws when it is no such stream. */
  push(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) {
      if (this.#left === 0) {
        const copied = chunk.copy(this.#head, this.#headBytes, at, at + HEAD_BYTES - this.#headBytes)
        at += copied
        this.#headBytes += copied
        if (this.#headBytes < HEAD_BYTES) return
        this.#headBytes = 0
        this.#left = this.#head.readUInt32BE(4)
        if ((this.#head[0] ?? 3) > 2) throw new Error('The container engine sends what is no output of a container')
        continue
      }
      const part = chunk.subarray(at, at + this.#left)
      const stream = STREAMS[this.#head[0] ?? 0]
      at += part.length
      this.#left -= part.length
      if (stream !== undefined) this.#take(stream, part, this.#left === 0)
    }
  }
}
