import { z } from 'zod'
import type { Tx } from '../../../db/db.ts'
import { defineJob } from '../../../jobs/job-type.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import type { MigrationDeps } from './deps.ts'

/** Forgets the keys of sources that nobody has gone on with in time. */
const FORGET_KEYS = defineJob({
  kind: 'migration.forget_keys',
  input: z.object({}),
  state: z.object({}),
  first: () => ({}),
  title: () => 'Forget keys of sources',
  pool: { name: 'system', size: 4 },
  lane: () => 'migration keys',
  ordered: false,
  background: true,
  plan: () => [{ step: 'forget', name: 'forget' }],
})

/** Gives the engine the work of forgetting. */
export function registerKeys(jobs: Jobs, deps: Pick<MigrationDeps, 'clock'>): void {
  jobs.register(FORGET_KEYS, {
    steps: {
      forget: {
        run: () =>
          Promise.resolve(async (tx) => {
            await tx.q
              .updateTable('migrationJob')
              .set({ keys: null, keysUntil: null, updatedAt: tx.now })
              .where('keysUntil', '<=', tx.now)
              .execute()
            const next = await nextOf(tx)
            return next === undefined
              ? undefined
              : { after: { kind: 'again', atMs: Math.max(next, deps.clock.nowMs()) } }
          }),
      },
    },
  })
}

/** Has keys forgotten when their time comes; after each change of one. */
export async function forgetKeysInTime(tx: Tx, { jobs }: Pick<MigrationDeps, 'jobs'>): Promise<void> {
  const row = await firstKept(tx)
  if (row === undefined) return
  const job = { input: {}, cause: 'keys of migrations', key: FORGET_KEYS.kind, at: row }
  await jobs.queue.schedule(tx, FORGET_KEYS, job)
}

async function nextOf(tx: Tx): Promise<number | undefined> {
  const row = await firstKept(tx)
  return row === undefined ? undefined : Date.parse(row)
}

async function firstKept(tx: Tx) {
  const row = await tx.q
    .selectFrom('migrationJob')
    .select('keysUntil')
    .where('keysUntil', 'is not', null)
    .orderBy('keysUntil')
    .executeTakeFirst()
  return row?.keysUntil ?? undefined
}
