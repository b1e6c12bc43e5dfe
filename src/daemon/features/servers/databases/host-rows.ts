import type { ExpressionBuilder, Selectable } from 'kysely'
import type { DatabaseHost } from '../../../../shared/api/database-hosts.ts'
import type { Queries } from '../../../db/db.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import type { Schema } from '../../../db/schema.ts'
import { textMatches } from '../../../db/text-search.ts'

/** A host as it is stored, the password sealed. */
export type HostRow = Selectable<Schema['databaseHost']>

/** Rows of databases that are gone for everybody: something of them may still stand on the host. */
const LEFTOVER = ['undoing', 'deleting'] as const

/** One page of hosts, newest first. */
export async function listHosts(
  q: Queries,
  { search, page, limit }: { search?: string | undefined; page: number; limit: number },
): Promise<{ items: DatabaseHost[]; total: number }> {
  const matching = (): ReturnType<typeof selectHosts> =>
    search === undefined
      ? selectHosts(q)
      : selectHosts(q).where(textMatches(search, 'databaseHost.id', ['databaseHost.name', 'databaseHost.host']))
  const rows = await matching()
    .orderBy('databaseHost.createdAt', 'desc')
    .orderBy('databaseHost.id', 'desc')
    .limit(limit)
    .offset(offsetOf({ page, limit }))
    .execute()
  return {
    items: rows.map(toHost),
    total: await totalOf(q, matching(), { query: { page, limit }, found: rows.length }),
  }
}

/** The host as the API shows it. */
export async function findHost(q: Queries, id: string): Promise<DatabaseHost | undefined> {
  const row = await selectHosts(q).where('databaseHost.id', '=', id).executeTakeFirst()
  return row === undefined ? undefined : toHost(row)
}

/** The host with its sealed password. */
export async function findHostRow(q: Queries, id: string): Promise<HostRow | undefined> {
  return q.selectFrom('databaseHost').selectAll().where('id', '=', id).executeTakeFirst()
}

/** Whether another host has this name, in whichever case it is written. SQLite folds the case of ASCII letters alone. */
export async function hasNamesake(q: Queries, name: string, besideId: string): Promise<boolean> {
  const rows = await q.selectFrom('databaseHost').select(['id', 'name']).where('id', '!=', besideId).execute()
  const folded = name.normalize('NFC').toLowerCase()
  return rows.some((row) => row.name.normalize('NFC').toLowerCase() === folded)
}

/** Of the hosts that have room, of one engine or of all, the one with the fewest databases. */
export async function roomiestHost(q: Queries, engine?: DatabaseHost['engine']): Promise<HostRow | undefined> {
  const rows = await selectHosts(q)
    .selectAll('databaseHost')
    .orderBy('databaseCount')
    .orderBy('databaseHost.createdAt')
    .execute()
  return rows.find(
    (row) =>
      (engine === undefined || row.engine === engine) &&
      (row.maxDatabases === null || Number(row.databaseCount) < row.maxDatabases),
  )
}

/** How many databases the host has, those included that are being made. */
export async function countOnHost(q: Queries, hostId: string): Promise<number> {
  const { total } = await q
    .selectFrom('serverDatabase')
    .select((eb) => eb.fn.countAll<number>().as('total'))
    .where('hostId', '=', hostId)
    .where('state', 'not in', LEFTOVER)
    .executeTakeFirstOrThrow()
  return Number(total)
}

/** Forgets what is still to be removed from the host; answers the names. */
export async function forgetLeftovers(q: Queries, hostId: string): Promise<string[]> {
  const rows = await q
    .deleteFrom('serverDatabase')
    .where('hostId', '=', hostId)
    .where('state', 'in', LEFTOVER)
    .returning('name')
    .execute()
  return rows.map(({ name }) => name)
}

function selectHosts(q: Queries) {
  const counted = (eb: ExpressionBuilder<Schema, 'databaseHost'>, left: boolean) =>
    eb
      .selectFrom('serverDatabase')
      .whereRef('serverDatabase.hostId', '=', 'databaseHost.id')
      .where('serverDatabase.state', left ? 'in' : 'not in', LEFTOVER)
      .select((inner) => inner.fn.countAll<number>().as('count'))
  return q
    .selectFrom('databaseHost')
    .select([
      'databaseHost.id', 'databaseHost.name', 'databaseHost.engine', 'databaseHost.host', 'databaseHost.port',
      'databaseHost.username', 'databaseHost.tls', 'databaseHost.caCertificate', 'databaseHost.maxDatabases',
      'databaseHost.createdAt', 'databaseHost.updatedAt',
    ]) // biome-ignore format: columns
    .select((eb) => [counted(eb, false).as('databaseCount'), counted(eb, true).as('leftoverCount')])
}

function toHost(row: Awaited<ReturnType<ReturnType<typeof selectHosts>['executeTakeFirstOrThrow']>>): DatabaseHost {
  const { id, name, engine, host, port, username, tls, caCertificate, maxDatabases, createdAt, updatedAt } = row
  const counts = { databaseCount: Number(row.databaseCount), leftoverCount: Number(row.leftoverCount) }
  return {
    // The column holds ids that newId made or an import checked.
    id: id as DatabaseHost['id'],
    name, engine, host, port, username, hasPassword: true, tls, caCertificate, maxDatabases, ...counts, createdAt, updatedAt,
  } // biome-ignore format: fields
}
