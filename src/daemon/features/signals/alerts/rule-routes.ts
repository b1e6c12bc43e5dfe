import * as api from '../../../../shared/api/alert-rules.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { grants, type Permission } from '../../../../shared/kernel/permissions.ts'
import { isoTime } from '../../../../shared/kernel/time.ts'
import type { Caller } from '../../../access/caller.ts'
import { serverPermissions } from '../../../access/permit.ts'
import type { At } from '../../../access/relations.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import { findAlertRow, toAlert } from './alert-rows.ts'
import { notifyTargets } from './raise.ts'
import { denied } from './reach.ts'
import { findRule, listRules, type RuleRow, seesAllRules, seesRule, toRule } from './rule-rows.ts'
import {
  changeRule,
  checkConditions,
  checkTarget,
  fieldsOf,
  insertRule,
  type RuleDeps,
  resolveAllOf,
} from './write-rule.ts'

const GONE = 'There is no such alert rule'
/** Rules for one server or node; each costs a look every 30 s. */
const MOST_PER_TARGET = 50
const TESTS_PER_MINUTE = 10

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
    create(deps),
    route(api.getAlertRule, async ({ params }, context) => {
      const row = await visibleRule(db.read, callerOf(context), params.ruleId)
      return toRule(row ?? context.fail('ALERT_RULE_NOT_FOUND', GONE))
    }),
    route(api.updateAlertRule, ({ params, body }, context) =>
      db.write(async (tx) => {
        const caller = callerOf(context)
        const before = (await visibleRule(tx.q, caller, params.ruleId)) ?? context.fail('ALERT_RULE_NOT_FOUND', GONE)
        await permitRule(tx, caller, before, 'alert.update')
        return changeRule(tx, deps, { before, body, actor: context.actor })
      }),
    ),
    remove(deps),
    test(deps),
  ]
}

function create(deps: RuleDeps): Route {
  return route(api.createAlertRule, ({ body }, context) => {
    checkTarget(body)
    checkConditions(body.type, body.conditions)
    return deps.db.write(async (tx) => {
      const caller = callerOf(context)
      await permitTarget(tx, caller, body, 'alert.create')
      await ensureThere(tx, body)
      if (await isFull(tx, body.targetId ?? null))
        context.fail('CONFLICT', `There are ${MOST_PER_TARGET} rules for it already; delete one first`)
      const id = newId('rule', deps.clock)
      const made = await insertRule(tx, deps, { id, body, userId: caller.userId })
      const { name, type, target, targetId } = made
      const row = (await findRule(tx.q, id)) ?? missing(id)
      const details = { ...fieldsOf(row), type, target, targetId }
      const entry = { action: 'alert_rule.create', resource: 'alert_rule', resourceId: id, details }
      await deps.audit.record(tx, context.actor, entry)
      const data = { ruleId: id, ruleName: name, createdBy: caller.userId }
      await deps.bus.append(tx, { type: 'alert_rule_created', data })
      return made
    })
  })
}

function remove(deps: RuleDeps): Route {
  return route(api.deleteAlertRule, ({ params: { ruleId } }, context) =>
    deps.db.write(async (tx) => {
      const caller = callerOf(context)
      const row = (await visibleRule(tx.q, caller, ruleId)) ?? context.fail('ALERT_RULE_NOT_FOUND', GONE)
      await permitRule(tx, caller, row, 'alert.delete')
      await resolveAllOf(tx, deps, ruleId)
      await tx.q.deleteFrom('alertRule').where('id', '=', ruleId).execute()
      const details = { name: row.name }
      const entry = { action: 'alert_rule.delete', resource: 'alert_rule', resourceId: ruleId, details }
      await deps.audit.record(tx, context.actor, entry)
      const data = { ruleId, ruleName: row.name, deletedBy: caller.userId }
      await deps.bus.append(tx, { type: 'alert_rule_deleted', data })
      return null
    }),
  )
}

