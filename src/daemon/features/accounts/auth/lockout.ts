import { PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import { countedAddress } from '../../../../shared/platform/counted-address.ts'
import type { Origin } from '../../../access/caller.ts'
import { recordFact, unauthenticated } from '../../../access/operation.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import type { AccountDeps } from './deps.ts'

/** Who tries, from where. `account` is the e-mail address of the account, or what was typed when there is none. */
export interface Attempt {
  readonly account: string
  readonly origin: Origin
}

/** An attempt that was wrong, with the account's id when there is one. */
type Failure = Attempt & { readonly userId: string | undefined }

const MINUTE = 60_000
const LONGEST_MINUTES = 60
/** After so long without a failure nothing is held against anyone any more. */
const FORGOTTEN_MS = 86_400_000
/** The account of the row that counts an address as a whole. */
const ANY_ACCOUNT = ''
/** The address of the row that counts the second factors of an account, wherever they come from. */
const ANY_ADDRESS = ''

/** Refuses with ACCOUNT_LOCKED while the account is locked for this address, or the address as a whole. */
export async function refuseLocked(q: Queries, attempt: Attempt, nowMs: number): Promise<void> {
  const rows = await q
    .selectFrom('authLockout')
    .select('lockedUntil')
    .where('ipAddress', '=', countedAddress(attempt.origin.ip))
    .where('email', 'in', [ANY_ACCOUNT, attempt.account])
    .where('lockedUntil', '>', isoTime(nowMs))
    .execute()
  refuse(rows, nowMs)
}

/** The same for a second factor, which also waits while too many of the account's were wrong from all addresses together. */
export async function refuseLockedFactor(q: Queries, attempt: Attempt, nowMs: number): Promise<void> {
  await refuseLocked(q, attempt, nowMs)
  const rows = await q
    .selectFrom('authLockout')
    .select('lockedUntil')
    .where('ipAddress', '=', ANY_ADDRESS)
    .where('email', '=', attempt.account)
    .where('lockedUntil', '>', isoTime(nowMs))
    .execute()
  refuse(rows, nowMs)
}

function refuse(rows: readonly { readonly lockedUntil: IsoTime | null }[], nowMs: number): void {
  if (rows.length === 0) return
  const until = Math.max(...rows.map((row) => Date.parse(row.lockedUntil ?? '')))
  const retryAfterSeconds = Math.max(1, Math.ceil((until - nowMs) / 1000))
  throw new PanelError('ACCOUNT_LOCKED', `Too many failed sign-ins; try again in ${retryAfterSeconds} s`, {
    meta: { retryAfterSeconds },
  })
}

/**
 * Counts a failed sign-in for the account at this address and for the address, and locks what has reached its limit. A wrong
 * second factor counts for the account as a whole too: who gives one knows the password, so no stranger can lock anybody out.
 */
export async function recordFailure(
  deps: AccountDeps,
  tx: Tx,
  attempt: Failure & { factor?: 'second' },
): Promise<void> {
  const details = { email: attempt.account, ...(attempt.factor === undefined ? {} : { factor: attempt.factor }) }
  await recordFact(
    tx,
    { deps, principal: unauthenticated(attempt.origin) },
    { audit: { action: 'auth.login_failed', resource: 'user', resourceId: attempt.userId, details } },
  )
  const nowMs = Date.parse(tx.now)
  await tx.q
    .deleteFrom('authLockout')
    .where('lastFailedAt', '<', isoTime(nowMs - FORGOTTEN_MS))
    .where((eb) => eb.or([eb('lockedUntil', 'is', null), eb('lockedUntil', '<', tx.now)]))
    .execute()
  const { settings } = deps
  const { account, userId } = attempt
  const ipAddress = countedAddress(attempt.origin.ip)
  const [few, many] = [settings.get('security.lockoutMaxAttempts'), settings.get('security.addressMaxAttempts')]
  await count(deps, tx, attempt, { email: account, ipAddress, userId, max: few })
  await count(deps, tx, attempt, { email: ANY_ACCOUNT, ipAddress, userId: undefined, max: many })
  if (attempt.factor === 'second')
    await count(deps, tx, attempt, { email: account, ipAddress: ANY_ADDRESS, userId, max: many })
}

/** Forgets the failures of the account at this address; those of the address as a whole stay. */
export async function forgetFailures(q: Queries, attempt: Attempt): Promise<void> {
  await q
    .deleteFrom('authLockout')
    .where('email', '=', attempt.account)
    .where('ipAddress', '=', countedAddress(attempt.origin.ip))
    .execute()
}

/** The same for somebody who has come in by another way while the account may be locked for them; says so when it was. */
export async function endLockout(deps: AccountDeps, tx: Tx, attempt: Attempt & { userId: string }): Promise<void> {
  const { account, origin, userId } = attempt
  const ipAddress = countedAddress(origin.ip)
  const row = await tx.q
    .deleteFrom('authLockout')
    .where('email', '=', account)
    .where('ipAddress', '=', ipAddress)
    .returning(['id', 'failureCount', 'lockedUntil'])
    .executeTakeFirst()
  if (row === undefined || row.lockedUntil === null || row.lockedUntil <= tx.now) return
  const { id, ...rest } = row
  const details = { email: account, ipAddress, ...rest }
  const entry = { action: 'auth_lockout.delete', resource: 'auth_lockout', resourceId: id, details }
  const data = { lockoutId: id, email: account, ipAddress, clearedBy: userId }
  await recordFact(
    tx,
    { deps, principal: unauthenticated(origin, userId) },
    { audit: entry, events: [{ type: 'auth_lockout_cleared', data }] },
  )
}

async function count(
  deps: AccountDeps,
  tx: Tx,
  { origin }: Attempt,
  { email, ipAddress, userId, max }: { email: string; ipAddress: string; userId: string | undefined; max: number },
): Promise<void> {
  const row = await tx.q
    .selectFrom('authLockout')
    .selectAll()
    .where('email', '=', email)
    .where('ipAddress', '=', ipAddress)
    .executeTakeFirst()
  const running = row !== undefined && countsOn(deps.settings, row, tx.now)
  const failureCount = running ? row.failureCount + 1 : 1
  const locks = failureCount >= max
  const lockCount = row?.lockCount ?? 0
  const values = {
    userAgent: origin.userAgent,
    failureCount,
    lockCount: locks ? lockCount + 1 : lockCount,
    firstFailedAt: running ? row.firstFailedAt : tx.now,
    lastFailedAt: tx.now,
    lockedUntil: locks ? isoTime(Date.parse(tx.now) + lockMs(deps.settings, lockCount)) : null,
    updatedAt: tx.now,
  }
  const id = row?.id ?? newId('lck', deps.clock)
  if (row !== undefined) await tx.q.updateTable('authLockout').set(values).where('id', '=', id).execute()
  else {
    const key = { id, email, ipAddress, createdAt: tx.now }
    await tx.q
      .insertInto('authLockout')
      .values({ ...key, ...values })
      .execute()
  }
  if (values.lockedUntil === null) return
  const facts = { email, ipAddress, lockedUntil: values.lockedUntil, failureCount }
  const data = { lockoutId: id, userId: userId ?? null, ...facts }
  const entry = { action: 'auth_lockout.create', resource: 'auth_lockout', resourceId: id, details: facts }
  await recordFact(
    tx,
    { deps, principal: unauthenticated(origin) },
    { audit: entry, events: [{ type: 'auth_lockout_created', data }] },
  )
}

/** Failures add up within one window, and not over a lockout that has passed. */
function countsOn(
  settings: Settings,
  row: { firstFailedAt: IsoTime; lockedUntil: IsoTime | null },
  stamp: IsoTime,
): boolean {
  const windowMs = settings.get('security.lockoutWindowMinutes') * MINUTE
  return row.lockedUntil === null && Date.parse(stamp) - Date.parse(row.firstFailedAt) < windowMs
}

/** Each lockout in a row lasts twice as long as the one before, up to an hour. */
function lockMs(settings: Settings, lockCount: number): number {
  const first = settings.get('security.lockoutDurationMinutes')
  return Math.min(first * 2 ** Math.min(lockCount, 20), Math.max(first, LONGEST_MINUTES)) * MINUTE
}
