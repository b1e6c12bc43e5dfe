import { grants } from '../../../../shared/kernel/permissions.ts'
import { serverPermissions } from '../../../access/permit.ts'
import type { At } from '../../../access/relations.ts'
import { rolePermissions } from '../../../access/role-permissions.ts'
import type { RuleRow } from './rule-rows.ts'

/**
 * Whether a rule still counts: its owner is not banned and may still see what it would report. The panel's own rules
 * count; one for a server whose owner is gone does not.
 */
export async function ruleHolds(at: At, { userId, target, targetId }: RuleRow): Promise<boolean> {
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
