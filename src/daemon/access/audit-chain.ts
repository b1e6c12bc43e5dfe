import { type Selectable, sql } from 'kysely'
import type { IsoTime } from '../../shared/kernel/time.ts'
import type { Log } from '../core/log.ts'
import { sha256 } from '../core/secrets.ts'
import type { Batch, Db, Queries, Tx } from '../db/db.ts'
import type { Schema } from '../db/schema.ts'
import { changing } from '../db/statement.ts'

/** A row of the audit log as it is stored. */
export type AuditRow = Selectable<Schema['auditLog']>

/** What a row's hash is made of, beside the hash of the row before. */
export type AuditContent = Omit<AuditRow, 'seq' | 'hash'>

const BATCH = 1000

/** The hash of a row: SHA-256 over the hash of the row before and everything that the row says. */
export function auditHash(previous: string, row: AuditContent): string {
  const { id, userId, apiKeyId, action, resource, resourceId, details, ipAddress, userAgent, requestId } = row
  return sha256(
    JSON.stringify([
      previous, id, userId, apiKeyId, action, resource, resourceId, details, ipAddress, userAgent, requestId, row.createdAt,
    ]),
  ) // biome-ignore format: a list
}

/**
 * The end of the chain as rows are appended to it: those of a commit are hashed and written in one go at its end, in the order of
 * their changes, behind whatever has been undone, so the chain has neither forks nor gaps.
 */
export function createAuditChain(): Batch<AuditContent> {
  /** The hash of the last row that this process has committed, as long as it is the last one: the database is asked each time. */
  let known: string | null = null
  return {
    write: async (tx, rows) => {
      // Where it does not hold, something else has written to the log since.
      const soon = known === null ? undefined : await append(tx.q, rows, { stored: known, previous: known })
      const last = soon ?? (await append(tx.q, rows, await readEnd(tx.q)))
      if (last === undefined) throw new Error('the end of the audit log has moved within a transaction')
      const hash = last
      tx.onCommit(() => {
        known = hash
      })
    },
  }
}

/** The hash of the last row as it is stored (`null`: there is no row, or one from before the chain), and what the next one builds on. */
interface ChainEnd {
  readonly stored: string | null
  readonly previous: string
}

async function readEnd(q: Queries): Promise<ChainEnd> {
  const last = await q.selectFrom('auditLog').select('hash').orderBy('seq', 'desc').limit(1).executeTakeFirst()
  if (last === undefined) return { stored: null, previous: (await readAnchor(q)).hash }
  return { stored: last.hash, previous: last.hash ?? '' }
}

/** Writes the rows if the log still ends as is said; answers the hash of the last one, `undefined` when it does not. */
async function append(q: Queries, rows: readonly AuditContent[], end: ChainEnd): Promise<string | undefined> {
  let hash = end.previous
  const chained = rows.map((row) => {
    hash = auditHash(hash, row)
    return columnsOf(row, hash)
  })
  const isAdded = await insertRows(q, { rows: JSON.stringify(chained), stored: end.stored }, rows.length)
  return isAdded ? hash : undefined
}

const insertRows = changing<{ rows: string; stored: string | null }>((q, { rows, stored }) => ({
  compile: () =>
    sql`
      insert into audit_log (
        id, user_id, api_key_id, action, resource, resource_id, details, ip_address, user_agent, request_id, created_at, hash)
      select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
        value ->> 8, value ->> 9, value ->> 10, value ->> 11
      from json_each(${rows}) where (select hash from audit_log order by seq desc limit 1) is ${stored}
      order by key`.compile(q),
}))

/** As {@link insertRows} takes them. */
function columnsOf(row: AuditContent, hash: string): (string | null)[] {
  const { id, userId, apiKeyId, action, resource, resourceId, details, ipAddress, userAgent, requestId, createdAt } =
    row
  return [
    id, userId, apiKeyId, action, resource, resourceId, details, ipAddress, userAgent, requestId, createdAt, hash,
  ] // biome-ignore format: a list
}

/** Where the chain begins: the last row that retention has removed. */
export async function readAnchor(q: Queries): Promise<{ seq: number; hash: string; unchainedTo: number | null }> {
  return q.selectFrom('auditAnchor').select(['seq', 'hash', 'unchainedTo']).executeTakeFirstOrThrow()
}

/**
 * Gives rows from before the chain their hashes, oldest first; nothing else may write to the log meanwhile. A daemon that is
 * killed in the middle goes on where it was: each batch is a transaction.
 */
export async function chainOldRows(db: Db, log: Log): Promise<void> {
  const { unchainedTo } = await readAnchor(db.read)
  if (unchainedTo === null) return
  const done = await db.read
    .selectFrom('auditLog')
    .select(['seq', 'hash'])
    .where('hash', 'is not', null)
    .orderBy('seq', 'desc')
    .limit(1)
    .executeTakeFirst()
  let at = done ?? (await readAnchor(db.read))
  log.info({ rows: unchainedTo - at.seq }, 'chaining audit log')
  for (;;) {
    const rows = await rowsAfter(db.read, at.seq, BATCH)
    if (rows.length === 0) break
    at = await db.write((tx) => chainBatch(tx, at.hash ?? '', rows))
  }
  await db.write((tx) => tx.q.updateTable('auditAnchor').set({ unchainedTo: null }).execute())
}

/** The rows behind this one, in the order of the chain. */
export function rowsAfter(q: Queries, seq: number, limit: number): Promise<AuditRow[]> {
  return q.selectFrom('auditLog').selectAll().where('seq', '>', seq).orderBy('seq').limit(limit).execute()
}

/** The last row that is there, and the number of the last that was ever written (0: none): they differ when the end is missing. */
export async function auditEnds(
  q: Queries,
): Promise<{ last: { seq: number; hash: string | null } | null; written: number }> {
  const found = await sql<{ seq: number | null; hash: string | null; written: number | null }>`
    select (select seq from audit_log order by seq desc limit 1) as seq,
      (select hash from audit_log order by seq desc limit 1) as hash,
      (select seq from sqlite_sequence where name = 'audit_log') as written`.execute(q)
  const [row] = found.rows
  const { seq = null, hash = null, written = null } = row ?? {}
  return { last: seq === null ? null : { seq, hash }, written: written ?? 0 }
}

/**
 * Removes rows that are older, from the oldest on and never the last one, and keeps the hash that the first kept row builds
 * on. Each batch is a transaction of its own. Answers how many went.
 */
export async function trimAudit(db: Db, before: IsoTime): Promise<number> {
  let removed = 0
  for (;;) {
    const { seq } = await readAnchor(db.read)
    const rows = await rowsAfter(db.read, seq, BATCH + 1)
    const young = rows.findIndex((row) => row.createdAt >= before)
    const old = rows.slice(0, Math.min(young < 0 ? rows.length : young, rows.length - 1))
    const last = old.at(-1)
    if (last === undefined) return removed
    await db.write(async (tx) => {
      await tx.q.deleteFrom('auditLog').where('seq', '<=', last.seq).execute()
      await tx.q
        .updateTable('auditAnchor')
        .set({ seq: last.seq, hash: last.hash ?? '' })
        .execute()
    })
    removed += old.length
    if (old.length < BATCH) return removed
  }
}

async function chainBatch(tx: Tx, previous: string, rows: readonly AuditRow[]): Promise<{ seq: number; hash: string }> {
  let hash = previous
  let seq = 0
  for (const row of rows) {
    hash = auditHash(hash, row)
    seq = row.seq
    await tx.q.updateTable('auditLog').set({ hash }).where('seq', '=', seq).execute()
  }
  return { seq, hash }
}
