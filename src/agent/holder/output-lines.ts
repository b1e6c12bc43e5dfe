import type { Clock } from '../../shared/kernel/time.ts'
import type { LineStream } from '../../shared/protocol/console.ts'
import { LineSplitter } from '../console/log/line-splitter.ts'
import { PARTIAL } from '../console/log/record.ts'
import type { LogWriter } from '../console/log/writer.ts'
import type { ReadingBudget } from './pacing.ts'
import { SecretMask } from './secret-mask.ts'

/** Text without an end of line becomes a partial line after so much quiet. */
const QUIET_MS = 500

/** Where the lines of a child's outputs go. */
export interface Sink {
  readonly writer: LogWriter
  readonly clock: Clock
  /** Called after lines were written. */
  readonly written: () => void
  readonly budget: ReadingBudget
  /** Values that do not get into the log. */
  readonly masked: readonly string[]
}

/** Makes lines of the log out of the bytes of one output, in whatever pieces they come. */
export class OutputLines {
  readonly #sink: Sink
  readonly #mask: SecretMask
  readonly #splitter: LineSplitter
  #quiet: NodeJS.Timeout | undefined

  constructor(stream: LineStream, sink: Sink) {
    this.#sink = sink
    this.#mask = new SecretMask(sink.masked)
    this.#splitter = new LineSplitter((text, partial) => {
      sink.writer.append({ stream, ms: sink.clock.nowMs(), text, flags: partial ? PARTIAL : 0 })
    })
  }

  /** Writes what the bytes complete. Returns the milliseconds to leave the output unread: a child's budget of reading. */
  push(chunk: Buffer): number {
    this.#splitter.push(this.#mask.push(chunk))
    this.#flush()
    clearTimeout(this.#quiet)
    if (this.#splitter.pending) {
      this.#quiet = setTimeout(() => {
        this.#splitter.flush()
        this.#flush()
      }, QUIET_MS)
    }
    return this.#sink.budget.pauseMs()
  }

  /** Ends the last line with these bytes: nothing comes any more. */
  end(last: readonly Buffer[]): void {
    clearTimeout(this.#quiet)
    for (const chunk of last) this.#splitter.push(this.#mask.push(chunk))
    this.#splitter.push(this.#mask.end())
    this.#splitter.end()
    this.#sink.writer.flush()
  }

  /** What comes next comes by another way: what waits for its end of line is written as it is. */
  detach(): void {
    clearTimeout(this.#quiet)
    this.#splitter.push(this.#mask.end())
    this.#splitter.flush()
    this.#sink.writer.flush()
  }

  #flush(): void {
    this.#sink.writer.flush()
    this.#sink.written()
  }
}
