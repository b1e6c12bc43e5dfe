import { newId } from '../../../../shared/kernel/ids.ts'
import { type Clock, isoTime } from '../../../../shared/kernel/time.ts'
import { newSecret, sha256 } from '../../../core/secrets.ts'
import type { Queries, Tx } from '../../../db/db.ts'

/** The cookie that a browser keeps between the password and the second factor. */
export const PENDING_COOKIE = 'panel_two_factor'
/** How long the second factor may take. */
export const PENDING_SECONDS = 300

/** A sign-in whose password was right. */
export interface PendingSignIn {
  readonly id: string
  readonly userId: string
  readonly persistent: 0 | 1
}

/** Records that the password was right; answers a token for the second factor, which is stored nowhere. */
export async function postpone(
  tx: Tx,
  clock: Clock,
  { userId, persistent }: { userId: string; persistent: boolean },
): Promise<string> {
  await tx.q.deleteFrom('loginChallenge').where('expiresAt', '<=', tx.now).execute()
  const token = newSecret()
  await tx.q
    .insertInto('loginChallenge')
    .values({
      id: newId('cha', clock),
      userId,
      tokenHash: sha256(token),
      persistent: persistent ? 1 : 0,
      expiresAt: isoTime(Date.parse(tx.now) + PENDING_SECONDS * 1000),
      createdAt: tx.now,
    })
    .execute()
  return token
}

/** The sign-in that the token belongs to, while it waits. */
export async function findPending(q: Queries, token: string, nowMs: number): Promise<PendingSignIn | undefined> {
  return q
    .selectFrom('loginChallenge')
    .select(['id', 'userId', 'persistent'])
    .where('tokenHash', '=', sha256(token))
    .where('expiresAt', '>', isoTime(nowMs))
    .executeTakeFirst()
}

/** Ends the waiting; `false` when another request has done so. */
export async function endPending(q: Queries, id: string): Promise<boolean> {
  const row = await q.deleteFrom('loginChallenge').where('id', '=', id).executeTakeFirst()
  return row.numDeletedRows > 0n
}
