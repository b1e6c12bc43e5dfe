import type { Connection } from './connection.ts'

/**
 * Which tables statements read and change, by the words in their SQL: SQLite reads no table that a statement does not name. A column, an
 * alias or a text with the name of a table counts as that table, which makes an answer old too early and never too late.
 */
export interface NamedTables {
  /** All that the statement may read; throws for one whose answer depends on more than tables. */
  readBy(sql: string): readonly string[]
  /** All that the statement may change, triggers and actions of foreign keys included; `all` when that is not known. */
  changedBy(sql: string): readonly string[] | 'all'
}

/** What a statement reads beside tables: the time, chance, and what SQLite says of itself. */
const NOT_TABLES =
  /\b(?:random|randomblob|date|time|datetime|julianday|unixepoch|strftime|timediff|changes|total_changes|last_insert_rowid)\s*\(|\bcurrent_(?:date|time|timestamp)\b|\b(?:sqlite_|pragma_|dbstat)/i
const READS = /^\s*(?:select|with|explain|values)\b/i
/** Those that change no row of a table. */
const CHANGES_NOTHING = /^\s*(?:begin|commit|end|rollback|savepoint|release|pragma|vacuum\s+into)\b/i
const CHANGE =
  /\b(?:(insert)\s+(?:or\s+(\w+)\s+)?into|(replace)\s+into|(update)(?:\s+or\s+(\w+))?|(delete)\s+from)\s*"?(\w+)"?/gi
const NO_ACTION = /^(?:no action|restrict)$/
const FOREIGN_KEYS = `select s.name, k."table" as "of", k.on_delete, k.on_update
  from sqlite_schema as s, pragma_foreign_key_list(s.name) as k where s.type = 'table'`
/** Far more than the program has statements. */
const MOST = 5000

/** Reads the schema, for statements of it. */
export async function namedTables(connection: Connection): Promise<NamedTables> {
  const schema = await readSchema(connection)
  const changed = (sql: string): readonly string[] | 'all' => {
    // A semicolon in a text makes parts that are no statements: they change all, which is safe.
    const each = sql.split(';').flatMap((part) => (part.trim() === '' ? [] : [changedByOne(part, schema)]))
    return each.includes('all') ? 'all' : [...new Set(each.flat())]
  }
  const read = (sql: string): readonly string[] => {
    if (NOT_TABLES.test(sql)) throw new Error(`this statement reads more than tables: ${sql.slice(0, 200)}`)
    return wordsOf(sql, schema.tables)
  }
  return { readBy: cachedBySql(read), changedBy: cachedBySql(changed) }
}

/** That rows of a table change, or go. */
interface Change {
  readonly table: string
  readonly removes: boolean
}

interface SchemaOfTables {
  readonly tables: ReadonlySet<string>
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
  const tables = new Set(parts.flatMap(({ type, name }) => (type === 'table' ? [name] : [])))
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
  return { tables, byChange, byRemoval }
}

function changedByOne(sql: string, schema: SchemaOfTables): readonly string[] | 'all' {
  if (CHANGES_NOTHING.test(sql)) return []
  const found = { changed: new Set<string>(), removed: new Set<string>() }
  for (const change of changesIn(sql, schema.tables)) follow(found, schema, change)
  if (found.changed.size > 0) return [...found.changed]
  return READS.test(sql) ? [] : 'all'
}

function changesIn(sql: string, tables: ReadonlySet<string>): Change[] {
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

function wordsOf(sql: string, tables: ReadonlySet<string>): string[] {
  return [...new Set(sql.toLowerCase().match(/\w+/g))].filter((word) => tables.has(word))
}

function lower(value: unknown): string {
  return typeof value === 'string' ? value.toLowerCase() : ''
}

/** Statements are few, and each runs again and again. */
function cachedBySql<T>(make: (sql: string) => T): (sql: string) => T {
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
