import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Tx } from '../../../db/db.ts'

/**
 * Refuses with LAST_ADMIN a change after which nobody could do everything any more: called at the end of every write that
 * takes a role, a permission or an account away. A banned administrator counts as none, and so does one who was invited and has nothing yet to come in
 * by: the invitation ends by itself.
 */
export async function ensureAdminLeft(tx: Tx): Promise<void> {
  const left = await tx.q
    .selectFrom('role')
    .innerJoin('userRole', 'userRole.roleId', 'role.id')
    .innerJoin('user', 'user.id', 'userRole.userId')
    .select('user.id')
    .where('role.permissions', 'like', '%"*"%')
    .where((eb) => eb.or([eb('user.banned', '=', 0), eb('user.banExpires', '<=', tx.now)]))
    .where(({ eb, exists, or, selectFrom }) =>
      or([
        eb('user.passwordHash', 'is not', null),
        eb('user.lastSuccessfulLogin', 'is not', null),
        exists(selectFrom('apiKey').select('apiKey.id').whereRef('apiKey.userId', '=', 'user.id')),
        exists(selectFrom('session').select('session.id').whereRef('session.userId', '=', 'user.id')),
      ]),
    )
    .executeTakeFirst()
  if (left !== undefined) return
  throw new PanelError('LAST_ADMIN', 'Nobody would be left who may do everything; give somebody else that right first')
}
