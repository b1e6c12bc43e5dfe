import * as api from '../../../../shared/api/bulk-servers.ts'
import { now } from '../../../../shared/kernel/time.ts'
import { visibleServers } from '../../../access/permit.ts'
import { type Context, callerOf, type Route, route } from '../../../http/route.ts'
import { actOnEach, actOnServers, type BulkOrder } from './bulk.ts'
import type { ServerDeps } from './routes.ts'
import { findVisibleRows } from './rows.ts'
import { statusOf } from './view.ts'

/** Actions on several servers at once. */
export function bulkRoutes(deps: ServerDeps): Route[] {
  const { db } = deps
  const each = async (order: BulkOrder) => outcome(await db.write((tx) => actOnEach(tx, deps, order)))
  const deletion = ({ body }: { body: { serverIds: string[] } }, { actor }: Pick<Context, 'actor'>) =>
    each({ ...body, action: 'delete', reason: null, stopServer: true, actor })
  return [
    route(api.bulkServerActions, async ({ body }, context) => {
      const order = { ...body, reason: body.reason ?? null, stopServer: true, actor: context.actor }
      const results = await db.write((tx) => actOnServers(tx, deps, callerOf(context), order))
      return { results, summary: counts(results) }
    }),
    route(api.bulkSuspend, ({ body }, { actor }) =>
      each({ ...body, reason: body.reason ?? null, action: 'suspend', actor }),
    ),
    route(api.bulkUnsuspend, ({ body }, { actor }) =>
      each({ ...body, action: 'unsuspend', reason: null, stopServer: true, actor }),
    ),
    route(api.bulkDelete, deletion),
    route(api.bulkRemove, deletion),
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

type Results = Awaited<ReturnType<typeof actOnEach>>

function counts(results: Results): Partial<Record<Results[number]['status'], number>> {
  const summary: Partial<Record<Results[number]['status'], number>> = {}
  for (const { status } of results) summary[status] = (summary[status] ?? 0) + 1
  return summary
}

/** Without `skipped`: what is there already is a failure with its code. */
function outcome(results: Results) {
  const success = results.flatMap(({ status, serverId }) => (status === 'success' ? [serverId] : []))
  const failed = results.flatMap(({ status, serverId, error, code }) =>
    status === 'success' ? [] : [{ id: serverId, error: error ?? '', code: code ?? '' }],
  )
  return { success, failed, summary: { total: results.length, succeeded: success.length, failed: failed.length } }
}
