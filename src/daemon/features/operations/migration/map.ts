import type { Selectable } from 'kysely'
import { newId } from '../../../../shared/kernel/ids.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import type { Schema } from '../../../db/schema.ts'

/** What became of a thing of a source, as it is stored. */
export type MapRow = Selectable<Schema['migrationMap']>

/** A thing of a source. */
export interface SourceKey {
  readonly sourceFp: string
  readonly sourceType: string
  readonly sourceId: string
}

/** What became of it; `undefined`: nothing yet. */
export async function findMapped(
  q: Queries,
  { sourceFp, sourceType, sourceId }: SourceKey,
): Promise<MapRow | undefined> {
  return q
    .selectFrom('migrationMap')
    .selectAll()
    .where('sourceFp', '=', sourceFp)
    .where('sourceType', '=', sourceType)
    .where('sourceId', '=', sourceId)
    .executeTakeFirst()
}

/** All that was brought from a source. */
export async function listMapped(q: Queries, sourceFp: string): Promise<MapRow[]> {
  return q.selectFrom('migrationMap').selectAll().where('sourceFp', '=', sourceFp).execute()
}

/**
 * Writes down what became of a thing, in the transaction that made it: a thing has one target, also after many runs. Who has made the
 * target is kept, so that rolling back a later run does not remove what an earlier one has brought or found.
 */
export async function putMapped(
  tx: Tx,
  clock: Clock,
  entry: SourceKey & {
    readonly targetType: string
    readonly targetId: string
    readonly created: boolean
    readonly contentHash: string
    readonly targetHash: string | null
    readonly jobId: string
  },
): Promise<void> {
  const { targetType, targetId, contentHash, targetHash, jobId, created, ...key } = entry
  const now = { targetType, targetId, contentHash, targetHash, jobId, updatedAt: tx.now }
  const before = await findMapped(tx.q, key)
  const isSame = before?.targetId === targetId
  await tx.q
    .insertInto('migrationMap')
    .values({ id: newId('mgm', clock), ...key, ...now, created: created ? 1 : 0, createdAt: tx.now })
    .onConflict((on) =>
      on
        .columns(['sourceFp', 'sourceType', 'sourceId'])
        .doUpdateSet({ ...now, ...(isSame ? { jobId: before.jobId } : { created: created ? 1 : 0 }) }),
    )
    .execute()
}
