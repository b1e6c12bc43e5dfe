import type { JobProgress } from '../../shared/kernel/job.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import type { Bus } from '../core/bus.ts'
import type { Log } from '../core/log.ts'
import type { Db } from '../db/db.ts'
import { announce } from './queue.ts'
import type { JobRow } from './rows.ts'

/** Between two that are written down. */
const EVERY_MS = 1000

/** The progress of one attempt. */
export interface ProgressReport {
  /** Takes how far it is; the newest stands for all before it. */
  readonly set: (now: JobProgress) => void
  /** Writes down what was not yet, before the attempt's end is. */
  flush(): Promise<void>
  end(): void
}

/** Writes the progress of jobs down and announces it, at most once a second for each. */
export class ProgressWriter {
  readonly #deps: { readonly db: Db; readonly bus: Bus; readonly clock: Clock; readonly log: Log }

  constructor(deps: { db: Db; bus: Bus; clock: Clock; log: Log }) {
    this.#deps = deps
  }

  of(row: JobRow): ProgressReport {
    const { clock, log } = this.#deps
    const over = new AbortController()
    let newest: JobProgress | undefined
    let writing: Promise<void> | undefined
    let lastMs = Number.NEGATIVE_INFINITY
    const write = async (): Promise<void> => {
      const progress = newest
      newest = undefined
      lastMs = clock.monotonicMs()
      if (progress !== undefined) await this.#write(row, progress)
    }
    const drain = async (): Promise<void> => {
      while (newest !== undefined && !over.signal.aborted) {
        await clock.sleep(Math.max(0, lastMs + EVERY_MS - clock.monotonicMs()), over.signal)
        if (!over.signal.aborted) await write()
      }
      writing = undefined
    }
    return {
      set: (now) => {
        newest = now
        writing ??= drain().catch((err: unknown) => {
          writing = undefined
          log.warn({ err, jobId: row.id }, 'cannot store job progress')
        })
      },
      flush: async () => {
        over.abort()
        await writing
        await write()
      },
      end: () => over.abort(),
    }
  }

  async #write(row: JobRow, progress: JobProgress): Promise<void> {
    const { db, bus } = this.#deps
    await db.write(async (tx) => {
      const after = await tx.q
        .updateTable('job')
        .set({
          progress: JSON.stringify({ ...progress, text: progress.text?.slice(0, 200) ?? null }),
          updatedAt: tx.now,
        })
        .where('seq', '=', row.seq)
        .where('fence', '=', row.fence)
        .where('status', '=', 'running')
        .returningAll()
        .executeTakeFirst()
      if (after !== undefined) await announce(bus, tx, after)
    })
  }
}
