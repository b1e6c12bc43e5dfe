import { type CompiledQuery, type SelectQueryBuilder, sql } from 'kysely'
import { TOTAL_CAP } from '../../shared/kernel/page.ts'
import type { Queries } from './db.ts'
import { keptRows } from './kept-results.ts'

/**
 * How many rows a query matches, counted once as long as its tables do not change, up to one more than a list reports (shared/page.ts): a list of millions costs no more
 * than one of ten thousand. Columns and order of the query do not matter.
 */
export async function countRows<DB, TB extends keyof DB, O>(
  q: Queries,
  matching: SelectQueryBuilder<DB, TB, O>,
): Promise<number> {
  return keptTotal(q, countQuery(q, matching).compile())
}

/** The same for a {@link countQuery}. */
export async function keptTotal(q: Queries, counting: CompiledQuery<{ readonly total: number }>): Promise<number> {
  // Of one table, without a query in its conditions, more rows are never less; beyond what a list reports they make no difference.
  const grows = counting.sql.split(/\bselect\b/).length === 1 + COUNTS_WITH && !counting.sql.includes(' join ')
  const [count] = await keptRows(q, counting, grows ? ([count]) => Number(count?.total) > TOTAL_CAP : undefined)
  return Number(count?.total)
}

/** A {@link countQuery} selects so many times by itself. */
const COUNTS_WITH = 2

/**
 * The total of a list of which one page of `found` rows has been read: a page that is not full shows it by itself, so that a
 * search that finds little looks at every row once and not twice. Any other is counted by {@link countRows}.
 */
export async function totalOf<DB, TB extends keyof DB, O>(
  q: Queries,
  matching: SelectQueryBuilder<DB, TB, O>,
  { query, found }: { query: { page: number; limit: number }; found: number },
): Promise<number> {
  return totalByPage(query, found) ?? countRows(q, matching)
}

/** The total that a page of `found` rows shows; `undefined` when the rows must be counted. */
export function totalByPage(query: { page: number; limit: number }, found: number): number | undefined {
  const before = offsetOf(query)
  return found < query.limit && (found > 0 || before === 0) ? before + found : undefined
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
