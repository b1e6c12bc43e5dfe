import * as api from '../../../../shared/api/alerts.ts'
import { now } from '../../../../shared/kernel/time.ts'
import { operate } from '../../../http/operate.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import { countAlerts, deliveriesOf, findAlertRow, listAlertRows, toAlert } from './alert-rows.ts'
import * as operations from './operations.ts'
import { alertReach, mayOnAlert } from './reach.ts'
import { alertRuleRoutes } from './rule-routes.ts'
import type { RuleDeps } from './write-rule.ts'

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
        return context.fail('ALERT_NOT_FOUND', operations.GONE)
      return { ...toAlert(row), deliveries: await deliveriesOf(db.read, alertId) }
    }),
    route(api.listAlertDeliveries, async ({ params: { alertId } }, context) => {
      const row = await findAlertRow(db.read, alertId)
      if (row === undefined || row.listed === 0 || !(await mayOnAlert(at(), callerOf(context), row, 'alert.read')))
        return context.fail('ALERT_NOT_FOUND', operations.GONE)
      return deliveriesOf(db.read, alertId)
    }),
    operate(operations.resolveAlert, deps),
    operate(operations.resolveAlerts, deps),
    operate(operations.deleteAlert, deps),
    ...alertRuleRoutes(deps),
  ]
}
