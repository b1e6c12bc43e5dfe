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

/** What stands beside `data` in the answer of a list. `total` counts all matching rows. */
export const Pagination = z.object({
  page: z.int(),
  limit: z.int(),
  total: z.int(),
  totalPages: z.int(),
})
export type Pagination = z.infer<typeof Pagination>

/** The pagination of one page. */
export function pagination(query: { page: number; limit: number }, total: number): Pagination {
  return { page: query.page, limit: query.limit, total, totalPages: Math.ceil(total / query.limit) }
}

/** A boolean in a query: `true` or `false`, anything else is refused. */
export const QueryBoolean = z.enum(['true', 'false']).transform((text) => text === 'true')
