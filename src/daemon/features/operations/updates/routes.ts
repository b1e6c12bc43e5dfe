import { checkUpdate, getUpdateState, getUpdateStatus } from '../../../../shared/api/updates.ts'
import { type Route, route } from '../../../http/route.ts'
import type { Updates } from './updates.ts'

/** What is known about newer versions of the panel; the panel does not change its own program. */
export function updateRoutes(updates: Updates): Route[] {
  return [
    route(checkUpdate, () => updates.status()),
    route(getUpdateStatus, () => updates.status()),
    route(getUpdateState, async () => updates.state()),
  ]
}
