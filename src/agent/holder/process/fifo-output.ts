import { closeSync, constants, openSync, readSync } from 'node:fs'
import { Socket } from 'node:net'
import type { Clock } from '../../../shared/kernel/time.ts'
import type { LineStream } from '../../../shared/protocol/console.ts'
import { OutputLines, type Sink } from '../output-lines.ts'

const CHUNK_BYTES = 64 * 1024
/** The most that a pipe holds by the kernel's default settings, so all that a dead program can have left in one. */
const PIPE_BYTES = 1024 * 1024

/**
 * One output of the child, read from its FIFO into the log for as long as the holder lives. A game whose output is not read
 * stands still, so reading waits only where the game has used up what its holder may work for it.
 */
export class FifoOutput {
  readonly #fd: number
  readonly #socket: Socket
  readonly #lines: OutputLines
  readonly #closed: Promise<void>
  #pause: NodeJS.Timeout | undefined
  #isPaced = true

  constructor(path: string, stream: LineStream, sink: Sink) {
    this.#lines = new OutputLines(stream, sink)
    this.#fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    const buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES)
    const onread = { buffer, callback: (length: number) => this.#take(buffer.subarray(0, length)) }
    const options = { fd: this.#fd, readable: true, writable: false, onread }
    this.#socket = new Socket(options)
    this.#socket.on('error', () => undefined) // it closes; what the FIFO still holds is read at the end
    this.#closed = new Promise((resolve) => this.#socket.once('close', () => resolve()))
    this.#socket.resume()
  }

  /** Reads as fast as it can until everybody who writes has closed the FIFO, which is what this waits for, but not for ever. */
  async drained(withinMs: number, clock: Clock): Promise<void> {
    this.#isPaced = false
    clearTimeout(this.#pause)
    this.#socket.resume()
    const enough = new AbortController()
    await Promise.race([this.#closed, clock.sleep(withinMs, enough.signal)])
    enough.abort()
  }

  /** Reads what is left without waiting for processes that still hold the FIFO open, and ends the last line. */
  finish(): void {
    clearTimeout(this.#pause)
    const left: Buffer[] = []
    for (let total = 0; total < PIPE_BYTES && !this.#socket.destroyed; ) {
      const chunk = readNow(this.#fd)
      if (chunk.length === 0) break
      left.push(chunk)
      total += chunk.length
    }
    this.#lines.end(left)
    this.#socket.destroy()
  }

  #take(chunk: Buffer): boolean {
    const pauseMs = this.#lines.push(chunk)
    if (pauseMs === 0 || !this.#isPaced) return true
    this.#socket.pause()
    this.#pause = setTimeout(() => this.#socket.resume(), pauseMs)
    return false
  }
}

/** Keeps a FIFO from reaching its end while the child does not have it open yet; call the result when it has. */
export function holdOpen(paths: readonly string[]): () => void {
  const fds = paths.map((path) => openSync(path, constants.O_RDWR | constants.O_NONBLOCK))
  return () => {
    for (const fd of fds) closeSync(fd)
  }
}

/** What is there to be read; nothing at the end, and where a living process has written nothing. */
function readNow(fd: number): Buffer {
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES)
  try {
    return buffer.subarray(0, readSync(fd, buffer))
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EAGAIN') return buffer.subarray(0, 0)
    throw error
  }
}
