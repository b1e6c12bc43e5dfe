import { newSecret, sha256 } from '../../../core/secrets.ts'
import type { Queries } from '../../../db/db.ts'

/** The one-time token of an invitation in its two forms; only `hash` is stored. */
export interface InviteSecrets {
  /** Goes by mail and nowhere else: whoever brings it reads the mail of the invited address. */
  readonly mailed: string
  /** Goes to the one who invites when no mail takes the other: it follows from that one, and never back. */
  readonly handedOver: string
  readonly hash: string
}

/** A fresh token for an invitation. */
export function newInviteSecrets(): InviteSecrets {
  const mailed = newSecret()
  const handedOver = sha256(mailed)
  return { mailed, handedOver, hash: sha256(handedOver) }
}

/** The stored hashes that a token may stand for, as it is one form or the other. */
export function inviteHashes(token: string): string[] {
  return [sha256(token), sha256(sha256(token))]
}

/** Whether the token is the mailed one of the invitation with this hash. */
export function cameByMail(token: string, hash: string): boolean {
  return hash === sha256(sha256(token))
}

/** Ends the invitations to an account: once its owner is in by any way, a link in an old mail must set no password. */
export async function endUserInvites(q: Queries, userId: string): Promise<void> {
  await q.deleteFrom('userInvite').where('userId', '=', userId).execute()
}
