import { stat } from 'node:fs/promises'
import { sql } from 'kysely'
import { TOTAL_CAP } from '../../shared/kernel/page.ts'
import type { Db, Queries } from './db.ts'
import { MIGRATIONS } from './migrations.ts'

/** The database as a file and as a schema. */
export interface DbStats {
  readonly version: string
  readonly pageSize: number
  readonly pageCount: number
  readonly freelistPages: number
  readonly tables: readonly TableRows[]
  readonly migrations: { readonly applied: number; readonly pending: number; readonly latest: string }
}

/** Rows of a table, counted up to the cap of lists (shared/page.ts); `rowsIsCapped`: there are more. */
export interface TableRows {
  readonly name: string
  readonly rows: number
  readonly rowsIsCapped?: true
}

/** Sizes in bytes; `null` when the file cannot be looked at. A missing log is an empty one. */
export async function dbSizes(file: string): Promise<{ sizeBytes: number | null; walSizeBytes: number | null }> {
  return { sizeBytes: await sizeOf(file, null), walSizeBytes: await sizeOf(`${file}-wal`, 0) }
}

/** Reads the stats. No table is read through: its cost does not grow with the number of rows. Rejects when it cannot be read. */
export async function dbStats({ read }: Db): Promise<DbStats> {
  const applied = await pragma(read, 'user_version')
  return {
    version: await one<string>(read, 'select sqlite_version() as value'),
    pageSize: await pragma(read, 'page_size'),
    pageCount: await pragma(read, 'page_count'),
    freelistPages: await pragma(read, 'freelist_count'),
    tables: await countTables(read),
    migrations: {
      applied,
      pending: MIGRATIONS.length - applied,
      latest: MIGRATIONS.find(({ id }) => id === applied)?.name ?? '',
    },
  }
}

/** How long one small read takes, in milliseconds. */
export async function dbLatency({ read }: Db, monotonicMs: () => number): Promise<number> {
  const begun = monotonicMs()
  await read.selectFrom('setting').select('key').limit(1).execute()
  return Math.round((monotonicMs() - begun) * 100) / 100
}

/** Logs that grow without end have numbers without gaps: the first and the last show how many there are. */
const NUMBERED: Readonly<Record<string, string>> = { audit_log: 'seq', event: 'id' }

async function countTables(q: Queries): Promise<TableRows[]> {
  const { rows: named } = await sql<{
    name: string
  }>`select name from sqlite_schema where type = 'table' and name not like 'sqlite\\_%' escape '\\' order by name`.execute(
    q,
  )
  const counts = named.map(({ name }) => {
    const number = NUMBERED[name]
    if (number === undefined) {
      return sql`select ${name} as name, (select count(*) from (select 1 from ${sql.table(name)} limit ${TOTAL_CAP + 1})) as count`
    }
    const [table, column] = [sql.table(name), sql.ref(number)]
    // The greatest and the least each stand at an end of the table; asked for together they would have it read through.
    return sql`select ${name} as name, coalesce((select max(${column}) from ${table}) - (select min(${column}) from ${table}) + 1, 0) as count`
  })
  const { rows } = await sql<{ name: string; count: number }>`select * from (${sql.join(
    counts,
    sql` union all `,
  )})`.execute(q)
  return rows.map(({ name, count }) =>
    NUMBERED[name] === undefined && count > TOTAL_CAP
      ? { name, rows: TOTAL_CAP, rowsIsCapped: true }
      : { name, rows: count },
  )
}

async function pragma(q: Queries, name: string): Promise<number> {
  return one<number>(q, `select ${name} as value from pragma_${name}`)
}

async function one<T>(q: Queries, statement: string): Promise<T> {
  const { rows } = await sql<{ value: T }>`${sql.raw(statement)}`.execute(q)
  const [row] = rows
  if (row === undefined) throw new Error(`no row: ${statement}`)
  return row.value
}

async function sizeOf(file: string, absent: null | 0): Promise<number | null> {
  try {
    return (await stat(file)).size
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return absent
    throw error
  }
}
