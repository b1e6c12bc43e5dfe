import type { openSftpSession } from '../../../../shared/api/sftp-sessions.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { now } from '../../../../shared/kernel/time.ts'
import { countedAddress } from '../../../../shared/platform/counted-address.ts'
import type { Origin } from '../../../access/caller.ts'
import type { At } from '../../../access/relations.ts'
import { type Account, accountById, findAccount } from '../../accounts/auth/accounts.ts'
import { type Attempt, forgetFailures, recordFailure, refuseLocked } from '../../accounts/auth/lockout.ts'
import { checkPassword } from '../../accounts/auth/sign-in.ts'
import { readPublicKey } from '../../accounts/ssh-keys/public-key.ts'
import { findSshKey } from '../../accounts/ssh-keys/rows.ts'
import type { SftpDeps } from './deps.ts'
import { type CredentialOf, passwordMark, passwordProblem } from './grants.ts'
import { findToken, isToken } from './rows.ts'

/** Who has come in, by what. */
export interface Authenticated extends CredentialOf {
  readonly isReadOnly: 0 | 1
  /** The API key that has made a token. */
  readonly apiKeyId: string | null
  /** The server of a token; other credentials are good for all of their user's. */
  readonly serverId: string | null
  /** Why they do not come in all the same. */
  readonly refusal: string | undefined
}

type Asked = Input<typeof openSftpSession>['body']

/** The two parts of `name.<server>`: names of accounts may have dots, those of servers may not. */
export function partsOfUsername(username: string): { readonly name: string; readonly server: string } {
  const dot = username.lastIndexOf('.')
  return dot < 0 ? { name: username, server: '' } : { name: username.slice(0, dot), server: username.slice(dot + 1) }
}

/**
 * Looks at a credential; `undefined` when it is not one of the account's, which counts for lock-outs where it can be guessed. Attempts
 * of one address happen one after the other. Throws ACCOUNT_LOCKED, RATE_LIMITED.
 */
export async function authenticate(
  deps: SftpDeps,
  { username, credential }: Asked,
  origin: Origin,
): Promise<Authenticated | undefined> {
  const typed = partsOfUsername(username).name.toLowerCase()
  const found = typed === '' ? undefined : await findAccount(deps.db.read, typed)
  const attempt = { account: found?.email ?? typed, origin }
  if (credential.method === 'key') {
    await refuseLocked(deps.db.read, attempt, deps.clock.nowMs())
    return found === undefined ? undefined : await byKey(deps, found, credential.publicKey)
  }
  const { password } = credential
  return await deps.turns.take(countedAddress(origin.ip), () =>
    isToken(password)
      ? byToken(deps, attempt, { found, token: password })
      : byPassword(deps, attempt, { found, password }),
  )
}

async function byKey({ db }: SftpDeps, { id: userId }: Account, text: string): Promise<Authenticated | undefined> {
  const key = readPublicKey(text)
  if (typeof key === 'string') return undefined
  const row = await findSshKey(db.read, userId, key.fingerprint)
  if (row === undefined) return undefined
  const { id: credential, isReadOnly } = row
  return { userId, method: 'key', credential, isReadOnly, apiKeyId: null, serverId: null, refusal: undefined }
}

async function byToken(
  deps: SftpDeps,
  attempt: Attempt,
  { found, token }: { readonly found: Account | undefined; readonly token: string },
): Promise<Authenticated | undefined> {
  await refuseLocked(deps.db.read, attempt, deps.clock.nowMs())
  const row =
    found === undefined ? undefined : await findToken(deps.db.read, { userId: found.id, token, now: now(deps.clock) })
  if (row === undefined) {
    await deps.db.write((tx) => recordFailure(deps, tx, { ...attempt, userId: found?.id }))
    return undefined
  }
  const { userId, id: credential, apiKeyId, serverId } = row
  return { userId, method: 'token', credential, isReadOnly: 0, apiKeyId, serverId, refusal: undefined }
}

async function byPassword(
  deps: SftpDeps,
  attempt: Attempt,
  { found, password }: { readonly found: Account | undefined; readonly password: string },
): Promise<Authenticated | undefined> {
  const account = await checkPassword(deps, { ...attempt, found }, password)
  if (account === undefined) return undefined
  const at = { q: deps.db.read, now: now(deps.clock) }
  await deps.db.write((tx) => forgetFailures(tx.q, attempt))
  const current = await accountById(deps.db.read, account.id)
  const credential = passwordMark(current.passwordHash ?? '')
  const refusal = await passwordRefusal(deps, at, current)
  const whole = { isReadOnly: 0, apiKeyId: null, serverId: null } as const
  return { userId: account.id, method: 'password', credential, ...whole, refusal }
}

async function passwordRefusal({ mailer }: SftpDeps, at: At, account: Account): Promise<string | undefined> {
  if (account.emailVerified === 0 && mailer.isConfigured()) {
    return 'The e-mail address of this account is not confirmed yet: sign in to the panel first'
  }
  return await passwordProblem(at, account.id)
}
