import type { Pagination } from '../../../shared/kernel/page.ts'

/** Whether another page may follow one that held `rows` rows. */
export function hasNextPage(known: Pagination, rows: number): boolean {
  return known.totalIsCapped === true ? rows >= known.limit : known.page < known.totalPages
}
