import type { Connection } from './connection.ts'
import { type GivenRows, narrowUpdate } from './narrow-update.ts'

/**
 * Which tables statements read and change, and where the SQL says it what of them, by the words in their SQL: SQLite reads no table and no
 * column that a statement does not name. A column, an alias or a text of such a name counts as well, which makes an answer old too early and
 * never too late.
 */
export interface NamedTables {
  /** All that the statement may read; throws for one whose answer depends on more than tables. */
  readBy(sql: string): readonly ReadOf[]
  /** All that the statement may change, triggers and actions of foreign keys included; `all` when that is not known. */
  changedBy(sql: string): readonly ChangeOf[] | 'all'
}

/** What is read of a table: certain columns of any rows, or all there is. */
export interface ReadOf {
  readonly table: string
  readonly columns: readonly string[] | 'all'
}

/** What happens to a table: rows are added, columns of rows that are there change, or anything else as well. */
export type ChangeOf =
  | { readonly table: string; readonly how: 'anything' | 'inserts' }
  | {
      readonly table: string
      readonly how: 'updates'
      readonly columns: readonly string[]
      readonly rows: GivenRows | undefined
    }

/** What a statement reads beside tables: the time, chance, and what SQLite says of itself. */
const NOT_TABLES =
  /\b(?:random|randomblob|date|time|datetime|julianday|unixepoch|strftime|timediff|changes|total_changes|last_insert_rowid)\s*\(|\bcurrent_(?:date|time|timestamp)\b|\b(?:sqlite_|pragma_|dbstat)/i
const READS = /^\s*(?:select|with|explain|values)\b/i
/** Those that change no row of a table. */
const CHANGES_NOTHING = /^\s*(?:begin|commit|end|rollback|savepoint|release|pragma|vacuum\s+into)\b/i
const CHANGE =
  /\b(?:(insert)\s+(?:or\s+(\w+)\s+)?into|(replace)\s+into|(update)(?:\s+or\s+(\w+))?|(delete)\s+from)\s*"?(\w+)"?/gi
/** In an insert; a comment may stand between `do` and `update`. */
const UPSERT = /\bupdate\b/i
/** All columns of a table without their names: `*` beside that of `count(*)`, and what compares columns that it does not name. */
const UNNAMED = /\*|\b(?:natural|rowid|oid|_rowid_)\b/i
const COUNT_ALL = /\bcount\s*\(\s*\*\s*\)/gi
const NO_ACTION = /^(?:no action|restrict)$/
const COLUMNS = `select s.name as "table", c.name, c.hidden from sqlite_schema as s, pragma_table_xinfo(s.name) as c where s.type = 'table'`
const FOREIGN_KEYS = `select s.name, k."table" as "of", k.on_delete, k.on_update
  from sqlite_schema as s, pragma_foreign_key_list(s.name) as k where s.type = 'table'`
/** Far more than the program has statements. */
const MOST = 5000

/** Reads the schema, for statements of it. */
export async function namedTables(connection: Connection): Promise<NamedTables> {
  const schema = await readSchema(connection)
  const changed = (sql: string): readonly ChangeOf[] | 'all' => {
    // A semicolon in a text makes parts that are no statements: they change all, which is safe.
    const each = sql.split(';').filter((part) => part.trim() !== '')
    const changes = each.map((part) => changedByOne(part, { schema, isAlone: each.length === 1 }))
    return changes.includes('all') ? 'all' : changes.flatMap((some) => (some === 'all' ? [] : some))
  }
  const read = (sql: string): readonly ReadOf[] => {
    if (NOT_TABLES.test(sql)) throw new Error(`this statement reads more than tables: ${sql.slice(0, 200)}`)
    return readOf(sql, schema)
  }
  return { readBy: read, changedBy: cachedBySql(changed) }
}

/** That rows of a table change, or go. */
interface Change {
  readonly table: string
  readonly removes: boolean
}

interface SchemaOfTables {
  /** The columns of each. */
  readonly tables: ReadonlyMap<string, ReadonlySet<string>>
  /** Those with columns that are made from others. */
  readonly generated: ReadonlySet<string>
  /** By table: what any change of a row of it sets off, and what the end of one does. */
  readonly byChange: ReadonlyMap<string, readonly Change[]>
  readonly byRemoval: ReadonlyMap<string, readonly Change[]>
}

async function readSchema(connection: Connection): Promise<SchemaOfTables> {
  const rows = await connection.all("select type, name, tbl_name, sql from sqlite_schema where type <> 'index'")
  const parts = rows.map((row) => ({
    type: row['type'],
    name: lower(row['name']),
    of: lower(row['tbl_name']),
    sql: lower(row['sql']),
  }))
  const tables = new Map<string, Set<string>>()
  for (const { type, name } of parts) if (type === 'table') tables.set(name, new Set())
  const generated = new Set<string>()
  for (const { table, name, hidden } of await connection.all(COLUMNS)) {
    tables.get(lower(table))?.add(lower(name))
    if (hidden !== 0) generated.add(lower(table))
  }
  const odd = parts.find(({ type, name }) => type === 'view' || (type === 'table' && !/^\w+$/.test(name)))
  if (odd !== undefined)
    throw new Error(`${odd.name} is a view, or a table that SQL must quote: its readers are not found`)
  const [byChange, byRemoval] = [new Map<string, Change[]>(), new Map<string, Change[]>()]
  const add = (to: Map<string, Change[]>, from: string, changes: readonly Change[]): void => {
    to.set(from, [...(to.get(from) ?? []), ...changes])
  }
  for (const { type, of, sql } of parts) if (type === 'trigger') add(byChange, of, changesIn(sql, tables))
  for (const key of await connection.all(FOREIGN_KEYS)) {
    const [of, table] = [lower(key['of']), lower(key['name'])]
    const removes = lower(key['on_delete']) === 'cascade'
    if (!NO_ACTION.test(lower(key['on_delete']))) add(byRemoval, of, [{ table, removes }])
    if (!NO_ACTION.test(lower(key['on_update']))) add(byChange, of, [{ table, removes: false }])
  }
  return { tables, generated, byChange, byRemoval }
}

function changedByOne(
  sql: string,
  { schema, isAlone }: { schema: SchemaOfTables; isAlone: boolean },
): readonly ChangeOf[] | 'all' {
  if (CHANGES_NOTHING.test(sql)) return []
  const found = { changed: new Set<string>(), removed: new Set<string>() }
  const named = changesIn(sql, schema.tables)
  for (const change of named) follow(found, schema, change)
  if (found.changed.size === 0) return READS.test(sql) ? [] : 'all'
  const [only] = named
  const narrow = isAlone && only !== undefined && named.length === 1 ? narrowChange(sql, only) : undefined
  return [...found.changed].map((table) => {
    // What triggers and foreign keys do to the same table may be anything.
    const isNarrow = table === narrow?.table && !isReached(schema, table, found)
    return isNarrow ? narrow : { table, how: 'anything' }
  })
}

function narrowChange(sql: string, { table, removes }: Change): ChangeOf | undefined {
  if (removes) return undefined
  if (/^\s*insert\b/i.test(sql)) return UPSERT.test(sql) ? undefined : { table, how: 'inserts' }
  const update = narrowUpdate(sql)
  return update?.table === table ? { ...update, how: 'updates' } : undefined
}

/** Whether what the statement sets off may come back to the table. */
function isReached(
  { byChange, byRemoval }: SchemaOfTables,
  table: string,
  { changed, removed }: { readonly changed: ReadonlySet<string>; readonly removed: ReadonlySet<string> },
): boolean {
  const followers = [...[...changed].map((one) => byChange.get(one)), ...[...removed].map((one) => byRemoval.get(one))]
  return followers.some((changes) => changes?.some((change) => change.table === table))
}

function changesIn(sql: string, tables: ReadonlyMap<string, unknown>): Change[] {
  return [...sql.matchAll(CHANGE)].flatMap(([, , orInsert, replace, , orUpdate, deletes, name]) => {
    const replaces = replace !== undefined || lower(orInsert) === 'replace' || lower(orUpdate) === 'replace'
    // Behind `on conflict … do update` stands `set`, behind `after update` of a trigger `on`: no tables.
    const table = lower(name)
    return tables.has(table) ? [{ table, removes: replaces || deletes !== undefined }] : []
  })
}

function follow(
  found: { readonly changed: Set<string>; readonly removed: Set<string> },
  schema: SchemaOfTables,
  { table, removes }: Change,
): void {
  const known = removes ? found.removed : found.changed
  if (known.has(table)) return
  known.add(table)
  for (const next of schema.byChange.get(table) ?? []) follow(found, schema, next)
  if (!removes) return
  found.changed.add(table)
  for (const next of schema.byRemoval.get(table) ?? []) follow(found, schema, next)
}

function readOf(sql: string, { tables, generated }: SchemaOfTables): ReadOf[] {
  const words = new Set(sql.toLowerCase().match(/\w+/g))
  const isUnnamed = UNNAMED.test(sql.replace(COUNT_ALL, ''))
  return [...words].flatMap((table) => {
    const all = tables.get(table)
    if (all === undefined) return []
    return [
      { table, columns: isUnnamed || generated.has(table) ? 'all' : [...all].filter((column) => words.has(column)) },
    ]
  })
}

function lower(value: unknown): string {
  return typeof value === 'string' ? value.toLowerCase() : ''
}

/** What is made of statements, which are few, and each of which runs again and again. */
export function cachedBySql<T>(make: (sql: string) => T): (sql: string) => T {
  const known = new Map<string, T>()
  return (sql) => {
    const before = known.get(sql)
    if (before !== undefined) return before
    if (known.size >= MOST) known.clear()
    const made = make(sql)
    known.set(sql, made)
    return made
  }
}
