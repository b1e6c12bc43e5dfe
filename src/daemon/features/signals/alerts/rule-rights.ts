import type * as api from '../../../../shared/api/alert-rules.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { grants, type Permission } from '../../../../shared/kernel/permissions.ts'
import type { Caller } from '../../../access/caller.ts'
import { serverPermissions } from '../../../access/permit.ts'
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
export async function permitRule(at: At, caller: Caller, rule: RuleRow, permission: Permission): Promise<void> {
  if (grants(caller.permissions, 'admin.write')) return
  if (rule.userId !== caller.userId) throw denied('admin.write')
  await permitTarget(at, caller, rule, permission)
}

export async function visibleRule(q: Queries, caller: Caller, id: string): Promise<RuleRow | undefined> {
  const row = await findRule(q, id)
  return row !== undefined && seesRule(caller, row) ? row : undefined
}
