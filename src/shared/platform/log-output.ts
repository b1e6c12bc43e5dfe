import { fstatSync, write as writeBehind, writeSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import type { Clock } from '../kernel/time.ts'

/** Where the lines of a log go. Nothing waits for it, and no failure of it reaches who writes. */
export interface LogOutput {
  /** Takes a text of whole lines, which is written behind what came before. */
  write(text: string): void
  /** Writes what the output takes at once, without waiting. */
  flushSync(): void
  /** Resolves when all is written, or when the output has taken nothing for half a second. */
  flush(): Promise<void>
}

/** Characters that wait for an output that takes nothing; what comes then is counted. */
const MOST_WAITING = 2 * 1024 * 1024
/** So much is given to the system in one call: what a pipe holds. */
const BATCH = 64 * 1024
/** Pauses before another attempt at an output that takes nothing. */
const [FIRST_PAUSE_MS, LONGEST_PAUSE_MS] = [10, 1000]
const LAST_WAIT_MS = 500
const [STDOUT, STDERR] = [1, 2]

/**
 * The log of this process on its standard output. Where the disk is full or nobody reads, lines wait in a bounded room and are lost beyond it:
 * `onLost` is called with their number at their place among the others, and may write. At an exit the rest is written as far as that
 * takes no waiting.
 */
export function openLogOutput(options: { clock: Clock; onLost: (lines: number) => void }): LogOutput {
  const output = new StandardOutput(options)
  process.on('exit', () => output.end())
  return output
}

/** Writes to stderr what it takes at once. Where that fails there is no place to say so. */
export function writeError(text: string): void {
  void process.stderr.writable // as for the log: a pipe then does not wait for its reader
  try {
    for (let rest: Uint8Array = Buffer.from(text); rest.length > 0; ) rest = rest.subarray(writeSync(STDERR, rest))
  } catch {
    // A full disk, or nobody who reads: what the caller does is not ended by it.
  }
}

class StandardOutput implements LogOutput {
  readonly #clock: Clock
  readonly #onLost: (lines: number) => void
  /** Disks and terminals may keep who writes waiting, so another thread does it. Pipes and sockets answer at once. */
  readonly #mayWait: boolean
  #waiting: string[] = []
  #size = 0
  /** What is left of the lines that the system was given. */
  #batch: Uint8Array = new Uint8Array()
  /** Another thread writes the batch. */
  #isBehind = false
  #isFailing = false
  #isDraining = false
  #lost = 0

  constructor({ clock, onLost }: { clock: Clock; onLost: (lines: number) => void }) {
    this.#clock = clock
    this.#onLost = onLost
    // Looked at, because Node then sets a pipe or a socket so that it answers instead of waiting for its reader.
    void process.stdout.writable
    const stat = fstatSync(STDOUT)
    this.#mayWait = !stat.isFIFO() && !stat.isSocket()
  }

  write(text: string): void {
    // So much can come in one turn, which is no fault of the output.
    if (this.#isFull() && !this.#isFailing) this.flushSync()
    if (this.#lost > 0 || this.#isFull()) {
      this.#lost += 1
    } else {
      this.#waiting.push(text)
      this.#size += text.length
    }
    if (!this.#isDraining) void this.#drain()
  }

  flushSync(): void {
    if (!this.#isBehind) this.#writeNow()
  }

  async flush(): Promise<void> {
    let [left, sinceMs] = [this.#left(), this.#clock.monotonicMs()]
    for (;;) {
      this.flushSync()
      if (this.#left() === 0) return
      if (this.#left() !== left) [left, sinceMs] = [this.#left(), this.#clock.monotonicMs()]
      if (this.#clock.monotonicMs() - sinceMs > LAST_WAIT_MS) return
      await this.#clock.sleep(FIRST_PAUSE_MS)
    }
  }

  /** The last attempt. What is under way is the system's. */
  end(): void {
    if (this.#isBehind) this.#batch = new Uint8Array()
    this.#writeNow()
  }

  async #drain(): Promise<void> {
    this.#isDraining = true
    await turn() // lines of the same turn go together
    for (let pauseMs = FIRST_PAUSE_MS; this.#fill(); ) {
      try {
        this.#took(this.#mayWait ? await this.#writeBehind() : writeSync(STDOUT, this.#batch))
        pauseMs = FIRST_PAUSE_MS
      } catch {
        // Full, slow or gone: a disk gets room again, and a pipe another reader.
        this.#isFailing = true
        await this.#clock.sleep(pauseMs)
        pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)
      }
    }
    this.#isDraining = false
  }

  #writeNow(): void {
    try {
      while (this.#fill()) this.#took(writeSync(STDOUT, this.#batch))
    } catch {
      this.#isFailing = true // what is left stays for the next attempt
    }
  }

  async #writeBehind(): Promise<number> {
    this.#isBehind = true
    try {
      return await new Promise((resolve, reject) => {
        writeBehind(STDOUT, this.#batch, (error, bytes) => (error === null ? resolve(bytes) : reject(error)))
      })
    } finally {
      this.#isBehind = false
    }
  }

  /** Whether there is something to write, which is then in the batch. */
  #fill(): boolean {
    if (this.#batch.length > 0) return true
    if (this.#waiting.length === 0 && this.#lost > 0) {
      const lost = this.#lost
      this.#lost = 0
      this.#onLost(lost)
    }
    let [count, size] = [0, 0]
    for (; count < this.#waiting.length && size < BATCH; count += 1) size += this.#waiting[count]?.length ?? 0
    this.#batch = Buffer.from(this.#waiting.splice(0, count).join(''))
    this.#size -= size
    return count > 0
  }

  #took(bytes: number): void {
    this.#batch = this.#batch.subarray(bytes)
    this.#isFailing = false
  }

  #isFull(): boolean {
    return this.#size >= MOST_WAITING
  }

  #left(): number {
    return this.#size + this.#batch.length
  }
}
