import * as api from '../../../../shared/api/alert-rules.ts'
import { operate } from '../../../http/operate.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import { denied } from './reach.ts'
import * as operations from './rule-operations.ts'
import { visibleRule } from './rule-rights.ts'
import { listRules, seesAllRules, toRule } from './rule-rows.ts'
import type { RuleDeps } from './write-rule.ts'

/** The routes of alert rules. */
export function alertRuleRoutes(deps: RuleDeps): Route[] {
  const { db } = deps
  return [
    route(api.listAlertRules, async ({ query: { scope, ...query } }, context) => {
      const caller = callerOf(context)
      if (scope === 'all' && !seesAllRules(caller)) throw denied('admin.read')
      const all = seesAllRules(caller) && scope !== 'mine'
      return listRules(db.read, all ? null : caller, query)
    }),
    operate(operations.createAlertRule, deps),
    route(api.getAlertRule, async ({ params }, context) => {
      const row = await visibleRule(db.read, callerOf(context), params.ruleId)
      return toRule(row ?? context.fail('ALERT_RULE_NOT_FOUND', operations.GONE))
    }),
    operate(operations.updateAlertRule, deps),
    operate(operations.deleteAlertRule, deps),
    operate(operations.testAlertRule, deps),
  ]
}
