import { type Dump, type DumpFacts, inserts, leave } from './dump.ts'
import type { SqlSession, SqlValue } from './sql-session.ts'

const NUMBERS = new Set(['tinyint', 'smallint', 'mediumint', 'int', 'bigint', 'decimal', 'float', 'double', 'year'])
const BYTES = new Set([
  'binary', 'varbinary', 'tinyblob', 'blob', 'mediumblob', 'longblob', 'bit', 'geometry', 'point', 'linestring', 'polygon',
  'multipoint', 'multilinestring', 'multipolygon', 'geometrycollection', 'geomcollection', 'vector',
]) // biome-ignore format: words

const HEAD = `SET NAMES utf8mb4;
SET TIME_ZONE='+00:00';
SET FOREIGN_KEY_CHECKS=0;
SET UNIQUE_CHECKS=0;
SET SQL_MODE='NO_AUTO_VALUE_ON_ZERO';
`

/**
 * Tables with their rows, views and triggers of MySQL and MariaDB. Rows of engines with transactions are of one moment. Routines and
 * events are named and left out: who restores may not have the right to make them.
 */
export const dumpMysql: Dump = async function* (session, facts) {
  await session.query("SET SESSION SQL_MODE='', TIME_ZONE='+00:00'")
  await session.query('SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ')
  await session.query('START TRANSACTION WITH CONSISTENT SNAPSHOT')
  yield HEAD
  const tables = await session.query(
    'SELECT table_name AS name, table_type AS type FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY table_name',
  )
  const views: string[] = []
  for (const { name, type } of tables) {
    if (type === 'BASE TABLE') yield* table(session, String(name), facts)
    else if (type === 'VIEW') views.push(String(name))
    else leave(facts, `${String(type).toLowerCase()} ${String(name)}`)
  }
  yield* viewsOf(session, views, facts)
  yield* triggers(session, facts)
  const others = `SELECT LOWER(routine_type) AS type, routine_name AS name FROM information_schema.routines WHERE routine_schema = DATABASE()
    UNION ALL SELECT 'event', event_name FROM information_schema.events WHERE event_schema = DATABASE()`
  for (const { type, name } of await session.query(others)) leave(facts, `${String(type)} ${String(name)}`)
  await session.query('COMMIT')
  yield 'SET FOREIGN_KEY_CHECKS=1;\nSET UNIQUE_CHECKS=1;\n'
}

async function* table(session: SqlSession, name: string, facts: DumpFacts): AsyncGenerator<string> {
  facts.tables += 1
  const [made] = await session.query(`SHOW CREATE TABLE ${quoted(name)}`)
  yield `\nDROP TABLE IF EXISTS ${quoted(name)};\n${String(made?.['Create Table'])};\n`
  const columns = await session.query(
    `SELECT column_name AS name, LOWER(data_type) AS type, extra AS extra FROM information_schema.columns
     WHERE table_schema = DATABASE() AND table_name = ${literal(name)} ORDER BY ordinal_position`,
  )
  const stored = columns.filter(({ extra }) => !/(?:virtual|stored|persistent)/i.test(String(extra)))
  if (stored.length === 0) return
  const names = stored.map((column) => quoted(String(column['name']))).join(',')
  const kinds = stored.map(({ type }) =>
    NUMBERS.has(String(type)) ? 'number' : BYTES.has(String(type)) ? 'bytes' : 'text',
  )
  const head = `INSERT INTO ${quoted(name)} (${names}) VALUES\n`
  const write = (value: SqlValue, at: number): string => {
    if (value === null) return 'NULL'
    const bytes =
      typeof value === 'string' ? Buffer.from(value) : Buffer.from(value.buffer, value.byteOffset, value.length)
    if (kinds[at] === 'number') return bytes.toString('latin1')
    if (kinds[at] === 'text') return literal(bytes.toString('utf8'))
    return bytes.length === 0 ? "''" : `0x${bytes.toString('hex')}`
  }
  yield* inserts(session.rows(`SELECT ${names} FROM ${quoted(name)}`), { head, end: ';\n', write, facts })
}

async function* viewsOf(session: SqlSession, names: readonly string[], facts: DumpFacts): AsyncGenerator<string> {
  // First as tables of the same columns, so that one may stand on another whatever their order.
  const made: { name: string; sql: string }[] = []
  for (const name of names) {
    const [row] = await session.query(`SHOW CREATE VIEW ${quoted(name)}`).catch(() => [])
    const sql = row?.['Create View']
    if (typeof sql === 'string') made.push({ name, sql })
    else leave(facts, `view ${name}`)
  }
  for (const { name } of made) {
    const columns = await session.query(
      `SELECT column_name AS name FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ${literal(name)}`,
    )
    const stands = columns.map((column) => `1 AS ${quoted(String(column['name']))}`).join(',')
    yield `DROP VIEW IF EXISTS ${quoted(name)};\nCREATE VIEW ${quoted(name)} AS SELECT ${stands};\n`
  }
  for (const { name, sql } of made) yield `DROP VIEW IF EXISTS ${quoted(name)};\n${asInvoker(withoutDefiner(sql))};\n`
}

async function* triggers(session: SqlSession, facts: DumpFacts): AsyncGenerator<string> {
  const found = await session.query(
    'SELECT trigger_name AS name FROM information_schema.triggers WHERE trigger_schema = DATABASE() ORDER BY action_order, trigger_name',
  )
  for (const { name } of found) {
    const [row] = await session.query(`SHOW CREATE TRIGGER ${quoted(String(name))}`).catch(() => [])
    const sql = row?.['SQL Original Statement']
    if (typeof sql === 'string' && !sql.includes('$$')) yield `DELIMITER $$\n${withoutDefiner(sql)}$$\nDELIMITER ;\n`
    else leave(facts, `trigger ${String(name)}`)
  }
}

/** Whoever restores it becomes the definer: naming another one takes rights over the whole host. */
function withoutDefiner(sql: string): string {
  return sql.replace(/\bDEFINER\s{0,9}=\s{0,9}`(?:[^`]|``){0,200}`@`(?:[^`]|``){0,300}`\s{0,9}/i, '')
}

/** The user of a database may be another one when it is restored, and a view of a user who is gone cannot be read. */
function asInvoker(sql: string): string {
  return sql.replace('SQL SECURITY DEFINER', 'SQL SECURITY INVOKER')
}

function quoted(name: string): string {
  return `\`${name.replaceAll('`', '``')}\``
}

const ESCAPES: Readonly<Record<string, string>> = {
  '\0': '\\0',
  '\n': '\\n',
  '\r': '\\r',
  '\x1a': '\\Z',
  "'": "\\'",
  '\\': '\\\\',
}

function literal(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what has to be escaped
  return `'${text.replace(/[\0\n\r\x1a'\\]/g, (char) => ESCAPES[char] ?? char)}'`
}
