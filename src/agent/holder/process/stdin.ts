import { closeSync, constants, openSync, writeSync } from 'node:fs'
import type { Clock } from '../../../shared/kernel/time.ts'

/** A line of which nothing has got in by then is refused, its wait for those before it counted: whoever typed it waits for 5 s. */
const WAIT_MS = 4000
/** A write of so many bytes reaches a FIFO as a whole or not at all. */
const ATOMIC_BYTES = 4096
const MAX_WAITING = 200

/** Why a line did not get into the program. */
export class StdinFull extends Error {}

/**
 * The child's standard input. Lines go in one after another, each as a whole: a line of which nothing fits within 4 s is
 * refused, and a long one that has begun is completed before any other, however long the program takes to read it.
 */
export class Stdin {
  private readonly fd: number
  private readonly clock: Clock
  private turn: Promise<void> = Promise.resolve()
  private waiting = 0
  private over = false

  constructor(path: string, clock: Clock) {
    // Both directions, so that it opens at once and the child never sees the end of its input.
    this.fd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK)
    this.clock = clock
  }

  /** Resolves when the text (a line with its end, or a key) is in the FIFO; `done` runs right then. Rejects with {@link StdinFull}. */
  write(text: string, done: () => void): Promise<void> {
    if (this.waiting >= MAX_WAITING) return Promise.reject(new StdinFull('Too many lines wait for the program to read'))
    this.waiting++
    const deadlineMs = this.clock.monotonicMs() + WAIT_MS
    const mine = this.turn.then(() => this.put(Buffer.from(text), deadlineMs)).then(done)
    this.turn = mine.catch(() => undefined) // the writer of that line gets the failure
    return mine.finally(() => this.waiting--)
  }

  /** The program has ended, so nothing can be written any more. */
  get closed(): boolean {
    return this.over
  }

  close(): void {
    if (this.over) return
    this.over = true
    closeSync(this.fd)
  }

  private async put(bytes: Buffer, deadlineMs: number): Promise<void> {
    let at = 0
    for (let pause = 2; at < bytes.length; ) {
      if (this.over) throw new StdinFull('The program has ended')
      if (at === 0 && this.clock.monotonicMs() > deadlineMs) throw new StdinFull('The program does not read its input')
      const written = writeNow(this.fd, bytes.subarray(at, at + ATOMIC_BYTES))
      at += written
      if (written > 0) continue
      await this.clock.sleep(pause)
      pause = Math.min(50, pause * 2)
    }
  }
}

function writeNow(fd: number, bytes: Buffer): number {
  try {
    return writeSync(fd, bytes)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EAGAIN') return 0
    throw error
  }
}
