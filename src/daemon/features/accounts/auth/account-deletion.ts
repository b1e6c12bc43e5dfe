import * as api from '../../../../shared/api/profile.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { recordChange } from '../../../access/operation.ts'
import { isForeignKeyViolation, type Tx } from '../../../db/db.ts'
import type { Context } from '../../../http/route.ts'
import type { SignInDeps } from './deps.ts'
import { ensureAdminLeft } from './last-admin.ts'
import { knownByPassword } from './two-factor.ts'

/** So many servers are named in a refusal at most. */
const NAMED = 50

/** Deletes the account of the caller, after a look at the password. */
export async function deleteAccount(
  deps: SignInDeps,
  { body }: Input<typeof api.deleteAccount>,
  context: Context<typeof api.deleteAccount>,
) {
  const { id, email } = await knownByPassword(deps, context, body.currentPassword)
  const { principal } = context
  await deps.db.write(async (tx) => {
    await ensureOwnsNothing(tx, id)
    const by = { deps, principal, endpoint: api.deleteAccount }
    await recordChange(tx, by, { audit: { resourceId: id, details: { email } } })
    const { username } = await removeUser(tx, id)
    await ensureAdminLeft(tx)
    const data = { userId: id, email, username, deletedBy: id }
    await recordChange(tx, by, { events: [{ type: 'user_deleted', data }] })
    tx.onCommit(() => deps.credentials.changed())
  })
  context.setSession(null)
  return null
}

async function ensureOwnsNothing(tx: Tx, userId: string): Promise<void> {
  const ownedServers = await tx.q
    .selectFrom('server')
    .select(['id', 'name'])
    .where('ownerId', '=', userId)
    .orderBy('id')
    .limit(NAMED)
    .execute()
  if (ownedServers.length > 0) throw ownsServers({ ownedServers })
}

async function removeUser(tx: Tx, userId: string): Promise<{ username: string }> {
  try {
    return await tx.q.deleteFrom('user').where('id', '=', userId).returning('username').executeTakeFirstOrThrow()
  } catch (error) {
    if (isForeignKeyViolation(error)) throw ownsServers({})
    throw error
  }
}

function ownsServers(meta: Record<string, unknown>): PanelError {
  const message = 'You still own servers; delete them or give them to somebody else first'
  return new PanelError('USER_OWNS_SERVERS', message, { meta })
}
