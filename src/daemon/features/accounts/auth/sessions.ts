import { newId } from '../../../../shared/kernel/ids.ts'
import { type Clock, isoTime } from '../../../../shared/kernel/time.ts'
import type { Origin } from '../../../access/caller.ts'
import { formatToken, newSecret, sha256 } from '../../../core/secrets.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import { countRows, offsetOf } from '../../../db/paging.ts'
import { SHORT_SESSION_MS, SLIDING_SESSION_MS } from './credentials.ts'

/** Expired sessions are answered differently from unknown ones for so long. */
const KEPT_AFTER_EXPIRY_MS = 30 * 86_400_000

/**
 * How long a browser keeps the cookie of a session that slides: as long as browsers do. When the session ends is for the
 * daemon alone to say, which moves its end at each day of use.
 */
export const KEPT_COOKIE_SECONDS = 400 * 86_400

/** Makes a session; answers its token, which is stored nowhere. */
export async function createSession(
  tx: Tx,
  clock: Clock,
  session: { userId: string; origin: Origin; persistent: boolean },
): Promise<string> {
  const id = newId('ses', clock)
  const secret = newSecret()
  const start = Date.parse(tx.now)
  await tx.q
    .deleteFrom('session')
    .where('expiresAt', '<', isoTime(start - KEPT_AFTER_EXPIRY_MS))
    .execute()
  await tx.q
    .insertInto('session')
    .values({
      id,
      userId: session.userId,
      secretHash: sha256(secret),
      ipAddress: session.origin.ip,
      userAgent: session.origin.userAgent,
      persistent: session.persistent ? 1 : 0,
      expiresAt: isoTime(start + (session.persistent ? SLIDING_SESSION_MS : SHORT_SESSION_MS)),
      createdAt: tx.now,
      updatedAt: tx.now,
    })
    .execute()
  return formatToken('pst', id, secret)
}

/** One page of a user's living sessions, newest first. */
export async function listOwnSessions(q: Queries, filter: { userId: string; at: string; page: number; limit: number }) {
  const own = q
    .selectFrom('session')
    .where('userId', '=', filter.userId)
    .where('expiresAt', '>', isoTime(Date.parse(filter.at)))
  const total = await countRows(q, own)
  const rows = await own
    .select(['id', 'ipAddress', 'userAgent', 'createdAt', 'updatedAt', 'expiresAt'])
    .orderBy('id', 'desc')
    .limit(filter.limit)
    .offset(offsetOf(filter))
    .execute()
  return { rows, total }
}

/** Ends one session of the user; whether there was one. */
export async function deleteOwnSession(q: Queries, userId: string, id: string): Promise<boolean> {
  const row = await q.deleteFrom('session').where('id', '=', id).where('userId', '=', userId).executeTakeFirst()
  return row.numDeletedRows > 0n
}

/** Ends all sessions of the user but `keep`; answers how many of them lived. */
export async function deleteOtherSessions(tx: Tx, userId: string, keep: string | null): Promise<number> {
  let others = tx.q.deleteFrom('session').where('userId', '=', userId)
  if (keep !== null) others = others.where('id', '!=', keep)
  const ended = await others.returning('expiresAt').execute()
  return ended.filter(({ expiresAt }) => expiresAt > tx.now).length
}
