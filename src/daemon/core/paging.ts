import { type SelectQueryBuilder, sql } from 'kysely'
import { TOTAL_CAP } from '../../shared/page.ts'
import type { Queries } from './db.ts'

/**
 * How many rows a query matches, counted up to one more than a list tells (shared/page.ts): a list of millions costs no more
 * than one of ten thousand. Columns and order of the query do not matter.
 */
export async function countRows<DB, TB extends keyof DB, O>(
  q: Queries,
  matching: SelectQueryBuilder<DB, TB, O>,
): Promise<number> {
  const { total } = await countQuery(q, matching).executeTakeFirstOrThrow()
  return Number(total)
}

/** The query of {@link countRows}. */
export function countQuery<DB, TB extends keyof DB, O>(q: Queries, matching: SelectQueryBuilder<DB, TB, O>) {
  const some = matching
    .clearSelect()
    .clearOrderBy()
    .select(sql<number>`1`.as('one'))
    .limit(TOTAL_CAP + 1)
  return q.selectFrom(some.as('counted')).select((eb) => eb.fn.countAll<number>().as('total'))
}

/** The rows before a page. */
export function offsetOf({ page, limit }: { page: number; limit: number }): number {
  return (page - 1) * limit
}
