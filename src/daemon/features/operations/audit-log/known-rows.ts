import { sql } from 'kysely'
import { BytesInOrder } from '../../../core/packed-bytes.ts'
import type { Queries } from '../../../db/db.ts'
import { jsonObjectText } from '../../../db/json.ts'
import { KeepingQueries } from '../../../db/kept-results.ts'
import { statement } from '../../../db/statement.ts'

/** Of all rows: about as many as a list counts. */
const MOST_BYTES = 6 * 1024 * 1024

const NOTHING = Buffer.alloc(0)

/** Rows by their numbers, as JSON. */
type Rows = Map<number, Buffer>

/**
 * Rows of the audit log as lists show them, in memory: a row never changes, so that after a change of anything a page has other rows, but
 * seldom rows that nobody has read yet. Where what they show has changed all the same (rows go, a user has another name, another program
 * writes), they are read anew. Those that were read first go first.
 */
export class KnownRows {
  readonly #rows: Rows = new Map()
  /** Rows go in the order in which they came: the pieces that they lie in go with them. */
  readonly #memory = new BytesInOrder()
  #bytes = 0
  /** When they were last found to be as they were read. */
  #since = 0

  /** Those of these rows that there are, in this order, as they were together at one moment that is not before the question. */
  async of(q: Queries, numbers: readonly number[]): Promise<Buffer[]> {
    const readAll = async (): Promise<Buffer[]> => inOrder(numbers, await readRows(q, numbers))
    if (!(q instanceof KeepingQueries)) return readAll()
    const { moment, unmoved } = q.sightOf(shownRows.sql(), { stays: true })
    const since = moment()
    if (since === undefined) return readAll()
    if (!unmoved(this.#since)) this.#forget()
    this.#since = since
    const rows: Rows = new Map()
    for (const number of numbers) {
      const row = this.#rows.get(number)
      if (row !== undefined) rows.set(number, row)
    }
    const missing = numbers.filter((number) => !rows.has(number))
    if (missing.length === 0) return inOrder(numbers, rows)
    const read = await readRows(q, missing)
    if (moment() === undefined || !unmoved(since)) return readAll()
    for (const [number, row] of read) {
      rows.set(number, row)
      this.#keep(number, row)
    }
    return inOrder(numbers, rows)
  }

  #keep(number: number, row: Buffer): void {
    if (this.#rows.has(number)) return // somebody else has read it meanwhile
    this.#rows.set(number, this.#memory.put(row))
    this.#bytes += row.length
    for (const [first, { length }] of this.#rows) {
      if (this.#bytes <= MOST_BYTES) break
      this.#rows.delete(first)
      this.#bytes -= length
    }
  }

  #forget(): void {
    this.#rows.clear()
    this.#bytes = 0
  }
}

function inOrder(numbers: readonly number[], rows: Rows): Buffer[] {
  return numbers.flatMap((number) => rows.get(number) ?? [])
}

async function readRows(q: Queries, numbers: readonly number[]): Promise<Rows> {
  const [found] = await shownRows(q, { numbers: JSON.stringify(numbers) })
  const { json, lengths } = found ?? { json: null, lengths: '[]' }
  let at = 0
  const rows: Rows = new Map()
  // As the statement writes them.
  for (const [number, length] of JSON.parse(lengths) as (readonly [number, number])[]) {
    rows.set(number, json?.subarray(at, at + length) ?? NOTHING)
    at += length
  }
  return rows
}

/** A row as `shown` makes it in rows.ts, by the database. */
const SHOWN_ROW = sql`json_object(
  'id', audit_log.id, 'userId', audit_log.user_id, 'apiKeyId', audit_log.api_key_id, 'action', audit_log.action,
  'resource', audit_log.resource, 'resourceId', audit_log.resource_id,
  'details', json(case when audit_log.details is not null then
    coalesce(${jsonObjectText(sql.ref('audit_log.details'))}, json_object('unreadable', audit_log.details)) end),
  'ipAddress', audit_log.ip_address, 'userAgent', audit_log.user_agent, 'requestId', audit_log.request_id,
  'user', json(case when "user".username is not null and "user".email is not null then
    json_object('id', audit_log.user_id, 'username', "user".username, 'email', "user".email) end),
  'timestamp', audit_log.created_at)`

/** All in one: the driver calls into V8 for each column of each row. */
const shownRows = statement<{ numbers: string }, ShownRows>((q, { numbers }) => ({
  compile: () =>
    sql<ShownRows>`
      with shown as materialized (
        select audit_log.seq as number, ${SHOWN_ROW} as json
        from audit_log left join "user" on "user".id = audit_log.user_id
        where audit_log.seq in (select value from json_each(${numbers})))
      select cast(group_concat(json, '' order by number) as blob) as json,
        json_group_array(json_array(number, octet_length(json)) order by number) as lengths
      from shown`.compile(q),
}))

interface ShownRows {
  /** One behind the other. */
  readonly json: Buffer | null
  /** The number and the length of each, as JSON. */
  readonly lengths: string
}
