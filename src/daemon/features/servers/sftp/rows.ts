import { randomBytes } from 'node:crypto'
import type { Selectable } from 'kysely'
import { newId } from '../../../../shared/kernel/ids.ts'
import { type Clock, isoTime } from '../../../../shared/kernel/time.ts'
import { sha256 } from '../../../core/secrets.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import type { Schema } from '../../../db/schema.ts'

export type SftpSessionRow = Selectable<Schema['sftpSession']>
export type SftpTokenRow = Selectable<Schema['sftpToken']>

/** What a token looks like: nobody's password is taken for one. */
const TOKEN = /^sftp_[0-9a-f]{64}$/
/** Tokens of one user for one server; the oldest goes. */
const MOST_TOKENS = 10

export function isToken(text: string): boolean {
  return TOKEN.test(text)
}

/** For whom and for how long a token is to be. */
interface WantedToken {
  readonly userId: string
  readonly serverId: string
  readonly ttlMs: number
  /** The API key that asks for it; it goes with that. */
  readonly apiKeyId: string | null
}

/** A fresh token for a user and a server; only its hash is kept. */
export async function makeToken(
  tx: Tx,
  clock: Clock,
  { userId, serverId, ttlMs, apiKeyId }: WantedToken,
): Promise<{ readonly token: string; readonly expiresAtMs: number }> {
  await tx.q.deleteFrom('sftpToken').where('expiresAt', '<=', tx.now).execute()
  const own = await tx.q
    .selectFrom('sftpToken')
    .select('id')
    .where('serverId', '=', serverId)
    .where('userId', '=', userId)
    .orderBy('id', 'desc')
    .offset(MOST_TOKENS - 1)
    .limit(MOST_TOKENS)
    .execute()
  for (const { id } of own) await tx.q.deleteFrom('sftpToken').where('id', '=', id).execute()
  const token = `sftp_${randomBytes(32).toString('hex')}`
  const expiresAtMs = Date.parse(tx.now) + ttlMs
  await tx.q
    .insertInto('sftpToken')
    .values({
      ...{ id: newId('sft', clock), userId, serverId, apiKeyId, tokenHash: sha256(token), ttlMs },
      expiresAt: isoTime(expiresAtMs),
      createdAt: tx.now,
      lastUsedAt: null,
    })
    .execute()
  return { token, expiresAtMs }
}

/** The token of a user that is good now. */
export async function findToken(
  q: Queries,
  { userId, token, now }: { readonly userId: string; readonly token: string; readonly now: string },
): Promise<SftpTokenRow | undefined> {
  const row = await q.selectFrom('sftpToken').selectAll().where('tokenHash', '=', sha256(token)).executeTakeFirst()
  return row !== undefined && row.userId === userId && row.expiresAt > now ? row : undefined
}

/** Sessions, of all nodes or of one. */
export async function openSessions(q: Queries, nodeId?: string): Promise<SftpSessionRow[]> {
  let query = q.selectFrom('sftpSession').selectAll()
  if (nodeId !== undefined) query = query.where('nodeId', '=', nodeId)
  return query.orderBy('id').limit(10_000).execute()
}
