import { closeSync, constants, openSync, readSync } from 'node:fs'
import { Socket } from 'node:net'
import type { Clock } from '../../shared/kernel/time.ts'
import type { LineStream } from '../../shared/protocol/console.ts'
import { LineSplitter } from '../console/log/line-splitter.ts'
import { PARTIAL } from '../console/log/record.ts'
import type { LogWriter } from '../console/log/writer.ts'
import type { ReadingBudget } from './pacing.ts'
import { SecretMask } from './secret-mask.ts'

/** Text without an end of line becomes a partial line after so much quiet. */
const QUIET_MS = 500
const CHUNK_BYTES = 64 * 1024
/** The most that a pipe holds by the kernel's default settings, so all that a dead program can have left in one. */
const PIPE_BYTES = 1024 * 1024

/** Where an output's lines go. */
export interface Sink {
  readonly writer: LogWriter
  readonly clock: Clock
  /** Called after lines were written. */
  readonly written: () => void
  readonly budget: ReadingBudget
  /** Values that do not get into the log. */
  readonly masked: readonly string[]
}

/**
 * One output of the child, read from its FIFO into the log for as long as the holder lives. A game whose output is not read
 * stands still, so reading waits only where the game has used up what its holder may work for it.
 */
export class Output {
  /** Resolves when every process has closed this output. */
  readonly ended: Promise<void>
  private readonly fd: number
  private readonly socket: Socket
  private readonly splitter: LineSplitter
  private readonly sink: Sink
  private readonly mask: SecretMask
  private quiet: NodeJS.Timeout | undefined
  private pause: NodeJS.Timeout | undefined

  constructor(path: string, stream: LineStream, sink: Sink) {
    this.sink = sink
    this.mask = new SecretMask(sink.masked)
    this.fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    this.splitter = new LineSplitter((text, partial) => {
      sink.writer.append({ stream, ms: sink.clock.nowMs(), text, flags: partial ? PARTIAL : 0 })
    })
    const buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES)
    const onread = { buffer, callback: (length: number) => this.take(buffer.subarray(0, length)) }
    const options = { fd: this.fd, readable: true, writable: false, onread }
    this.socket = new Socket(options)
    this.ended = new Promise((resolve) => {
      this.socket.once('end', resolve)
      this.socket.once('close', () => resolve())
      this.socket.once('error', () => resolve())
    })
    this.socket.resume()
  }

  /** Reads what is left without waiting for processes that still hold the FIFO open, and ends the last line. */
  finish(): void {
    const buffer = Buffer.allocUnsafe(CHUNK_BYTES)
    for (let total = 0; total < PIPE_BYTES && !this.socket.destroyed; ) {
      const length = readNow(this.fd, buffer)
      if (length === 0) break
      this.splitter.push(this.mask.push(buffer.subarray(0, length)))
      total += length
    }
    clearTimeout(this.quiet)
    clearTimeout(this.pause)
    this.splitter.push(this.mask.end())
    this.splitter.end()
    this.sink.writer.flush()
    this.socket.destroy()
  }

  private take(chunk: Buffer): boolean {
    this.splitter.push(this.mask.push(chunk))
    this.sink.writer.flush()
    this.sink.written()
    clearTimeout(this.quiet)
    if (this.splitter.pending) this.quiet = setTimeout(() => this.flush(), QUIET_MS)
    const pauseMs = this.sink.budget.pauseMs()
    if (pauseMs === 0) return true
    this.socket.pause()
    this.pause = setTimeout(() => this.socket.resume(), pauseMs)
    return false
  }

  private flush(): void {
    this.splitter.flush()
    this.sink.writer.flush()
    this.sink.written()
  }
}

/** Keeps a FIFO from reaching its end while the child does not have it open yet; call the result when it has. */
export function holdOpen(paths: readonly string[]): () => void {
  const fds = paths.map((path) => openSync(path, constants.O_RDWR | constants.O_NONBLOCK))
  return () => {
    for (const fd of fds) closeSync(fd)
  }
}

function readNow(fd: number, buffer: Buffer): number {
  try {
    return readSync(fd, buffer)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EAGAIN') return 0
    throw error
  }
}
