import type * as api from '../../../../shared/api/alert-rules.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { grants, type Permission } from '../../../../shared/kernel/permissions.ts'
import { type Holder, serverPermissions } from '../../../access/permit.ts'
import type { At } from '../../../access/relations.ts'
import type { Queries } from '../../../db/db.ts'
import { denied } from './reach.ts'
import { findRule, type RuleRow, seesRule } from './rule-rows.ts'

export type Target = Pick<Input<typeof api.createAlertRule>['body'], 'target'> & {
  readonly targetId?: string | null | undefined
}

/** Rules for a server are for whom its alerts are, all others for administrators. */
export async function permitTarget(
  at: At,
  holder: Holder,
  { target, targetId }: Target,
  permission: Permission,
): Promise<void> {
  if (target !== 'server') {
    if (!grants(holder.permissions, 'admin.write')) throw denied('admin.write')
    return
  }
  const held = await serverPermissions(at, holder, targetId ?? '', [permission])
  if (held.length === 0 && !grants(holder.permissions, 'admin.write')) throw denied(permission)
}

/** An administrator may change every rule, an owner their own while they may be notified of the server. */
export async function permitRule(at: At, holder: Holder, rule: RuleRow, permission: Permission): Promise<void> {
  if (grants(holder.permissions, 'admin.write')) return
  if (rule.userId !== holder.userId) throw denied('admin.write')
  await permitTarget(at, holder, rule, permission)
}

export async function visibleRule(q: Queries, holder: Holder, id: string): Promise<RuleRow | undefined> {
  const row = await findRule(q, id)
  return row !== undefined && seesRule(holder, row) ? row : undefined
}
