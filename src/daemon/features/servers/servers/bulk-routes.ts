import * as api from '../../../../shared/api/bulk-servers.ts'
import { now } from '../../../../shared/kernel/time.ts'
import { visibleServers } from '../../../access/permit.ts'
import { operate } from '../../../http/operate.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import * as operations from './bulk-operations.ts'
import type { ServerDeps } from './operations.ts'
import { findVisibleRows } from './rows.ts'
import { statusOf } from './view.ts'

/** Actions on several servers at once. */
export function bulkRoutes(deps: ServerDeps): Route[] {
  const { db } = deps
  return [
    operate(operations.actOnSeveral, deps),
    operate(operations.suspendSeveral, deps),
    operate(operations.unsuspendSeveral, deps),
    operate(operations.deleteSeveral, deps),
    operate(operations.removeSeveral, deps),
    route(api.bulkStatus, async ({ body }, context) => {
      const visibility = await visibleServers({ q: db.read, now: now(deps.clock) }, callerOf(context))
      const rows = new Map((await findVisibleRows(db.read, visibility, body.serverIds)).map((row) => [row.id, row]))
      return body.serverIds.map((id) => {
        const row = rows.get(id)
        if (row === undefined) return { id, status: 'not_found' as const }
        return {
          id,
          name: row.name,
          status: statusOf(row),
          suspendedAt: row.suspendedAt,
          suspensionReason: row.suspensionReason,
          allocatedMemoryMb: row.memoryMb,
          allocatedCpuCores: row.cpuCores,
          primaryPort: row.port,
          primaryIp: row.ip,
          nodeId: row.nodeId,
          createdAt: row.createdAt,
          ownerId: row.ownerId,
        }
      })
    }),
  ]
}
