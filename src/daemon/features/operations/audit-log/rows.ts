import { type Selectable, sql } from 'kysely'
import type { AuditLog, listAuditLogs } from '../../../../shared/api/admin.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { isoTime } from '../../../../shared/kernel/time.ts'
import { cached, compiled } from '../../../core/cached.ts'
import { WrittenItems, type WrittenPage } from '../../../core/written-items.ts'
import type { Queries } from '../../../db/db.ts'
import { jsonObjectText } from '../../../db/json.ts'
import { countQuery, keptTotal, offsetOf, totalByPage } from '../../../db/paging.ts'
import type { Schema } from '../../../db/schema.ts'
import { containing, contains } from '../../../db/text-search.ts'
import { KnownRows } from './known-rows.ts'
import { NewestNumbers } from './newest-numbers.ts'

type Query = Input<typeof listAuditLogs>['query']
/** Which rows are meant. */
export type AuditFilter = Omit<Query, 'page' | 'limit'>

/** A row with the names of its user. */
export type AuditRow = Omit<Selectable<Schema['auditLog']>, 'seq' | 'hash'> & {
  readonly username: string | null
  readonly email: string | null
}

/** A row with the text of its details, when they are an object. */
export type ExportedRow = AuditRow & { readonly detailsText: string | null }

/** Few enough to be gone before they are moved to where only a full collection finds them (see core/export-file.ts). */
const BATCH = 100

/** A row as the API shows it. */
export function shown(row: AuditRow): AuditLog {
  return shownWith(row, row.details === null ? null : readDetails(row.details))
}

/** The same as JSON text. */
export function shownText(row: ExportedRow): string {
  const text = JSON.stringify(shownWith(row, null))
  if (row.details === null) return text
  // The first `null` of this key is its own: texts before it have their quotes escaped.
  return text.replace(
    '"details":null',
    () => `"details":${row.detailsText ?? JSON.stringify({ unreadable: row.details })}`,
  )
}

/** In one literal: an object that is spread together has a shape of its own each time, and an export has a million of them. */
function shownWith(row: AuditRow, details: AuditLog['details']): AuditLog {
  const { userId, username, email } = row
  return {
    id: row.id,
    userId,
    apiKeyId: row.apiKeyId,
    action: row.action,
    resource: row.resource,
    resourceId: row.resourceId,
    details,
    ipAddress: row.ipAddress,
    userAgent: row.userAgent,
    requestId: row.requestId,
    user: userId === null || username === null || email === null ? null : { id: userId, username, email },
    timestamp: row.createdAt,
  }
}

/** What is known of the audit log between two questions. */
export class KnownAudit {
  readonly numbers = new NewestNumbers()
  readonly rows = new KnownRows()
}

/** One page, newest first: its rows are known by their numbers, and those of the newest rows are known, too; others are found in an index. */
export async function listAudit(q: Queries, query: Query, known = new KnownAudit()): Promise<WrittenPage> {
  const { page: _, limit: __, ...filter } = query
  const isOfAll = Object.values(filter).every((value) => value === undefined)
  const find = async (): Promise<number[]> =>
    (isOfAll ? await known.numbers.page(q, query) : undefined) ?? (await foundNumbers(q, query))
  let numbers = await find()
  let items = await known.rows.of(q, numbers)
  if (items.length < numbers.length) {
    // Some have gone in between.
    numbers = await find()
    items = await known.rows.of(q, numbers)
  }
  const total = totalByPage(query, numbers.length) ?? (await keptTotal(q, countOfAudit(filter)))
  return { items: new WrittenItems(items), total }
}

async function foundNumbers(q: Queries, query: Query): Promise<number[]> {
  const [page] = await pageOfAudit(q, query)
  return JSON.parse(page?.numbers ?? '[]') as number[] // as the query writes them
}

