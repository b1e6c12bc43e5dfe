import { z } from 'zod'
import type { Clock } from '../../../../shared/kernel/time.ts'
import { IsoTime, now } from '../../../../shared/kernel/time.ts'
import type { Credentials } from '../../../access/caller.ts'
import type { Log } from '../../../core/log.ts'
import type { Db, Queries } from '../../../db/db.ts'
import { defineJob } from '../../../jobs/job-type.ts'
import type { Jobs } from '../../../jobs/jobs.ts'

/**
 * Has everything that is open looked at again at the moment a grant or an assignment ends: nobody writes anything at that
 * moment, so nobody else would. `seen`: ends until then have been looked at.
 */
export const EXPIRY = defineJob({
  kind: 'access.expiry',
  input: z.object({ since: IsoTime }),
  state: z.object({ seen: IsoTime }),
  first: ({ since }) => ({ seen: since }),
  title: () => 'End of grants and assignments',
  pool: { name: 'system', size: 4 },
  lane: () => 'access.expiry',
  ordered: false,
  background: true,
  plan: () => [{ step: 'look', name: 'look' }],
})

interface ExpiryDeps {
  readonly db: Db
  readonly clock: Clock
  readonly credentials: Credentials
  readonly log: Log
}

/** With no end ahead it is looked again after so long; a change of grants comes before that. */
const NOTHING_AHEAD_MS = 24 * 3_600_000

/** Has the engine do it. */
export function registerExpiry(jobs: Jobs, { db, clock, credentials }: ExpiryDeps): void {
  jobs.register(EXPIRY, {
    steps: {
      look: {
        attempts: Number.POSITIVE_INFINITY,
        run: async ({ job }) => {
          const at = now(clock)
          const { seen } = job.state
          const end = await nextEnd(db.read, seen)
          if (end !== undefined && end <= at) credentials.changed()
          return async (tx) => {
            // Within the transaction: a grant that comes after it schedules this job anew.
            const next = await nextEnd(tx.q, at)
            const atMs = next === undefined ? clock.nowMs() + NOTHING_AHEAD_MS : Date.parse(next)
            // Not the latest: a clock that was set back comes by later ends once more.
            return { state: { seen: at }, after: { kind: 'again', atMs } }
          }
        },
      },
    },
  })
}

/** Looks at the ends now and after each change of credentials, until the returned function is called. */
export function followGrants(jobs: Jobs, { db, clock, credentials, log }: ExpiryDeps): () => void {
  const look = (): void => {
    const job = { input: { since: now(clock) }, cause: 'expiry', key: EXPIRY.kind }
    db.write((tx) => jobs.queue.schedule(tx, EXPIRY, { ...job, at: tx.now })).catch((err: unknown) =>
      log.warn({ err }, 'cannot read grant expiries, retrying at next change'),
    )
  }
  look()
  return credentials.onChange(look)
}

/** The first end after `seen`. */
async function nextEnd(q: Queries, seen: IsoTime): Promise<IsoTime | undefined> {
  const ends: IsoTime[] = []
  for (const table of ['serverAccess', 'nodeAssignment'] as const) {
    const row = await q
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
