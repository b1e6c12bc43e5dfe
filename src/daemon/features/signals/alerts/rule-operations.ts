import * as api from '../../../../shared/api/alert-rules.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { isoTime } from '../../../../shared/kernel/time.ts'
import { operationsOver } from '../../../access/operation.ts'
import type { Tx } from '../../../db/db.ts'
import { findAlertRow, toAlert } from './alert-rows.ts'
import { notifyTargets } from './raise.ts'
import { permitRule, permitTarget, type Target, visibleRule } from './rule-rights.ts'
import { findRule } from './rule-rows.ts'
import {
  changeRule,
  checkConditions,
  checkTarget,
  fieldsOf,
  insertRule,
  type RuleDeps,
  resolveAllOf,
} from './write-rule.ts'

export const GONE = 'There is no such alert rule'
/** Rules for one server or node; each costs a look every 30 s. */
const MOST_PER_TARGET = 50
/** Tests that one account may send: each is a message to everybody whom the rule notifies. */
const TESTS = [
  { most: 10, minutes: 1 },
  { most: 30, minutes: 60 },
] as const

const operation = operationsOver<RuleDeps>()

export const createAlertRule = operation(api.createAlertRule, async (work, { body }) => {
  const { tx, deps, holder, userId, fail } = work
  checkTarget(body)
  checkConditions(body.type, body.conditions)

  await permitTarget(tx, holder, body, 'alert.create')
  await ensureThere(tx, body)
  if (await isFull(tx, body.targetId ?? null))
    fail('CONFLICT', `There are ${MOST_PER_TARGET} rules for it already; delete one first`)
  const id = newId('rule', deps.clock)
  const made = await insertRule(tx, deps, { id, body, userId, holder })
  const { name, type, target, targetId } = made
  const row = (await findRule(tx.q, id)) ?? missing(id)
  const details = { ...fieldsOf(row), type, target, targetId }
  const entry = { resourceId: id, details }
  const data = { ruleId: id, ruleName: name, createdBy: userId }

  return {
    answer: made,
    audit: entry,
    events: [{ type: 'alert_rule_created', data }],
  }
})

export const updateAlertRule = operation(api.updateAlertRule, async (work, { params: { ruleId }, body }) => {
  const { tx, holder, fail } = work
  const before = (await visibleRule(tx.q, holder, ruleId)) ?? fail('ALERT_RULE_NOT_FOUND', GONE)
  await permitRule(tx, holder, before, 'alert.update')
  return changeRule(work, { before, body })
})

export const deleteAlertRule = operation(api.deleteAlertRule, async (work, { params: { ruleId } }) => {
  const { tx, deps, holder, userId, fail } = work
  const row = (await visibleRule(tx.q, holder, ruleId)) ?? fail('ALERT_RULE_NOT_FOUND', GONE)
  await permitRule(tx, holder, row, 'alert.delete')
  await resolveAllOf(tx, deps, ruleId)
  await tx.q.deleteFrom('alertRule').where('id', '=', ruleId).execute()
  const details = { name: row.name }
  const entry = { resourceId: ruleId, details }
  const data = { ruleId, ruleName: row.name, deletedBy: userId }

  return {
    answer: null,
    audit: entry,
    events: [{ type: 'alert_rule_deleted', data }],
  }
})

/** A resolved alert that says it is a test, with a message to everybody. */
export const testAlertRule = operation(api.testAlertRule, async (work, { params: { ruleId } }) => {
  const { tx, deps, holder, userId, fail } = work
  const rule = (await visibleRule(tx.q, holder, ruleId)) ?? fail('ALERT_RULE_NOT_FOUND', GONE)
  await permitRule(tx, holder, rule, 'alert.update')
  await limitTests(tx, userId)
  const id = newId('alert', deps.clock)
  await tx.q
    .insertInto('alert')
    .values({
      id,
      ruleId,
      userId,
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
      resolvedBy: userId,
    })
    .execute()
  const row = (await findAlertRow(tx.q, id)) ?? missing(id)
  await notifyTargets(tx, deps, { rule, row, event: 'alert.test' })
  const details = { alertId: id }
  const entry = { resourceId: ruleId, details }
  return {
    answer: toAlert(row),
    audit: entry,
  }
})

/** Messages go to addresses that somebody chose: by the audit log, which nobody can shorten, only so many at a time. */
async function limitTests(tx: Tx, userId: string | null): Promise<void> {
  for (const { most, minutes } of TESTS) {
    const since = isoTime(Date.parse(tx.now) - minutes * 60_000)
    const tests = tx.q
      .selectFrom('auditLog')
      .select('createdAt')
      .where('userId', userId === null ? 'is' : '=', userId)
      .where('createdAt', '>', since)
      .where('action', '=', 'alert_rule.test')
    const counted = await tests
      .orderBy('seq', 'desc')
      .limit(1)
      .offset(most - 1)
      .executeTakeFirst()
    if (counted === undefined) continue
    const seconds = Math.max(1, Math.ceil((Date.parse(counted.createdAt) - Date.parse(since)) / 1000))
    const span = minutes === 1 ? 'a minute' : 'an hour'
    throw new PanelError('RATE_LIMITED', `At most ${most} tests ${span}; try again in ${seconds} s`, {
      meta: { retryAfterSeconds: seconds, limit: most },
    })
  }
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
