import type { Queries } from '../../../db/db.ts'

/**
 * Ends what an old password has left behind beside sessions: sign-ins that wait for their second factor or in a browser,
 * and mails that could set yet another password.
 */
export async function endStaleSignIns(q: Queries, userId: string): Promise<void> {
  await q.deleteFrom('loginChallenge').where('userId', '=', userId).execute()
  await q.deleteFrom('signInCode').where('userId', '=', userId).execute()
  await q.deleteFrom('signInFlow').where('userId', '=', userId).execute()
  await q.deleteFrom('mailedToken').where('userId', '=', userId).where('purpose', '=', 'reset').execute()
}
