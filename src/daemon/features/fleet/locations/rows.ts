import type { Location } from '../../../../shared/api/locations.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { Queries } from '../../../db/db.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import { textMatches } from '../../../db/text-search.ts'

interface NewLocation {
  readonly id: string
  readonly name: string
  readonly description: string | null
  readonly createdAt: IsoTime
  readonly updatedAt: IsoTime
}

/** The fields of a location that people edit. */
export interface LocationFields {
  readonly name: string
  readonly description: string | null
}

/** One page of locations by name, with the number of all that match. */
export async function listLocations(
  q: Queries,
  { search, page, limit }: { search?: string | undefined; page: number; limit: number },
): Promise<{ items: Location[]; total: number }> {
  const matching = (): ReturnType<typeof selectLocations> =>
    search === undefined
      ? selectLocations(q)
      : selectLocations(q).where(textMatches(search, 'location.id', ['location.name', 'location.description']))
  const rows = await matching()
    .orderBy('location.name')
    .orderBy('location.id')
    .limit(limit)
    .offset(offsetOf({ page, limit }))
    .execute()
  return {
    items: rows.map(toLocation),
    total: await totalOf(q, matching(), { query: { page, limit }, found: rows.length }),
  }
}

/** The location with the number of its nodes. */
export async function findLocation(q: Queries, id: string): Promise<Location | undefined> {
  const row = await selectLocations(q).where('location.id', '=', id).executeTakeFirst()
  return row === undefined ? undefined : toLocation(row)
}

/** Fails with the database's UNIQUE violation when the name is taken. */
export async function insertLocation(q: Queries, row: NewLocation): Promise<void> {
  await q.insertInto('location').values(row).execute()
}

/** Fails with the database's UNIQUE violation when the name is taken. */
export async function updateLocation(
  q: Queries,
  id: string,
  fields: LocationFields & { readonly updatedAt: IsoTime },
): Promise<void> {
  await q.updateTable('location').set(fields).where('id', '=', id).execute()
}

/** Deletes it and answers its name; fails with the database's FOREIGN KEY violation while a node or server is in it. */
export async function deleteLocation(q: Queries, id: string): Promise<{ name: string } | undefined> {
  return q.deleteFrom('location').where('id', '=', id).returning('name').executeTakeFirst()
}

function selectLocations(q: Queries) {
  return q
    .selectFrom('location')
    .selectAll('location')
    .select((eb) =>
      eb
        .selectFrom('node')
        .whereRef('node.locationId', '=', 'location.id')
        .select((inner) => inner.fn.countAll<number>().as('count'))
        .as('nodeCount'),
    )
}

function toLocation(row: Awaited<ReturnType<ReturnType<typeof selectLocations>['executeTakeFirstOrThrow']>>): Location {
  const { id, name, description, createdAt, updatedAt } = row
  // The column holds ids that newId made or an import checked.
  return { id: id as Location['id'], name, description, nodeCount: Number(row.nodeCount), createdAt, updatedAt }
}