const pageOfAudit = cached((q, query: Query) => {
  const page = newestFirst(matchingRows(q, query).select(['auditLog.seq', 'auditLog.createdAt']))
    .limit(query.limit)
    .offset(offsetOf(query))
  const numbers = sql<string>`json_group_array(seq order by created_at desc, seq desc)`
  return q.selectFrom(page.as('page')).select(numbers.as('numbers'))
})

const countOfAudit = compiled((q, filter: AuditFilter) => countQuery(q, matchingRows(q, filter)))

/** One row. */
export async function findAudit(q: Queries, id: string): Promise<AuditLog | undefined> {
  const row = await q
    .selectFrom('auditLog')
    .leftJoin('user', 'user.id', 'auditLog.userId')
    .selectAll('auditLog')
    .select(['user.username', 'user.email'])
    .where('auditLog.id', '=', id)
    .executeTakeFirst()
  return row === undefined ? undefined : shown(row)
}

/** All rows that are there when it begins, newest first, in batches. */
export async function* auditBatches(q: Queries, filter: AuditFilter): AsyncGenerator<ExportedRow[]> {
  let last: { createdAt: string; seq: number } | undefined
  for (;;) {
    let matching = matchingRows(q, filter)
    if (last !== undefined) {
      const { createdAt, seq } = last
      matching = matching.where((eb) =>
        eb(eb.refTuple('auditLog.createdAt', 'auditLog.seq'), '<', eb.tuple(isoTime(Date.parse(createdAt)), seq)),
      )
    }
    const rows = await newestFirst(
      matching
        .leftJoin('user', 'user.id', 'auditLog.userId')
        .selectAll('auditLog')
        .select(['user.username', 'user.email'])
        .select(jsonObjectText(sql.ref('audit_log.details')).as('detailsText')),
    )
      .limit(BATCH)
      .execute()
    if (rows.length > 0) yield rows
    last = rows.at(-1)
    if (rows.length < BATCH || last === undefined) return
  }
}

/** What is compared as it is, with what leaves the fewest rows first. */
const EXACT = [
  ['requestId', 'auditLog.requestId'],
  ['resourceId', 'auditLog.resourceId'],
  ['userId', 'auditLog.userId'],
  ['address', 'auditLog.ipAddress'],
  ['resource', 'auditLog.resource'],
] as const

/**
 * Each of {@link EXACT} has an index by time, and the database cannot know which of several leaves fewer rows: a panel has
 * few kinds of resources and many users. The first is searched by; the others are looked at in the rows that it finds.
 */
function matchingRows(q: Queries, filter: AuditFilter) {
  let query = q.selectFrom('auditLog')
  let searched = false
  for (const [name, column] of EXACT) {
    const value = filter[name]
    if (value === undefined) continue
    query = query.where((eb) => (searched ? eb(inRow(column), '=', value) : eb(column, '=', value)))
    searched = true
  }
  if (filter.from !== undefined) query = query.where('auditLog.createdAt', '>=', isoTime(Date.parse(filter.from)))
  if (filter.to !== undefined) query = query.where('auditLog.createdAt', '<=', isoTime(Date.parse(filter.to)))
  if (filter.action !== undefined) query = query.where(contains(sql.ref('audit_log.action'), containing(filter.action)))
  return query
}

/** The column's value, as an expression that no index has. */
function inRow(column: (typeof EXACT)[number][1]) {
  return sql<string | null>`${sql.ref(column)} || ''`
}

/** Details that somebody else has written into the database must not make the rest unreadable. */
function readDetails(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value }
  } catch {
    // shown as it stands, below
  }
  return { unreadable: text }
}

/** By the time that stands in the rows; rows of one moment in the order of the chain. */
function newestFirst<Q extends { orderBy(column: 'auditLog.createdAt' | 'auditLog.seq', direction: 'desc'): Q }>(
  query: Q,
): Q {
  return query.orderBy('auditLog.createdAt', 'desc').orderBy('auditLog.seq', 'desc')
}