/** A resolved alert that says it is a test, with a message to everybody. */
function test(deps: RuleDeps): Route {
  return route(api.testAlertRule, ({ params: { ruleId } }, context) =>
    deps.db.write(async (tx) => {
      const caller = callerOf(context)
      const rule = (await visibleRule(tx.q, caller, ruleId)) ?? context.fail('ALERT_RULE_NOT_FOUND', GONE)
      await permitRule(tx, caller, rule, 'alert.update')
      await limitTests(tx, caller)
      const id = newId('alert', deps.clock)
      await tx.q
        .insertInto('alert')
        .values({
          id,
          ruleId,
          userId: caller.userId,
          serverId: rule.target === 'server' ? rule.targetId : null,
          nodeId: rule.target === 'node' ? rule.targetId : null,
          subjectId: rule.targetId ?? '',
          metric: '',
          listed: 1,
          type: 'custom',
          severity: 'info',
          title: `Test of the rule ${rule.name}`,
          message: `This is a test of the alert rule ${rule.name}; nothing has happened.`,
          metadata: '{}',
          createdAt: tx.now,
          resolvedAt: tx.now,
          resolvedBy: caller.userId,
        })
        .execute()
      const row = (await findAlertRow(tx.q, id)) ?? missing(id)
      await notifyTargets(tx, deps, { rule, row, event: 'alert.test' })
      const details = { alertId: id }
      const entry = { action: 'alert_rule.test', resource: 'alert_rule', resourceId: ruleId, details }
      await deps.audit.record(tx, context.actor, entry)
      return toAlert(row)
    }),
  )
}

/** Messages go to addresses that the caller chose: by the audit log, which nobody can shorten, only so many a minute. */
async function limitTests(tx: Tx, { userId }: Caller): Promise<void> {
  const since = isoTime(Date.parse(tx.now) - 60_000)
  const tests = tx.q
    .selectFrom('auditLog')
    .select('id')
    .where('userId', '=', userId)
    .where('createdAt', '>', since)
    .where('action', '=', 'alert_rule.test')
  if (
    (await tests
      .limit(1)
      .offset(TESTS_PER_MINUTE - 1)
      .executeTakeFirst()) === undefined
  )
    return
  throw new PanelError('RATE_LIMITED', `At most ${TESTS_PER_MINUTE} tests a minute; try again in a minute`, {
    meta: { retryAfterSeconds: 60, limit: TESTS_PER_MINUTE },
  })
}

type Target = Pick<Input<typeof api.createAlertRule>['body'], 'target'> & {
  readonly targetId?: string | null | undefined
}

/** Rules for a server are for whom its alerts are, all others for administrators. */
async function permitTarget(
  at: At,
  caller: Caller,
  { target, targetId }: Target,
  permission: Permission,
): Promise<void> {
  if (target !== 'server') {
    if (!grants(caller.permissions, 'admin.write')) throw denied('admin.write')
    return
  }
  const held = await serverPermissions(at, caller, targetId ?? '', [permission])
  if (held.length === 0 && !grants(caller.permissions, 'admin.write')) throw denied(permission)
}

/** An administrator may change every rule, its owner his own while the server is his to be told of. */
async function permitRule(at: At, caller: Caller, rule: RuleRow, permission: Permission): Promise<void> {
  if (grants(caller.permissions, 'admin.write')) return
  if (rule.userId !== caller.userId) throw denied('admin.write')
  await permitTarget(at, caller, rule, permission)
}

async function visibleRule(q: Queries, caller: Caller, id: string): Promise<RuleRow | undefined> {
  const row = await findRule(q, id)
  return row !== undefined && seesRule(caller, row) ? row : undefined
}

async function ensureThere(tx: Tx, { target, targetId }: Target): Promise<void> {
  if (target === 'global') return
  const row = await tx.q
    .selectFrom(target)
    .select('id')
    .where('id', '=', targetId ?? '')
    .executeTakeFirst()
  if (row !== undefined) return
  if (target === 'server') throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
  throw new PanelError('NODE_NOT_FOUND', 'There is no such node')
}

async function isFull(tx: Tx, targetId: string | null): Promise<boolean> {
  const rules = tx.q
    .selectFrom('alertRule')
    .select('id')
    .where('targetId', targetId === null ? 'is' : '=', targetId)
  return (
    (await rules
      .limit(1)
      .offset(MOST_PER_TARGET - 1)
      .executeTakeFirst()) !== undefined
  )
}

function missing(id: string): never {
  throw new Error(`${id} is gone within the transaction that wrote it`)
}
