import { newId } from '../../../../shared/kernel/ids.ts'
import { type Clock, type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import { newSecret, sha256 } from '../../../core/secrets.ts'
import type { Tx } from '../../../db/db.ts'

/** Makes a one-time token for a machine to join as this node. Only its hash is stored. */
export async function createEnrolmentToken(
  tx: Tx,
  { nodeId, ttlSeconds, clock }: { nodeId: string; ttlSeconds: number; clock: Clock },
): Promise<{ token: string; expiresAt: IsoTime }> {
  // Tokens that can never be redeemed again are answered like unknown ones, so their rows are of no use.
  await tx.q
    .deleteFrom('deploymentToken')
    .where('nodeId', '=', nodeId)
    .where((eb) => eb.or([eb('expiresAt', '<=', tx.now), eb('usedAt', 'is not', null)]))
    .execute()
  const token = newSecret()
  const expiresAt = isoTime(Date.parse(tx.now) + ttlSeconds * 1000)
  const row = { id: newId('tok', clock), nodeId, tokenHash: sha256(token), expiresAt, usedAt: null, createdAt: tx.now }
  await tx.q.insertInto('deploymentToken').values(row).execute()
  return { token, expiresAt }
}

/** Ends the tokens of a node that could still be redeemed; answers whether there were any. */
export async function endEnrolmentTokens(tx: Tx, nodeId: string): Promise<boolean> {
  const ended = await tx.q
    .deleteFrom('deploymentToken')
    .where('nodeId', '=', nodeId)
    .where('usedAt', 'is', null)
    .where('expiresAt', '>', tx.now)
    .returning('id')
    .execute()
  return ended.length > 0
}

/** Uses the token up, in one statement, so that it has one winner; `undefined` when it is wrong, used or expired. */
export async function redeemEnrolmentToken(tx: Tx, token: string): Promise<{ nodeId: string } | undefined> {
  return tx.q
    .updateTable('deploymentToken')
    .set({ usedAt: tx.now })
    .where('tokenHash', '=', sha256(token))
    .where('usedAt', 'is', null)
    .where('expiresAt', '>', tx.now)
    .returning('nodeId')
    .executeTakeFirst()
}
