import { isIPv6 } from 'node:net'
import { PanelError } from '../../shared/errors.ts'
import { newId } from '../../shared/ids.ts'
import { type IsoTime, isoTime } from '../../shared/time.ts'
import type { Actor } from '../core/audit.ts'
import type { Origin } from '../core/caller.ts'
import type { Queries, Tx } from '../core/db.ts'
import type { Settings } from '../core/settings.ts'
import type { AccountDeps } from './deps.ts'

/** Who tries, from where. `account` is the e-mail address of the account, or what was typed when there is none. */
export interface Attempt {
  readonly account: string
  readonly origin: Origin
}

const MINUTE = 60_000
const LONGEST_MINUTES = 60
/** After so long without a failure nothing is held against anyone any more. */
const FORGOTTEN_MS = 86_400_000
/** The account of the row that counts an address as a whole. */
const ANY_ACCOUNT = ''

/** The address as it is counted: an IPv6 host owns its whole /64 and must not get a fresh count from each address in it. */
export function countedAddress(ip: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(ip)?.[1]
  if (mapped !== undefined) return mapped
  if (!isIPv6(ip)) return ip
  const [left = '', right] = ip.split('%')[0]?.split('::') ?? []
  const groups = left === '' ? [] : left.split(':')
  const tail = right === undefined || right === '' ? [] : right.split(':')
  const filled =
    right === undefined ? groups : [...groups, ...Array<string>(8 - groups.length - tail.length).fill('0'), ...tail]
  if (filled.slice(0, 4).every((group) => /^0+$/.test(group))) return ip // ::1 and its like are single hosts
  return `${filled
    .slice(0, 4)
    .map((group) => group.toLowerCase().replace(/^0+(?=.)/, ''))
    .join(':')}::/64`
}

/** Refuses with ACCOUNT_LOCKED while the account is locked for this address, or the address as a whole. */
export async function refuseLocked(q: Queries, attempt: Attempt, nowMs: number): Promise<void> {
  const rows = await q
    .selectFrom('authLockout')
    .select('lockedUntil')
    .where('ipAddress', '=', countedAddress(attempt.origin.ip))
    .where('email', 'in', [ANY_ACCOUNT, attempt.account])
    .where('lockedUntil', '>', isoTime(nowMs))
    .execute()
  if (rows.length === 0) return
  const until = Math.max(...rows.map((row) => Date.parse(row.lockedUntil ?? '')))
  const retryAfterSeconds = Math.max(1, Math.ceil((until - nowMs) / 1000))
  throw new PanelError('ACCOUNT_LOCKED', `Too many failed sign-ins; try again in ${retryAfterSeconds} s`, {
    meta: { retryAfterSeconds },
  })
}

/** Counts a failed sign-in for the account at this address and for the address, and locks what has reached its limit. */
export async function recordFailure(
  deps: AccountDeps,
  tx: Tx,
  attempt: Attempt & { userId: string | undefined },
): Promise<void> {
  const actor: Actor = { caller: undefined, origin: attempt.origin }
  await deps.audit.record(tx, actor, {
    action: 'auth.login_failed',
    resource: 'user',
    resourceId: attempt.userId,
    details: { email: attempt.account },
  })
  const nowMs = Date.parse(tx.now)
  await tx.q
    .deleteFrom('authLockout')
    .where('lastFailedAt', '<', isoTime(nowMs - FORGOTTEN_MS))
    .where((eb) => eb.or([eb('lockedUntil', 'is', null), eb('lockedUntil', '<', tx.now)]))
    .execute()
  const { settings } = deps
  await count(deps, tx, { ...attempt, max: settings.get('security.lockoutMaxAttempts') })
  await count(deps, tx, { ...attempt, account: ANY_ACCOUNT, max: settings.get('security.addressMaxAttempts') })
}

/** Forgets the failures of the account at this address; those of the address as a whole stay. */
export async function forgetFailures(q: Queries, attempt: Attempt): Promise<void> {
  await q
    .deleteFrom('authLockout')
    .where('email', '=', attempt.account)
    .where('ipAddress', '=', countedAddress(attempt.origin.ip))
    .execute()
}

async function count(deps: AccountDeps, tx: Tx, attempt: Attempt & { max: number }): Promise<void> {
  const ipAddress = countedAddress(attempt.origin.ip)
  const row = await tx.q
    .selectFrom('authLockout')
    .selectAll()
    .where('email', '=', attempt.account)
    .where('ipAddress', '=', ipAddress)
    .executeTakeFirst()
  const running = row !== undefined && countsOn(deps.settings, row, tx.now)
  const failureCount = running ? row.failureCount + 1 : 1
  const locks = failureCount >= attempt.max
  const lockCount = row?.lockCount ?? 0
  const values = {
    userAgent: attempt.origin.userAgent,
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
    const key = { id, email: attempt.account, ipAddress, createdAt: tx.now }
    await tx.q
      .insertInto('authLockout')
      .values({ ...key, ...values })
      .execute()
  }
  if (values.lockedUntil !== null)
    await announce(deps, tx, attempt, { id, failureCount, lockedUntil: values.lockedUntil })
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

async function announce(
  deps: AccountDeps,
  tx: Tx,
  attempt: Attempt,
  lock: { id: string; failureCount: number; lockedUntil: IsoTime },
): Promise<void> {
  const { id: lockoutId, failureCount, lockedUntil } = lock
  const facts = { email: attempt.account, ipAddress: countedAddress(attempt.origin.ip), lockedUntil, failureCount }
  await deps.bus.append(tx, { type: 'auth_lockout_created', data: { lockoutId, ...facts } })
  const actor: Actor = { caller: undefined, origin: attempt.origin }
  const entry = { action: 'auth_lockout.create', resource: 'auth_lockout', resourceId: lockoutId, details: facts }
  await deps.audit.record(tx, actor, entry)
}
