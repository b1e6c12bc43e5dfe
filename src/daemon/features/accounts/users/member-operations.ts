import * as api from '../../../../shared/api/roles.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { type Done, operationsOver, type WorkOver } from '../../../access/operation.ts'
import { uniqueViolation } from '../../../db/db.ts'
import type { AccountDeps } from '../auth/deps.ts'
import { holderNow } from '../auth/grant-cap.ts'
import { ensureAdminLeft } from '../auth/last-admin.ts'
import { ensureRoles } from './new-user.ts'
import { ensureNotAbove } from './rank.ts'
import { findRole } from './role-rows.ts'

const operation = operationsOver<AccountDeps>()

export const addRoleMember = operation(api.addRoleMember, (work, { params }) =>
  changeMember(work, { ...params, change: 'role_assigned' }, async () => {
    await work.tx.q
      .insertInto('userRole')
      .values(params)
      .execute()
      .catch((error: unknown) => {
        if (uniqueViolation(error) === undefined) throw error
        return work.fail('CONFLICT', 'The user has this role already')
      })
  }),
)

export const removeRoleMember = operation(api.removeRoleMember, (work, { params }) =>
  changeMember(work, { ...params, change: 'role_removed' }, async () => {
    const { numDeletedRows } = await work.tx.q
      .deleteFrom('userRole')
      .where('roleId', '=', params.roleId)
      .where('userId', '=', params.userId)
      .executeTakeFirst()
    if (numDeletedRows === 0n) work.fail('NOT_FOUND', 'The user does not have this role')
    await ensureAdminLeft(work.tx)
  }),
)

async function changeMember(
  work: WorkOver<AccountDeps>,
  { roleId, userId, change }: { readonly roleId: string; readonly userId: string; readonly change: string },
  write: () => Promise<void>,
): Promise<Done & { answer: null }> {
  const { tx, deps } = work
  const holder = await holderNow(work)
  const role = await findRole(tx.q, roleId)
  if (role === undefined) throw new PanelError('ROLE_NOT_FOUND', `There is no role ${roleId}`)
  const user = await tx.q.selectFrom('user').select('username').where('id', '=', userId).executeTakeFirst()
  if (user === undefined) throw new PanelError('USER_NOT_FOUND', `There is no account ${userId}`)
  await ensureRoles(tx, holder, [roleId])
  await ensureNotAbove(tx, holder, userId)
  await write()
  tx.onCommit(() => deps.credentials.changed())
  const { username } = user
  return {
    answer: null,
    audit: { resourceId: userId, details: { roleId, role: role.name, username } },
    events: [{ type: 'user_updated', data: { userId, username, updatedBy: work.userId, change, roleId } }],
  }
}
