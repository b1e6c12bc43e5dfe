import { grants } from '../../../../shared/kernel/permissions.ts'
import { serverPermissions } from '../../../access/permit.ts'
import type { At } from '../../../access/relations.ts'
import { rolePermissions } from '../../../access/role-permissions.ts'
import { addressProblem } from './mail-addresses.ts'
import { findRule, type RuleRow } from './rule-rows.ts'

/**
 * Whether a rule still counts: its owner is not banned and may still see what it would report. The panel's own rules
 * count; one for a server whose owner is gone does not.
 */
export async function ruleHolds(
  at: At,
  { userId, target, targetId }: Pick<RuleRow, 'userId' | 'target' | 'targetId'>,
): Promise<boolean> {
  if (userId === null) return target !== 'server'
  const user = await at.q
    .selectFrom('user')
    .select(['banned', 'banExpires'])
    .where('id', '=', userId)
    .executeTakeFirst()
  if (user === undefined || (user.banned === 1 && (user.banExpires === null || user.banExpires > at.now))) return false
  const permissions = await rolePermissions(at.q, userId)
  if (grants(permissions, 'admin.read')) return true
  if (target !== 'server') return false
  const holder = { userId, permissions, scope: null }
  return (await serverPermissions(at, holder, targetId ?? '', ['alert.read'])).length > 0
}

/**
 * Why what waits to be sent of an alert may not go where its rule said (`address`: by mail, there); `undefined` as long as a
 * rule of that account would count and may send mail there.
 */
export async function alertRefusal(at: At, alertId: string, address: string | null): Promise<string | undefined> {
  const rule = await ruleBehind(at, alertId)
  if (rule === undefined) return undefined
  if (!(await ruleHolds(at, rule))) return 'Whoever made the alert rule may not be notified of this any more'
  const problem = address === null ? undefined : await addressProblem(at, rule, address)
  return problem === undefined ? undefined : `${address} ${problem}`
}

/** Whose rule an alert was raised by, also when that is gone; `undefined` where nobody can have lost a right to it. */
async function ruleBehind(
  at: At,
  alertId: string,
): Promise<Pick<RuleRow, 'userId' | 'target' | 'targetId'> | undefined> {
  const found = at.q.selectFrom('alert').select(['ruleId', 'userId', 'serverId']).where('id', '=', alertId)
  const alert = await found.executeTakeFirst()
  if (alert === undefined) return undefined // its messages go with it
  const { ruleId, userId, serverId } = alert
  const rule = ruleId === null ? undefined : await findRule(at.q, ruleId)
  if (rule !== undefined) return rule
  return serverId === null ? undefined : { userId, target: 'server', targetId: serverId }
}
