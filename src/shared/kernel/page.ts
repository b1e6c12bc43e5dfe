import { z } from 'zod'

/** The query of every list: `page` from 1, `limit` 50 by default and clamped to the cap, below 1 refused. */
export function pageQuery(cap = 100) {
  return z.object({
    page: z.coerce.number().int().min(1).max(1_000_000).default(1),
    limit: z.coerce
      .number()
      .int()
      .min(1)
      .default(50)
      .transform((n) => Math.min(n, cap)),
  })
}

/** Lists count their rows up to this many; whoever counts may stop at one more. */
export const TOTAL_CAP = 10_000

/**
 * What stands beside `data` in the answer of a list. `total` counts all matching rows and `totalPages` the pages that they
 * fill. Where more than {@link TOTAL_CAP} rows match, both say only that many and `totalIsCapped` stands there: there are
 * more pages, up to the first that is not full.
 */
export const Pagination = z.object({
  page: z.int(),
  limit: z.int(),
  total: z.int(),
  totalPages: z.int(),
  totalIsCapped: z.literal(true).optional(),
})
export type Pagination = z.infer<typeof Pagination>

/** The pagination of one page. A `total` beyond the cap is answered as the cap, and marked. */
export function pagination(query: { page: number; limit: number }, total: number): Pagination {
  const { page, limit } = query
  const counted = Math.min(total, TOTAL_CAP)
  const totalPages = Math.ceil(counted / limit)
  if (total <= TOTAL_CAP) return { page, limit, total: counted, totalPages }
  return { page, limit, total: counted, totalPages, totalIsCapped: true }
}

/** A boolean in a query: `true` or `false`, anything else is refused. */
export const QueryBoolean = z.enum(['true', 'false']).transform((text) => text === 'true')
