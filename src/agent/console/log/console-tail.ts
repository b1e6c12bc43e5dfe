import { watch } from 'node:fs'
import type { ConsoleLine, LogBounds } from '../../../shared/protocol/console.ts'
import type { ConsoleLog } from '../console-log.ts'
import { LogReader } from './reader.ts'

/** A server's console log on disk, with a way to wait for its next line. Needs no connection to the holder. */
export class ConsoleTail implements ConsoleLog {
  private readonly dir: string
  private readonly reader: LogReader

  /** `dir` is the log's folder; it may appear later. */
  constructor(dir: string) {
    this.dir = dir
    this.reader = new LogReader(dir)
  }

  bounds(): Promise<LogBounds> {
    return this.reader.bounds()
  }

  get newest(): number {
    return this.reader.newest
  }

  epochOf(seq: number): string {
    return this.reader.epochOf(seq)
  }

  async after(seq: number, max: { readonly lines: number; readonly bytes: number }): Promise<readonly ConsoleLine[]> {
    return (await this.reader.readAfter(seq, { maxLines: max.lines, maxBytes: max.bytes })).lines
  }

  async before(seq: number, max: { readonly lines: number; readonly bytes: number }): Promise<readonly ConsoleLine[]> {
    return (await this.reader.readBefore(seq, { maxLines: max.lines, maxBytes: max.bytes })).lines
  }

  async waitAfter(seq: number, epoch: string | undefined, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      // The watch begins before the look, so that a line written in between is not missed.
      const change = nextChange(this.dir, signal)
      try {
        const now = await this.reader.bounds()
        if (now.last > seq || now.first > seq + 1 || (epoch !== undefined && now.epoch !== epoch)) return
        await change.happened
      } finally {
        change.stop()
      }
    }
  }
}

/** Resolves at the next change in the folder; while there is none to watch, after a second. */
function nextChange(dir: string, signal: AbortSignal): { happened: Promise<void>; stop(): void } {
  let stop = (): void => undefined
  const happened = new Promise<void>((resolve) => {
    const release = watchFolder(dir, () => stop())
    stop = (): void => {
      release()
      signal.removeEventListener('abort', stop)
      resolve()
    }
    signal.addEventListener('abort', stop)
  })
  return { happened, stop: () => stop() }
}

function watchFolder(dir: string, changed: () => void): () => void {
  try {
    const watcher = watch(dir, { persistent: true }, changed)
    watcher.on('error', changed)
    return () => watcher.close()
  } catch {
    // The folder is made with the first line; until then, or when the system has no watch left, look again now and then.
    const timer = setTimeout(changed, 1000)
    return () => clearTimeout(timer)
  }
}
