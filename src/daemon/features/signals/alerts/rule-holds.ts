import { grants } from '../../../../shared/kernel/permissions.ts'
import { serverPermissions } from '../../../access/permit.ts'
import type { At } from '../../../access/relations.ts'
import { rolePermissions } from '../../../access/role-permissions.ts'
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

/** Whether what waits to be sent of an alert may still go where its rule said: as long as a rule of that account would count. */
export async function alertHolds(at: At, alertId: string): Promise<boolean> {
  const found = at.q.selectFrom('alert').select(['ruleId', 'userId', 'serverId']).where('id', '=', alertId)
  const alert = await found.executeTakeFirst()
  if (alert === undefined) return false // its messages go with it
  const { ruleId, userId, serverId } = alert
  const rule = ruleId === null ? undefined : await findRule(at.q, ruleId)
  if (rule !== undefined) return ruleHolds(at, rule)
  return serverId === null || ruleHolds(at, { userId, target: 'server', targetId: serverId })
}
