import * as api from '../../../../shared/api/lockouts.ts'
import { type OperationDeps, operationsOver } from '../../../access/operation.ts'

const operation = operationsOver<OperationDeps>()

export const deleteLockout = operation(api.deleteLockout, async ({ tx, userId, fail }, { params: { lockoutId } }) => {
  const row = await tx.q
    .deleteFrom('authLockout')
    .where('id', '=', lockoutId)
    .returning(['id', 'email', 'ipAddress', 'failureCount', 'lockedUntil'])
    .executeTakeFirst()
  if (row === undefined) return fail('ADMIN_LOCKOUT_NOT_FOUND', `There is no lockout ${lockoutId}`)
  const { id, ...details } = row
  const data = { lockoutId: id, email: row.email, ipAddress: row.ipAddress, clearedBy: userId }
  return {
    answer: null,
    audit: { resourceId: id, details },
    events: [{ type: 'auth_lockout_cleared', data }],
  }
})
