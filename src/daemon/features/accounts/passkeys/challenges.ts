import { isoTime } from '../../../../shared/kernel/time.ts'
import { newSecret, sha256 } from '../../../core/secrets.ts'
import type { Db } from '../../../db/db.ts'

/** How long somebody may take to touch an authenticator. */
export const CHALLENGE_SECONDS = 300

/** Hands a challenge out: for a new passkey of this account, or with `null` for a sign-in. */
export async function newChallenge(db: Db, userId: string | null): Promise<string> {
  const challenge = newSecret()
  await db.write(async (tx) => {
    await tx.q.deleteFrom('passkeyChallenge').where('expiresAt', '<=', tx.now).execute()
    const expiresAt = isoTime(Date.parse(tx.now) + CHALLENGE_SECONDS * 1000)
    const row = { challengeHash: sha256(challenge), userId, expiresAt, createdAt: tx.now }
    await tx.q.insertInto('passkeyChallenge').values(row).execute()
  })
  return challenge
}

/** Uses a challenge up; whether it was handed out for this and is not too old. */
export async function takeChallenge(db: Db, challenge: string, userId: string | null): Promise<boolean> {
  const row = await db.write((tx) =>
    tx.q
      .deleteFrom('passkeyChallenge')
      .where('challengeHash', '=', sha256(challenge))
      .where('userId', userId === null ? 'is' : '=', userId)
      .where('expiresAt', '>', tx.now)
      .executeTakeFirst(),
  )
  return row.numDeletedRows > 0n
}
