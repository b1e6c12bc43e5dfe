import type * as api from '../../../../shared/api/auth.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { newSecret, secretMatches, sha256 } from '../../../core/secrets.ts'
import type { Context } from '../../../http/route.ts'
import { profileOf } from './accounts.ts'
import type { AccountDeps } from './deps.ts'
import { createFirstAdmin } from './first-admin.ts'
import { createSession } from './sessions.ts'
import { isSetupRequired } from './setup-state.ts'

/** What keeps strangers from completing the setup: a token that only the daemon's owner has seen. */
export interface SetupGate {
  readonly token: string
  /** Whether the given token is this one; takes the same time either way. */
  check(given: string | undefined): boolean
}

/** A gate with the token of the environment, or a fresh one that the daemon prints once. */
export function createSetupGate(given?: string): SetupGate {
  const token = given === undefined || given === '' ? newSecret() : given
  const hash = sha256(token)
  return { token, check: (tried) => secretMatches(tried ?? '', hash) }
}

/** Makes the first administrator and signs them in; the password is hashed before the transaction. */
export async function completeSetup(
  deps: AccountDeps & { gate: SetupGate },
  { body }: Input<typeof api.completeSetup>,
  context: Context<typeof api.completeSetup>,
) {
  if (!(await isSetupRequired(deps.db.read, deps.settings))) {
    context.fail('SETUP_ALREADY_COMPLETE', 'This installation is set up already; sign in instead')
  }
  if (!deps.gate.check(body.setupToken)) {
    context.fail(
      'SETUP_TOKEN_INVALID',
      'The setup token is missing or wrong; it stands in the first lines that the daemon printed',
    )
  }
  const passwordHash = await deps.passwords.hash(body.password)
  const { origin } = context
  const made = await deps.db.write(async (tx) => {
    const { email, username, panelName, locale } = body
    const { userId } = await createFirstAdmin(tx, deps, {
      email,
      username,
      passwordHash,
      panelName,
      locale,
      origin,
    })
    const token = await createSession(tx, deps.clock, { userId, origin, persistent: false })
    return { token, profile: await profileOf(tx.q, userId) }
  })
  context.setSession(made.token)
  return { ...made.profile, panelName: body.panelName, token: made.token }
}
