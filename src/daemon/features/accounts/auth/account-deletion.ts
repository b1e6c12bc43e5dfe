import * as api from '../../../../shared/api/profile.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { isForeignKeyViolation, type Tx } from '../../../db/db.ts'
import { type Route, route } from '../../../http/route.ts'
import type { SignInDeps } from './deps.ts'
import { ensureAdminLeft } from './last-admin.ts'
import { knownByPassword } from './two-factor.ts'

/** So many servers are named in a refusal at most. */
const NAMED = 50

/** The route by which an account deletes itself. */
export function accountDeletionRoutes(deps: SignInDeps): Route[] {
  return [
    route(api.deleteAccount, async ({ body }, context) => {
      const { id, email } = await knownByPassword(deps, context, body.currentPassword)
      await deps.db.write(async (tx) => {
        await ensureOwnsNothing(tx, id)
        const entry = { action: 'auth.account_delete', resource: 'user', resourceId: id, details: { email } }
        await deps.audit.record(tx, context.actor, entry)
        const { username } = await removeUser(tx, id)
        await ensureAdminLeft(tx)
        await deps.bus.append(tx, { type: 'user_deleted', data: { userId: id, email, username, deletedBy: id } })
        tx.onCommit(() => deps.credentials.changed())
      })
      context.setSession(null)
      return null
    }),
  ]
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
