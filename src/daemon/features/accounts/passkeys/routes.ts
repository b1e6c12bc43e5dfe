import * as api from '../../../../shared/api/passkeys.ts'
import { operate } from '../../../http/operate.ts'
import { type Route, route } from '../../../http/route.ts'
import type { SignInDeps } from '../auth/deps.ts'
import { createTurns } from '../auth/turns.ts'
import { wholeUser } from '../auth/whole-user.ts'
import * as own from './own-passkeys.ts'
import { signInByPasskey, signInOptions } from './sign-in.ts'

/** Sign-ins of one address that may wait for each other. */
const WAITING_PER_ADDRESS = 1000

/** The routes of passkeys and of sign-in by them. */
export function passkeyRoutes(given: Omit<SignInDeps, 'turns'>): Route[] {
  const deps = { ...given, turns: createTurns(WAITING_PER_ADDRESS) }
  return [
    route(api.listPasskeys, (input, context) => own.listPasskeys(deps, input, context)),
    route(api.beginPasskey, ({ body }, context) => own.beginPasskey(deps, wholeUser(context).userId, body ?? {})),
    route(api.verifyPasskey, (input, context) => own.verifyPasskey(deps, input, context)),
    operate(own.renamePasskey, deps),
    operate(own.deletePasskey, deps),
    route(api.passkeySignInOptions, () => signInOptions(deps)),
    route(api.passkeySignInOptionsRead, () => signInOptions(deps)),
    route(api.signInByPasskey, ({ body }, context) => signInByPasskey(deps, context, body)),
  ]
}
