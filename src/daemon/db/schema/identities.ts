import type { IsoTime } from '../../../shared/kernel/time.ts'
import type { Flag, Json, Stamps } from './columns.ts'

interface IdentityProviderTable extends Stamps {
  id: string
  name: string
  clientId: string | null
  /** Sealed by the vault. */
  clientSecret: string | null
  discoveryUrl: string | null
  enabled: Flag
  scopes: Json
  allowedDomains: Json
  createAccounts: Flag
  linkByEmail: Flag
  groupClaim: string | null
  /** What the administrator who configured it may give: the provider's word never brings anybody more. */
  vouched: Json
}

/** Members of a group at a provider have the role; the group `*` are all of its people. */
interface ProviderRoleTable {
  providerId: string
  groupName: string
  roleId: string
}

/** An account at a provider and whom it signs in. The issuer counts: another one behind the same provider is another identity. */
interface IdentityTable extends Stamps {
  id: string
  userId: string
  providerId: string
  issuer: string
  subject: string
  email: string | null
  scopes: Json
  lastUsedAt: IsoTime | null
}

/** A role that an account has only because a provider's mapping gave it. */
interface IdentityRoleTable {
  identityId: string
  roleId: string
}

/** A browser that is on its way to a provider and back. */
interface SignInFlowTable {
  id: string
  providerId: string
  /** Whose account is linked; `null`: somebody signs in. */
  userId: string | null
  /** Of the address that a program opens in a browser; used up by it. */
  ticketHash: string | null
  /** Of the `state` that comes back. */
  stateHash: string | null
  /** Of the cookie of the browser that was sent; verifier and nonce are derived from it. */
  bindingHash: string | null
  /** The path that the browser goes to in the end. */
  returnTo: string | null
  loopbackPort: number | null
  loopbackState: string | null
  codeChallenge: string | null
  expiresAt: IsoTime
  createdAt: IsoTime
}

/** What a browser carries to a waiting program, once. */
interface SignInCodeTable {
  codeHash: string
  userId: string
  /** The identity to be linked; `null`: a sign-in. */
  linking: Json | null
  codeChallenge: string
  expiresAt: IsoTime
  createdAt: IsoTime
}

interface PasskeyTable extends Stamps {
  id: string
  userId: string
  credentialId: string
  publicKey: Uint8Array
  counter: number
  name: string | null
  deviceType: 'singleDevice' | 'multiDevice'
  backedUp: Flag
  transports: Json
  aaguid: string | null
  lastUsedAt: IsoTime | null
}

/** A challenge that was handed out, good once. `userId`: for a new passkey of this account; `null`: for a sign-in. */
interface PasskeyChallengeTable {
  challengeHash: string
  userId: string | null
  expiresAt: IsoTime
  createdAt: IsoTime
}

/** How people sign in other than by password. */
export interface IdentityTables {
  identityProvider: IdentityProviderTable
  providerRole: ProviderRoleTable
  identity: IdentityTable
  identityRole: IdentityRoleTable
  signInFlow: SignInFlowTable
  signInCode: SignInCodeTable
  passkey: PasskeyTable
  passkeyChallenge: PasskeyChallengeTable
}
