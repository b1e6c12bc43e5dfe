import { completeSsoLink } from '../../../../shared/api/sso.ts'
import { createUser } from '../../../../shared/api/users.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import type { Origin } from '../../../access/caller.ts'
import { recordChange, unauthenticated } from '../../../access/operation.ts'
import { type Tx, uniqueViolation } from '../../../db/db.ts'
import { type Account, accountById, findAccount } from '../auth/accounts.ts'
import { insertUser } from '../auth/first-admin.ts'
import { mayMail } from '../auth/mail-trust.ts'
import { ensureHoldsAllOf } from '../users/rank.ts'
import type { Person } from './claims.ts'
import type { Linking } from './codes.ts'
import type { SsoDeps } from './deps.ts'
import type { ProviderEntry } from './provider-rows.ts'
import { syncRoles } from './role-sync.ts'
import { freeUsername } from './usernames.ts'

/** Somebody whom a provider has signed in, from where. */
interface Arrival {
  readonly provider: ProviderEntry
  readonly person: Person
  readonly origin: Origin
}

/**
 * The account of whom a provider has signed in: the one that is linked, else by the rules of the provider the one with their
 * address, or a new one. Its roles follow their groups. Fails with a PanelError that says why there is none.
 */
export async function admit(tx: Tx, deps: SsoDeps, arrival: Arrival): Promise<Account> {
  const { provider, person, origin } = arrival
  const known = await findIdentity(tx, provider.id, person)
  if (known !== undefined) {
    const stamps = { lastUsedAt: tx.now, updatedAt: tx.now }
    const values = { email: person.email, scopes: JSON.stringify(person.scopes), ...stamps }
    await tx.q.updateTable('identity').set(values).where('id', '=', known.id).execute()
  }
  const { id: identityId, userId } = known ?? (await newcomer(tx, deps, arrival))
  await syncRoles(tx, deps, { provider, identityId, userId, groups: person.groups, origin })
  return accountById(tx.q, userId)
}

/** Links an account at a provider; fails with CONFLICT when it is linked already, here or elsewhere. */
export async function link(tx: Tx, deps: Pick<SsoDeps, 'clock'>, userId: string, linking: Linking): Promise<string> {
  const { scopes, ...rest } = linking
  const id = newId('idn', deps.clock)
  const stamps = { lastUsedAt: null, createdAt: tx.now, updatedAt: tx.now }
  try {
    await tx.q
      .insertInto('identity')
      .values({ id, userId, ...rest, scopes: JSON.stringify(scopes), ...stamps })
      .execute()
  } catch (error) {
    if (uniqueViolation(error) === undefined) throw error
    throw new PanelError(
      'CONFLICT',
      'This account at the identity provider is linked already, to you or to somebody else',
    )
  }
  return id
}

/** What is stored of somebody's account at a provider. */
export function linkingOf(provider: ProviderEntry, person: Person): Linking {
  const { issuer, subject, email, scopes } = person
  return { providerId: provider.id, issuer, subject, email, scopes: [...scopes] }
}

async function findIdentity(tx: Tx, providerId: string, { issuer, subject }: Person) {
  return tx.q
    .selectFrom('identity')
    .select(['id', 'userId'])
    .where('providerId', '=', providerId)
    .where('issuer', '=', issuer)
    .where('subject', '=', subject)
    .executeTakeFirst()
}

async function newcomer(tx: Tx, deps: SsoDeps, arrival: Arrival): Promise<{ id: string; userId: string }> {
  const { provider, person, origin } = arrival
  const email = trustedEmail(provider, person)
  const existing = await findAccount(tx.q, email)
  if (existing !== undefined) await ensureMayLink(tx, deps, provider, existing)
  else if (!provider.createAccounts) {
    throw new PanelError('PERMISSION_DENIED', `There is no account for ${email} here; ask an administrator for one`)
  }
  const userId = existing?.id ?? (await makeAccount(tx, deps, { ...arrival, email }))
  const id = await link(tx, deps, userId, linkingOf(provider, person))
  const details = {
    provider: provider.id,
    accountId: person.subject,
    email,
    how: existing === undefined ? 'new' : 'email',
  }
  const by = { deps, principal: unauthenticated(origin, userId), endpoint: completeSsoLink }
  await recordChange(tx, by, { audit: { resourceId: userId, details } })
  return { id, userId }
}

/** The address, when the provider's word about it counts. */
function trustedEmail({ name, allowedDomains }: ProviderEntry, { email, emailVerified }: Person): string {
  if (email === null || !emailVerified) {
    throw new PanelError(
      'EMAIL_NOT_VERIFIED',
      `${name} does not say that your e-mail address is confirmed; confirm it there`,
    )
  }
  const domain = email.slice(email.lastIndexOf('@') + 1)
  if (allowedDomains.includes('*') || allowedDomains.includes(domain)) return email
  throw new PanelError(
    'PERMISSION_DENIED',
    `${name} does not sign in addresses of ${domain} here; ask an administrator`,
  )
}

/** No provider brings anybody into an account that can do more than the provider's configurer may give. */
async function ensureMayLink(
  tx: Tx,
  { settings }: Pick<SsoDeps, 'settings'>,
  { linkByEmail, vouched, name }: ProviderEntry,
  account: Account,
): Promise<void> {
  if (!linkByEmail) {
    throw new PanelError(
      'USER_EXISTS',
      `There is an account with this address already; sign in to it and link ${name} there (panel profile sso link)`,
    )
  }
  if (account.emailVerified !== 1) {
    throw new PanelError(
      'EMAIL_NOT_VERIFIED',
      'The account with this address has not confirmed it; it must do that first',
    )
  }
  // Who set the mail server could have confirmed any address for themselves, and would get the roles of whose it is.
  if (!(await mayMail(tx, settings, vouched))) {
    throw new PanelError(
      'PERMISSION_DENIED',
      `Who set the mail server may do less than ${name} vouches for; sign in to your account and link ${name} there`,
    )
  }
  const held = new Set(vouched)
  try {
    await ensureHoldsAllOf(tx, { userId: '', permissions: held, scope: held }, account.id)
  } catch (error) {
    if (!(error instanceof PanelError)) throw error
    throw new PanelError(
      'PERMISSION_DENIED',
      `The account with this address may do more than ${name} vouches for; sign in to it and link ${name} there`,
    )
  }
}

async function makeAccount(
  tx: Tx,
  deps: SsoDeps,
  { provider, person, origin, email }: Arrival & { email: string },
): Promise<string> {
  const id = newId('usr', deps.clock)
  const username = await freeUsername(tx, [person.username, email])
  const { firstName, lastName } = person
  await insertUser(tx, { id, email, username, passwordHash: null, firstName, lastName })
  const details = { email, username, provider: provider.id }
  const by = { deps, principal: unauthenticated(origin, id), endpoint: createUser }
  await recordChange(tx, by, {
    audit: { resourceId: id, details },
    events: [{ type: 'user_created', data: { user: { id, email, username }, createdBy: null } }],
  })
  return id
}
