import * as api from '../../../../shared/api/account-recovery.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { DEFAULT_ROLES } from '../../../../shared/kernel/permissions.ts'
import { recordChange } from '../../../access/operation.ts'
import { uniqueViolation } from '../../../db/db.ts'
import type { Context } from '../../../http/route.ts'
import { sendMadeToken } from './account-mail.ts'
import { profileOf } from './accounts.ts'
import type { SignInDeps } from './deps.ts'
import { insertUser } from './first-admin.ts'
import { issueToken } from './mailed-tokens.ts'
import { createSession } from './sessions.ts'
import { isSetupRequired } from './setup-state.ts'

/** The role of people who made their accounts themselves. */
const ROLE = DEFAULT_ROLES[1].name

/** Makes an account for a stranger. With a mail server its address is confirmed first; without one it is signed in at once. */
export async function register(
  deps: SignInDeps,
  context: Context<typeof api.register>,
  { email, username, password }: Input<typeof api.register>['body'],
) {
  if (await isSetupRequired(deps.db.read, deps.settings)) {
    context.fail('SETUP_REQUIRED', 'This installation is not set up yet: complete the setup first (panel setup)')
  }
  if (!deps.settings.get('security.registrationEnabled')) {
    context.fail('FEATURE_DISABLED', 'People cannot make accounts for themselves here; ask an administrator')
  }
  const passwordHash = await deps.passwords.hash(password)
  const { origin } = context
  const id = newId('usr', deps.clock)
  const byMail = deps.mailer.isConfigured()
  const made = await deps.db.write(async (tx) => {
    try {
      await insertUser(tx, { id, email, username, passwordHash, emailVerified: 0 })
    } catch (error) {
      const taken = uniqueViolation(error)
      if (taken === undefined) throw error
      context.fail('USER_EXISTS', `This ${taken.includes('email') ? 'e-mail address' : 'user name'} is taken`)
    }
    const role = await tx.q.selectFrom('role').select('id').where('name', '=', ROLE).executeTakeFirst()
    if (role !== undefined) await tx.q.insertInto('userRole').values({ userId: id, roleId: role.id }).execute()
    const principal = { kind: 'caller', caller: undefined, origin, userId: id } as const
    await recordChange(
      tx,
      { deps, principal, endpoint: api.register },
      {
        audit: { resourceId: id, details: { email, username } },
        events: [{ type: 'user_created', data: { user: { id, email, username }, createdBy: id } }],
      },
    )
    const mailed = byMail ? await issueToken(tx, deps.clock, { id, email }, 'verify') : undefined
    const token = byMail ? null : await createSession(tx, deps.clock, { userId: id, origin, persistent: false })
    return { mailed, token, profile: await profileOf(tx.q, id) }
  })
  if (made.mailed !== undefined) sendMadeToken(deps, { id, email }, { purpose: 'verify', token: made.mailed })
  if (made.token !== null) context.setSession(made.token)
  const { id: userId, createdAt: _, ...rest } = made.profile
  return { ...rest, userId, token: made.token }
}
