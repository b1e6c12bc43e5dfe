import { sql } from 'kysely'
import { z } from 'zod'
import { newId } from '../../../../shared/kernel/ids.ts'
import type { Clock, IsoTime } from '../../../../shared/kernel/time.ts'
import { PermissionList } from '../../../access/role-permissions.ts'
import { formatToken, newSecret, sha256 } from '../../../core/secrets.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import { containing, contains } from '../../../db/text-search.ts'

const START_LENGTH = 12
const Metadata = z.record(z.string(), z.unknown())

/** What a key is made of. */
export interface NewApiKey {
  readonly userId: string
  readonly name: string
  readonly allPermissions: boolean
  readonly permissions: readonly string[]
  readonly expiresAt: IsoTime | null
  readonly metadata: Readonly<Record<string, unknown>> | null
  readonly rateLimitEnabled: boolean
  readonly rateLimitMax: number
  readonly rateLimitTimeWindow: number
}

/** Marks a key that was made for the context that goes by the unix socket. */
const FOR_SOCKET = { usedOver: 'unix socket' }

/** The key that `panel up` keeps in the context `local`: all that its user may, without end and without a limit. */
export function localApiKey(userId: string): NewApiKey {
  return {
    userId,
    name: 'local',
    allPermissions: true,
    permissions: [],
    expiresAt: null,
    metadata: FOR_SOCKET,
    rateLimitEnabled: false,
    rateLimitMax: 1200,
    rateLimitTimeWindow: 60_000,
  }
}

/** Makes a key; answers the token, which is stored nowhere. Nothing is checked and nobody is notified. */
export async function createApiKeyRow(tx: Tx, clock: Clock, key: NewApiKey): Promise<{ id: string; token: string }> {
  const id = newId('key', clock)
  const secret = newSecret()
  const token = formatToken('pak', id, secret)
  await tx.q
    .insertInto('apiKey')
    .values({
      ...key,
      id,
      start: token.slice(0, START_LENGTH),
      secretHash: sha256(secret),
      enabled: 1,
      lastRequest: null,
      requestCount: 0,
      rateLimitEnabled: key.rateLimitEnabled ? 1 : 0,
      allPermissions: key.allPermissions ? 1 : 0,
      permissions: JSON.stringify(key.permissions),
      metadata: key.metadata === null ? null : JSON.stringify(key.metadata),
      createdAt: tx.now,
      updatedAt: tx.now,
    })
    .execute()
  return { id, token }
}

/** Whether the key was made as {@link localApiKey}, and not by a version whose local context went by a port. */
export async function isForSocket(q: Queries, id: string): Promise<boolean> {
  const row = await q.selectFrom('apiKey').select('metadata').where('id', '=', id).executeTakeFirst()
  return row?.metadata === JSON.stringify(FOR_SOCKET)
}

/** Gives a key another secret; answers the new token, `undefined` when there is no such key. Nobody is notified. */
export async function renewApiKeyRow(tx: Tx, id: string): Promise<string | undefined> {
  const secret = newSecret()
  const token = formatToken('pak', id, secret)
  const result = await tx.q
    .updateTable('apiKey')
    .set({ secretHash: sha256(secret), start: token.slice(0, START_LENGTH), updatedAt: tx.now })
    .where('id', '=', id)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n ? token : undefined
}

/** A key as the API shows it; never its secret or the hash of it. */
export type ShownKey = NonNullable<Awaited<ReturnType<typeof findApiKey>>>

/** The key if it is visible: every key without `ownerId`, else that user's alone. */
export async function findApiKey(q: Queries, id: string, ownerId: string | undefined) {
  let query = shownKeys(q).where('apiKey.id', '=', id)
  if (ownerId !== undefined) query = query.where('apiKey.userId', '=', ownerId)
  const row = await query.executeTakeFirst()
  return row === undefined ? undefined : shown(row)
}

/** One page of keys, newest first. */
export async function listApiKeyRows(
  q: Queries,
  filter: {
    ownerId: string | undefined
    search?: string | undefined
    enabled?: boolean | undefined
    page: number
    limit: number
  },
) {
  let query = q.selectFrom('apiKey')
  if (filter.ownerId !== undefined) query = query.where('apiKey.userId', '=', filter.ownerId)
  if (filter.enabled !== undefined) query = query.where('apiKey.enabled', '=', filter.enabled ? 1 : 0)
  if (filter.search !== undefined) {
    const pattern = containing(filter.search)
    query = query.where((eb) =>
      eb.or([contains(sql.ref('api_key.name'), pattern), contains(sql.ref('api_key.start'), pattern)]),
    )
  }
  const page = query.select('apiKey.id').orderBy('apiKey.id', 'desc').limit(filter.limit).offset(offsetOf(filter))
  const rows = await shownKeys(q).where('apiKey.id', 'in', page).orderBy('apiKey.id', 'desc').execute()
  return { items: rows.map(shown), total: await totalOf(q, query, { query: filter, found: rows.length }) }
}

function shownKeys(q: Queries) {
  return q
    .selectFrom('apiKey')
    .innerJoin('user', 'user.id', 'apiKey.userId')
    .selectAll('apiKey')
    .select(['user.username', 'user.email'])
}

type JoinedRow = Awaited<ReturnType<ReturnType<typeof shownKeys>['executeTakeFirstOrThrow']>>

function shown({ secretHash: _, username, email, ...row }: JoinedRow) {
  return {
    ...row,
    prefix: 'pak',
    enabled: row.enabled === 1,
    rateLimitEnabled: row.rateLimitEnabled === 1,
    allPermissions: row.allPermissions === 1,
    permissions: parseJson(PermissionList, row.permissions),
    metadata: row.metadata === null ? null : parseJson(Metadata, row.metadata),
    user: { id: row.userId, username, email },
  }
}
