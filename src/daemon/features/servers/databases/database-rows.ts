import type { Selectable } from 'kysely'
import type { Queries, Tx } from '../../../db/db.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import type { DatabaseState } from '../../../db/schema/databases.ts'
import type { Schema } from '../../../db/schema.ts'

/** A database as it is stored, its passwords sealed. */
export type DatabaseRow = Selectable<Schema['serverDatabase']>

/** A database with what its answers need of its host. */
export type ShownRow = NonNullable<Awaited<ReturnType<typeof findShown>>>

/** Rows that answers show: those that have been whole once. */
const SHOWN = ['ready', 'rotating', 'deleting'] as const

/** Rows that count: what is being removed takes nobody's place. */
const COUNTED = ['planned', 'creating', 'ready', 'rotating'] as const

/** One page of the databases of a server, oldest first. */
export async function listShown(
  q: Queries,
  serverId: string,
  { page, limit }: { page: number; limit: number },
): Promise<{ rows: ShownRow[]; total: number }> {
  const matching = shown(q).where('serverDatabase.serverId', '=', serverId)
  const rows = await matching
    .orderBy('serverDatabase.createdAt')
    .orderBy('serverDatabase.id')
    .limit(limit)
    .offset(offsetOf({ page, limit }))
    .execute()
  return { rows, total: await totalOf(q, matching, { query: { page, limit }, found: rows.length }) }
}

/** The database of this server with this id. */
export async function findShown(q: Queries, serverId: string, id: string) {
  return shown(q).where('serverDatabase.serverId', '=', serverId).where('serverDatabase.id', '=', id).executeTakeFirst()
}

/** The database with this id, of whichever server. */
export async function findShownById(q: Queries, id: string): Promise<ShownRow | undefined> {
  return shown(q).where('serverDatabase.id', '=', id).executeTakeFirst()
}

/** The row, whatever its state. */
export async function findRow(q: Queries, id: string): Promise<DatabaseRow | undefined> {
  return q.selectFrom('serverDatabase').selectAll().where('id', '=', id).executeTakeFirst()
}

/** How many databases the server has, those included that are being made. */
export async function countOfServer(q: Queries, serverId: string): Promise<number> {
  const { total } = await q
    .selectFrom('serverDatabase')
    .select((eb) => eb.fn.countAll<number>().as('total'))
    .where('serverId', '=', serverId)
    .where('state', 'in', COUNTED)
    .executeTakeFirstOrThrow()
  return Number(total)
}

/** Moves a row from one of the states on; false when it is in none of them, or gone. */
export async function move(
  tx: Tx,
  id: string,
  from: readonly DatabaseState[],
  to: Partial<Omit<DatabaseRow, 'id' | 'createdAt'>> & { readonly state: DatabaseState },
): Promise<boolean> {
  const moved = await tx.q
    .updateTable('serverDatabase')
    .set({ ...to, updatedAt: tx.now })
    .where('id', '=', id)
    .where('state', 'in', from)
    .executeTakeFirst()
  return moved.numUpdatedRows > 0n
}

/** Forgets a row in one of the states; false when it is in none of them, or gone. */
export async function forget(tx: Tx, id: string, from: readonly DatabaseState[]): Promise<boolean> {
  const gone = await tx.q
    .deleteFrom('serverDatabase')
    .where('id', '=', id)
    .where('state', 'in', from)
    .executeTakeFirst()
  return gone.numDeletedRows > 0n
}

function shown(q: Queries) {
  return q
    .selectFrom('serverDatabase')
    .innerJoin('databaseHost', 'databaseHost.id', 'serverDatabase.hostId')
    .selectAll('serverDatabase')
    .select(['databaseHost.name as hostName', 'databaseHost.engine', 'databaseHost.host', 'databaseHost.port'])
    .where('serverDatabase.state', 'in', SHOWN)
}
