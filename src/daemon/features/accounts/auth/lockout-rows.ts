import { sql } from 'kysely'
import type * as api from '../../../../shared/api/lockouts.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { isoTime } from '../../../../shared/kernel/time.ts'
import type { Queries } from '../../../db/db.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import { containing, contains } from '../../../db/text-search.ts'

/** One page of failed sign-ins by account and address, the newest first. */
export async function listLockouts(q: Queries, filter: Input<typeof api.listLockouts>['query'], nowMs: number) {
  let query = q.selectFrom('authLockout')
  const { search, locked } = filter
  if (search !== undefined) {
    const pattern = containing(search)
    query = query.where((eb) => eb.or([contains(sql.ref('email'), pattern), contains(sql.ref('ip_address'), pattern)]))
  }
  if (locked !== undefined) {
    const at = isoTime(nowMs)
    query = query.where((eb) =>
      locked ? eb('lockedUntil', '>', at) : eb.or([eb('lockedUntil', 'is', null), eb('lockedUntil', '<=', at)]),
    )
  }
  const items = await query
    .select(['id', 'email', 'ipAddress', 'userAgent', 'failureCount', 'firstFailedAt', 'lastFailedAt', 'lockedUntil'])
    .select(['createdAt', 'updatedAt'])
    .orderBy('lastFailedAt', 'desc')
    .orderBy('id', 'desc')
    .limit(filter.limit)
    .offset(offsetOf(filter))
    .execute()
  return { items, total: await totalOf(q, query, { query: filter, found: items.length }) }
}
