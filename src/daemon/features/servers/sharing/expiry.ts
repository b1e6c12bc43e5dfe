import { type Clock, type IsoTime, now } from '../../../../shared/kernel/time.ts'
import type { Credentials } from '../../../access/caller.ts'
import type { Log } from '../../../core/log.ts'
import type { Db } from '../../../db/db.ts'

/** A wait at most so long, because the wall clock may be set meanwhile. */
const LONGEST_MS = 60_000

/**
 * Has everything that is open looked at again at the moment a grant or an assignment ends, until `signal` aborts: nobody
 * writes anything at that moment, so nobody else would.
 */
export async function watchExpiry(
  { db, clock, credentials, log }: { db: Db; clock: Clock; credentials: Credentials; log: Log },
  signal: AbortSignal,
): Promise<void> {
  let seen = now(clock)
  let changed = new AbortController()
  const stop = credentials.onChange(() => changed.abort())
  try {
    while (!signal.aborted) {
      changed = new AbortController()
      const next = await nextEnd(db, seen).catch((error: unknown) => {
        log.warn({ err: error }, 'the ends of grants could not be read; they are looked for again')
        return undefined
      })
      const wait = next === undefined ? LONGEST_MS : Math.min(LONGEST_MS, Date.parse(next) - clock.nowMs())
      if (wait > 0) await clock.sleep(wait, AbortSignal.any([signal, changed.signal]))
      if (signal.aborted || next === undefined || now(clock) < next) continue
      seen = next
      credentials.changed()
    }
  } finally {
    stop()
  }
}

/** The first end after `seen`. */
async function nextEnd(db: Db, seen: IsoTime): Promise<IsoTime | undefined> {
  const ends: IsoTime[] = []
  for (const table of ['serverAccess', 'nodeAssignment'] as const) {
    const row = await db.read
      .selectFrom(table)
      .select('expiresAt')
      .where('expiresAt', '>', seen)
      .orderBy('expiresAt')
      .limit(1)
      .executeTakeFirst()
    if (typeof row?.expiresAt === 'string') ends.push(row.expiresAt)
  }
  return ends.sort()[0]
}
