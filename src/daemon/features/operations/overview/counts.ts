import { type ServerStatus, ServerStatus as Statuses } from '../../../../shared/kernel/server-life.ts'
import type { Visibility } from '../../../access/permit.ts'
import type { Queries } from '../../../db/db.ts'
import { countServersByStatus } from '../../servers/servers/rows.ts'

/** How many servers have each status; statuses that no server has are left out. */
export type StatusCounts = Partial<Record<ServerStatus, number>>

/** Counts the servers that somebody may see. */
export async function serverCounts(
  q: Queries,
  visibility: Visibility,
): Promise<{ all: number; byStatus: StatusCounts }> {
  const rows = await countServersByStatus(q, visibility)
  const byStatus: StatusCounts = {}
  let all = 0
  for (const { status, count } of rows) {
    all += Number(count)
    byStatus[Statuses.parse(status)] = Number(count)
  }
  return { all, byStatus }
}

/** Counts accounts. */
export async function userCount(q: Queries): Promise<number> {
  const row = await q
    .selectFrom('user')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return Number(row.count)
}

/** Counts the system errors that nobody has resolved. */
export async function openErrorCount(q: Queries): Promise<number> {
  const row = await q
    .selectFrom('systemError')
    .where('resolvedAt', 'is', null)
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return Number(row.count)
}
