import type { Clock } from '../../shared/kernel/time.ts'
import type { Log } from '../core/log.ts'
import type { Db } from './db.ts'
import type { DbHealth } from './db-health.ts'

/** How soon a write is tried again, and how long it is waited at most between two of them. */
const FIRST_MS = 1000
const MOST_MS = 10_000

/**
 * Tries to write as long as nothing can be written, until `signal` aborts: nobody else may have anything to write, and what
 * waits for the disk goes on with the first transaction that is stored.
 */
export async function retryWrites(deps: { db: Db; clock: Clock; log: Log }, signal: AbortSignal): Promise<void> {
  const { db, clock, log } = deps
  const stop = db.onHealth((health) => report(log, health))
  let waitMs = FIRST_MS
  while (!signal.aborted) {
    if (db.health().status !== 'unwritable') {
      waitMs = FIRST_MS
      await nextChange(db, signal)
      continue
    }
    await clock.sleep(waitMs, signal)
    waitMs = Math.min(waitMs * 2, MOST_MS)
    if (!signal.aborted) await db.write(async () => undefined).catch(() => undefined) // the health says why
  }
  stop()
}

function report(log: Log, { status, reason }: DbHealth): void {
  if (status === 'ok') log.info('database is writable again')
  else log.error({ reason, status }, 'database is degraded')
}

async function nextChange(db: Db, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  await new Promise<void>((resolve) => {
    const done = (): void => {
      stop()
      signal.removeEventListener('abort', done)
      resolve()
    }
    const stop = db.onHealth(done)
    signal.addEventListener('abort', done, { once: true })
  })
}
