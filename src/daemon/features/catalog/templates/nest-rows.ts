import type { z } from 'zod'
import type { Nest } from '../../../../shared/api/nests.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { Queries } from '../../../db/db.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import { textMatches } from '../../../db/text-search.ts'

/** A nest as answers show it, before it is written out. */
export type NestAnswer = z.input<typeof Nest>

/** The fields of a nest that people edit. */
export interface NestFields {
  readonly name: string
  readonly description: string | null
  readonly icon: string | null
  readonly author: string | null
}

interface NestRow extends NestFields {
  readonly id: string
  readonly createdAt: IsoTime
  readonly updatedAt: IsoTime
}

/** One page of nests by name, with the number of all that match. */
export async function listNests(
  q: Queries,
  { search, page, limit }: { search?: string | undefined; page: number; limit: number },
): Promise<{ items: NestAnswer[]; total: number }> {
  const matching = (): ReturnType<typeof selectNests> =>
    search === undefined
      ? selectNests(q)
      : selectNests(q).where(textMatches(search, 'nest.id', ['nest.name', 'nest.description']))
  const rows = await matching()
    .orderBy('nest.name')
    .orderBy('nest.id')
    .limit(limit)
    .offset(offsetOf({ page, limit }))
    .execute()
  return {
    items: rows.map(toNest),
    total: await totalOf(q, matching(), { query: { page, limit }, found: rows.length }),
  }
}

/** The nest with the number of its templates. */
export async function findNest(q: Queries, id: string): Promise<NestAnswer | undefined> {
  const row = await selectNests(q).where('nest.id', '=', id).executeTakeFirst()
  return row === undefined ? undefined : toNest(row)
}

/** The id of the nest with this name. */
export async function findNestIdByName(q: Queries, name: string): Promise<string | undefined> {
  return (await q.selectFrom('nest').select('id').where('name', '=', name).executeTakeFirst())?.id
}

/** Fails with the database's UNIQUE violation when the name is taken. */
export async function insertNest(q: Queries, row: NestRow): Promise<void> {
  await q.insertInto('nest').values(row).execute()
}

/** Fails with the database's UNIQUE violation when the name is taken. */
export async function updateNest(
  q: Queries,
  id: string,
  fields: NestFields & { readonly updatedAt: IsoTime },
): Promise<void> {
  await q.updateTable('nest').set(fields).where('id', '=', id).execute()
}

/** Deletes it and answers its name; its templates stay without a nest. */
export async function deleteNest(q: Queries, id: string): Promise<{ name: string } | undefined> {
  return q.deleteFrom('nest').where('id', '=', id).returning('name').executeTakeFirst()
}

function selectNests(q: Queries) {
  return q
    .selectFrom('nest')
    .selectAll('nest')
    .select((eb) =>
      eb
        .selectFrom('template')
        .whereRef('template.nestId', '=', 'nest.id')
        .select((inner) => inner.fn.countAll<number>().as('count'))
        .as('templateCount'),
    )
}

function toNest(row: Awaited<ReturnType<ReturnType<typeof selectNests>['executeTakeFirstOrThrow']>>): NestAnswer {
  return { ...row, templateCount: Number(row.templateCount) }
}
