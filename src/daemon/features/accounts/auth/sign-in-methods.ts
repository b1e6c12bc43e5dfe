import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Tx } from '../../../db/db.ts'

/**
 * Refuses with LAST_SIGN_IN_METHOD a change after which an account could not sign in any more: it needs a password, a passkey
 * or an account at an identity provider. API keys do not count: they end.
 */
export async function ensureWayLeft(tx: Tx, userId: string): Promise<void> {
  const user = await tx.q.selectFrom('user').select('passwordHash').where('id', '=', userId).executeTakeFirstOrThrow()
  if (user.passwordHash !== null) return
  const passkey = await tx.q.selectFrom('passkey').select('id').where('userId', '=', userId).executeTakeFirst()
  if (passkey !== undefined) return
  const identity = await tx.q.selectFrom('identity').select('id').where('userId', '=', userId).executeTakeFirst()
  if (identity !== undefined) return
  throw new PanelError(
    'LAST_SIGN_IN_METHOD',
    'You could not sign in any more: set a password, or add a passkey or another account first',
  )
}
