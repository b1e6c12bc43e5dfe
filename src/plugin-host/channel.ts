import { Socket } from 'node:net'
import { FrameSplitter, type FromPlugin, type ToPlugin } from '../shared/protocol/plugin-frames.ts'

/** The most characters of a message or a stack that are worth sending. */
const MOST_TEXT = 4000

/** The host's end of the pipe to the daemon. */
export class Channel {
  readonly #socket: Socket
  readonly #splitter = new FrameSplitter()

  constructor(fd: number) {
    this.#socket = new Socket({ fd })
    this.#socket.on('error', () => undefined) // `close` follows, which ends this process
  }

  onFrame(listener: (frame: ToPlugin) => void): void {
    this.#socket.on('data', (chunk: Uint8Array) => {
      for (const line of this.#splitter.push(chunk)) listener(JSON.parse(line) as ToPlugin) // the daemon writes nothing else
    })
  }

  onEnd(listener: () => void): void {
    this.#socket.on('end', listener)
    this.#socket.on('close', listener)
  }

  /** Throws when the frame holds what JSON cannot say. */
  send(frame: FromPlugin): void {
    this.#socket.write(`${JSON.stringify(bounded(frame))}\n`)
  }

  end(done: () => void): void {
    this.#socket.end(done)
  }
}

function bounded(frame: FromPlugin): FromPlugin {
  if (frame.t !== 'failed' && frame.t !== 'error') return frame
  return { ...frame, message: frame.message.slice(0, MOST_TEXT), stack: frame.stack.slice(0, MOST_TEXT) }
}
