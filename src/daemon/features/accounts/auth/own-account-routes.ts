import * as authApi from '../../../../shared/api/auth.ts'
import * as profileApi from '../../../../shared/api/profile.ts'
import * as twoFactorApi from '../../../../shared/api/two-factor.ts'
import { operate } from '../../../http/operate.ts'
import { cachedRoute, holderOf, type Route, route } from '../../../http/route.ts'
import { deleteAccount } from './account-deletion.ts'
import { listApiKeyRows } from './api-key-rows.ts'
import { deleteAvatar, getAvatar, setAvatar } from './avatar.ts'
import type { SignInDeps } from './deps.ts'
import { exportProfile } from './own-export.ts'
import { readProfile, updatePreferences, updateProfile } from './own-profile.ts'
import { listOwnAudit } from './own-records.ts'
import * as profile from './profile.ts'
import * as twoFactor from './two-factor.ts'
import { wholeUser } from './whole-user.ts'

/** The routes of whoever is signed in: their session and password, profile, picture, second factor, records, and its end. */
export function ownAccountRoutes(deps: SignInDeps): Route[] {
  return [...sessionRoutes(deps), ...profileRoutes(deps), ...twoFactorRoutes(deps), ...recordRoutes(deps)]
}

function sessionRoutes(deps: SignInDeps): Route[] {
  return [
    route(authApi.getMe, (input, context) => profile.getMe(deps, input, context)),
    route(authApi.logout, (input, context) => profile.signOut(deps, input, context)),
    route(authApi.signOutAlias, (input, context) => profile.signOut(deps, input, context)),
    route(authApi.listSessions, (input, context) => profile.listSessions(deps, input, context)),
    operate(profile.revokeSession, deps),
    operate(profile.revokeOtherSessions, deps),
    route(authApi.setPassword, (input, context) => profile.setPassword(deps, input, context)),
    route(authApi.changePassword, (input, context) => profile.changePassword(deps, input, context)),
  ]
}

function profileRoutes(deps: SignInDeps): Route[] {
  return [
    cachedRoute(profileApi.getProfile, (_, context) => readProfile(context.at.q, holderOf(context).userId)),
    operate(updateProfile, deps),
    operate(updatePreferences, deps),
    route(profileApi.setAvatar, (input, context) => setAvatar(deps, input, context)),
    operate(deleteAvatar, deps),
    route(profileApi.getAvatar, (input, context) => getAvatar(deps, input, context)),
    route(profileApi.deleteAccount, (input, context) => deleteAccount(deps, input, context)),
  ]
}

/** An account begins and ends with two-factor sign-in; its first code is verified at the sign-in. */
function twoFactorRoutes(deps: SignInDeps): Route[] {
  return [
    route(twoFactorApi.getTwoFactor, (input, context) => twoFactor.getTwoFactor(deps, input, context)),
    route(twoFactorApi.enableTwoFactor, (input, context) => twoFactor.enableTwoFactor(deps, input, context)),
    route(twoFactorApi.disableTwoFactor, (input, context) => twoFactor.disableTwoFactor(deps, input, context)),
    route(twoFactorApi.renewRecoveryCodes, (input, context) => twoFactor.renewRecoveryCodes(deps, input, context)),
  ]
}

/** What the panel has written down about the caller. */
function recordRoutes(deps: SignInDeps): Route[] {
  return [
    route(profileApi.listOwnAuditLogs, ({ query }, context) =>
      listOwnAudit(deps.db.read, { ...query, userId: wholeUser(context).userId }),
    ),
    route(profileApi.listOwnApiKeys, ({ query }, context) =>
      listApiKeyRows(deps.db.read, { ...query, ownerId: wholeUser(context).userId }),
    ),
    route(profileApi.exportProfile, (_, context) => exportProfile(deps, context)),
  ]
}
