import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { Queries, Tx } from '../../../db/db.ts'

/** Where the picture of an account is read, `null` without one. The tag in it changes with the picture. */
export async function avatarUrl(q: Queries, userId: string): Promise<string | null> {
  const row = await q.selectFrom('userAvatar').select('tag').where('userId', '=', userId).executeTakeFirst()
  return row === undefined ? null : `/api/users/${userId}/avatar?v=${row.tag}`
}

/** The picture of an account. */
export async function readAvatar(
  q: Queries,
  userId: string,
): Promise<{ contentType: string; content: Uint8Array; updatedAt: IsoTime } | undefined> {
  return q
    .selectFrom('userAvatar')
    .select(['contentType', 'content', 'updatedAt'])
    .where('userId', '=', userId)
    .executeTakeFirst()
}

/** Puts a picture in the place of the one before; whether it is another one. */
export async function writeAvatar(
  tx: Tx,
  userId: string,
  picture: { contentType: string; tag: string; content: Uint8Array },
): Promise<boolean> {
  const values = { ...picture, updatedAt: tx.now }
  const before = await tx.q.selectFrom('userAvatar').select('tag').where('userId', '=', userId).executeTakeFirst()
  if (before?.tag === picture.tag) return false
  await tx.q
    .insertInto('userAvatar')
    .values({ userId, ...values })
    .onConflict((conflict) => conflict.column('userId').doUpdateSet(values))
    .execute()
  return true
}

/** Removes the picture; whether there was one. */
export async function removeAvatar(q: Queries, userId: string): Promise<boolean> {
  const row = await q.deleteFrom('userAvatar').where('userId', '=', userId).executeTakeFirst()
  return row.numDeletedRows > 0n
}
