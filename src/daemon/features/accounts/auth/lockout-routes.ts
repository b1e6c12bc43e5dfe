import * as api from '../../../../shared/api/lockouts.ts'
import { operate } from '../../../http/operate.ts'
import { type Route, route } from '../../../http/route.ts'
import type { AccountDeps } from './deps.ts'
import { deleteLockout } from './lockout-operations.ts'
import { listLockouts } from './lockout-rows.ts'

/** The routes of lockouts. */
export function lockoutRoutes(deps: AccountDeps): Route[] {
  return [
    route(api.listLockouts, ({ query }) => listLockouts(deps.db.read, query, deps.clock.nowMs())),
    operate(deleteLockout, deps),
  ]
}
