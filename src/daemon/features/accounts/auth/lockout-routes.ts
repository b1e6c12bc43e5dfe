import { sql } from 'kysely'
import * as api from '../../../../shared/api/lockouts.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { isoTime } from '../../../../shared/kernel/time.ts'
import type { Queries } from '../../../db/db.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import { containing, contains } from '../../../db/text-search.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import type { AccountDeps } from './deps.ts'

/** The routes of lockouts. */
export function lockoutRoutes(deps: AccountDeps): Route[] {
  return [
    route(api.listLockouts, ({ query }) => listRows(deps.db.read, query, deps.clock.nowMs())),
    route(api.deleteLockout, async ({ params }, context) => {
      const caller = callerOf(context)
      await deps.db.write(async (tx) => {
        const row = await tx.q
          .deleteFrom('authLockout')
          .where('id', '=', params.lockoutId)
          .returning(['id', 'email', 'ipAddress', 'failureCount', 'lockedUntil'])
          .executeTakeFirst()
        if (row === undefined) {
          return context.fail('ADMIN_LOCKOUT_NOT_FOUND', `There is no lockout ${params.lockoutId}`)
        }
        const { id, email, ipAddress } = row
        const { id: _, ...details } = row
        await deps.audit.record(tx, context.actor, {
          action: 'auth_lockout.delete',
          resource: 'auth_lockout',
          resourceId: id,
          details,
        })
        const data = { lockoutId: id, email, ipAddress, clearedBy: caller.userId }
        await deps.bus.append(tx, { type: 'auth_lockout_cleared', data })
      })
      return null
    }),
  ]
}

async function listRows(q: Queries, filter: Input<typeof api.listLockouts>['query'], nowMs: number) {
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
