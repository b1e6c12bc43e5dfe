import * as api from '../../../../shared/api/alerts.ts'
import { now } from '../../../../shared/kernel/time.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import {
  type AlertRow,
  countAlerts,
  deliveriesOf,
  findAlertRow,
  findAlertRows,
  listAlertRows,
  toAlert,
} from './alert-rows.ts'
import { resolveOpen } from './raise.ts'
import { alertReach, denied, mayOnAlert } from './reach.ts'
import { alertRuleRoutes } from './rule-routes.ts'
import type { RuleDeps } from './write-rule.ts'

const GONE = 'There is no such alert'

/** The routes of alerts and their rules. */
export function alertRoutes(deps: RuleDeps): Route[] {
  const { db, clock } = deps
  const at = () => ({ q: db.read, now: now(clock) })
  return [
    route(api.listAlerts, async ({ query: { scope, ...query } }, context) =>
      listAlertRows(db.read, await alertReach(at(), callerOf(context), scope), query),
    ),
    route(api.alertStats, async ({ query: { scope } }, context) =>
      countAlerts(db.read, await alertReach(at(), callerOf(context), scope)),
    ),
    route(api.getAlert, async ({ params: { alertId } }, context) => {
      const row = await findAlertRow(db.read, alertId)
      if (row === undefined || row.listed === 0 || !(await mayOnAlert(at(), callerOf(context), row, 'alert.read')))
        return context.fail('ALERT_NOT_FOUND', GONE)
      return { ...toAlert(row), deliveries: await deliveriesOf(db.read, alertId) }
    }),
    route(api.listAlertDeliveries, async ({ params: { alertId } }, context) => {
      const row = await findAlertRow(db.read, alertId)
      if (row === undefined || row.listed === 0 || !(await mayOnAlert(at(), callerOf(context), row, 'alert.read')))
        return context.fail('ALERT_NOT_FOUND', GONE)
      return deliveriesOf(db.read, alertId)
    }),
    resolveOne(deps),
    resolveMany(deps),
    remove(deps),
    ...alertRuleRoutes(deps),
  ]
}

function resolveOne(deps: RuleDeps): Route {
  return route(api.resolveAlert, ({ params: { alertId } }, context) =>
    deps.db.write(async (tx) => {
      const caller = callerOf(context)
      const row = await findAlertRow(tx.q, alertId)
      if (row === undefined || row.listed === 0 || !(await mayOnAlert(tx, caller, row, 'alert.read')))
        return context.fail('ALERT_NOT_FOUND', GONE)
      if (!(await mayOnAlert(tx, caller, row, 'alert.update'))) throw denied('alert.update')
      if (await resolveOpen(tx, deps, alertId, caller.userId)) {
        const details = { title: row.title }
        const entry = { action: 'alert.resolve', resource: 'alert', resourceId: alertId, details }
        await deps.audit.record(tx, context.actor, entry)
      }
      return toAlert((await findAlertRow(tx.q, alertId)) ?? row)
    }),
  )
}

/** All or none: an id that the caller cannot see, or may not resolve, refuses the whole. */
function resolveMany(deps: RuleDeps): Route {
  return route(api.resolveAlerts, ({ body: { alertIds } }, context) =>
    deps.db.write(async (tx) => {
      const caller = callerOf(context)
      const ids = [...new Set<string>(alertIds)]
      const visible: AlertRow[] = []
      for (const row of await findAlertRows(tx.q, ids))
        if (await mayOnAlert(tx, caller, row, 'alert.read')) visible.push(row)
      const missing = ids.filter((id) => !visible.some((row) => row.id === id))
      if (missing.length > 0) context.fail('ALERT_NOT_FOUND', `There is no alert ${missing.join(', ')}`, { missing })
      for (const row of visible) if (!(await mayOnAlert(tx, caller, row, 'alert.update'))) throw denied('alert.update')
      const resolved: string[] = []
      for (const { id } of visible) if (await resolveOpen(tx, deps, id, caller.userId)) resolved.push(id)
      if (resolved.length > 0) {
        const entry = { action: 'alert.resolve', resource: 'alert', details: { alertIds: resolved } }
        await deps.audit.record(tx, context.actor, entry)
      }
      return { resolved: resolved.length }
    }),
  )
}

function remove(deps: RuleDeps): Route {
  return route(api.deleteAlert, ({ params: { alertId } }, context) =>
    deps.db.write(async (tx) => {
      const caller = callerOf(context)
      const row = await findAlertRow(tx.q, alertId)
      if (row === undefined || row.listed === 0 || !(await mayOnAlert(tx, caller, row, 'alert.read')))
        return context.fail('ALERT_NOT_FOUND', GONE)
      if (!(await mayOnAlert(tx, caller, row, 'alert.delete'))) throw denied('alert.delete')
      await tx.q.deleteFrom('alert').where('id', '=', alertId).execute()
      const details = { title: row.title, resolved: row.resolvedAt !== null }
      const entry = { action: 'alert.delete', resource: 'alert', resourceId: alertId, details }
      await deps.audit.record(tx, context.actor, entry)
      await deps.bus.append(tx, { type: 'alert_deleted', data: { alertId, deletedBy: caller.userId } })
      return null
    }),
  )
}
