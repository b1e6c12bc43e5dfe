import { type Dump, type DumpFacts, inserts, leave } from './dump.ts'
import type { SqlSession, SqlValue } from './sql-session.ts'

const HEAD = `SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SET check_function_bodies = off;
SET client_min_messages = warning;
`

/** Nothing of the system, and nothing that an extension has made. */
const OURS = (oid: string, catalog: string): string => `n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
  AND NOT EXISTS (SELECT 1 FROM pg_depend e WHERE e.classid = '${catalog}'::regclass AND e.objid = ${oid} AND e.deptype = 'e')`

/**
 * Extensions, enumerations, sequences, functions, tables with their rows, constraints, indexes, views and triggers of PostgreSQL, of one
 * moment. What of it is not written (partitions, domains, composite types, rules, policies) is named.
 */
export const dumpPostgres: Dump = async function* (session, facts) {
  await session.query('BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY')
  await session.query("SET LOCAL search_path = ''")
  await session.query('SET LOCAL extra_float_digits = 3')
  yield HEAD
  const extensions = await session.query(
    "SELECT extname AS name FROM pg_extension WHERE extname <> 'plpgsql' ORDER BY oid",
  )
  for (const { name } of extensions) yield `CREATE EXTENSION IF NOT EXISTS ${quoted(String(name))};\n`
  const schemas = await session.query(
    `SELECT n.nspname AS name FROM pg_namespace n WHERE ${OURS('n.oid', 'pg_namespace')} AND n.nspname <> 'public' ORDER BY 1`,
  )
  for (const { name } of schemas) yield `CREATE SCHEMA IF NOT EXISTS ${quoted(String(name))};\n`
  yield* types(session, facts)
  yield* sequences(session)
  yield* functions(session, facts)
  const tables = await tablesOf(session, facts)
  for (const one of tables) yield* definition(session, one)
  for (const one of tables) {
    facts.tables += 1
    yield* content(session, one, facts)
  }
  yield* values(session)
  yield* afterTables(session, facts)
  await session.query('COMMIT')
}

async function* types(session: SqlSession, facts: DumpFacts): AsyncGenerator<string> {
  const enums = await session.query(
    `SELECT n.nspname AS schema, t.typname AS name, string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder) AS labels
     FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace JOIN pg_enum e ON e.enumtypid = t.oid
     WHERE ${OURS('t.oid', 'pg_type')} GROUP BY 1, 2 ORDER BY 1, 2`,
  )
  for (const { schema, name, labels } of enums)
    yield `CREATE TYPE ${named(schema, name)} AS ENUM (${String(labels)});\n`
  const others = await session.query(
    `SELECT t.typtype::text AS kind, n.nspname || '.' || t.typname AS name FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
     LEFT JOIN pg_class c ON c.oid = t.typrelid
     WHERE ${OURS('t.oid', 'pg_type')} AND (t.typtype IN ('d', 'r') OR (t.typtype = 'c' AND c.relkind = 'c'))`,
  )
  for (const { kind, name } of others) leave(facts, `${kind === 'd' ? 'domain' : 'type'} ${String(name)}`)
}

async function* sequences(session: SqlSession): AsyncGenerator<string> {
  // Those of identity columns come with their tables.
  const found = await session.query(
    `SELECT n.nspname AS schema, c.relname AS name, format_type(s.seqtypid, NULL) AS type, s.seqstart::text AS start,
       s.seqincrement::text AS step, s.seqmin::text AS min, s.seqmax::text AS max, s.seqcache::text AS cache, s.seqcycle AS cycle
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_sequence s ON s.seqrelid = c.oid
     WHERE ${OURS('c.oid', 'pg_class')}
       AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'i')
     ORDER BY 1, 2`,
  )
  for (const { schema, name, type, start, step, min, max, cache, cycle } of found) {
    const bounds = `INCREMENT BY ${step} MINVALUE ${min} MAXVALUE ${max} START WITH ${start} CACHE ${cache}${cycle === true ? ' CYCLE' : ''}`
    yield `CREATE SEQUENCE ${named(schema, name)} AS ${String(type)} ${bounds};\n`
  }
}

async function* functions(session: SqlSession, facts: DumpFacts): AsyncGenerator<string> {
  const found = await session.query(
    `SELECT p.prokind::text AS kind, p.oid::regprocedure::text AS name, l.lanname AS language,
       CASE WHEN p.prokind IN ('f', 'p') THEN pg_get_functiondef(p.oid) END AS sql
     FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang
     WHERE ${OURS('p.oid', 'pg_proc')} ORDER BY p.oid`,
  )
  for (const { name, sql, language } of found) {
    if (typeof sql === 'string' && (language === 'sql' || language === 'plpgsql')) yield `${sql};\n`
    else leave(facts, `function ${String(name)}`)
  }
}

interface Table {
  readonly oid: string
  readonly name: string
}

async function tablesOf(session: SqlSession, facts: DumpFacts): Promise<Table[]> {
  const found = await session.query(
    `SELECT c.oid::text AS oid, n.nspname AS schema, c.relname AS name, c.relkind::text AS kind, c.relispartition AS part,
       EXISTS (SELECT 1 FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type i ON i.oid = t.typelem
         JOIN pg_namespace tn ON tn.oid = t.typnamespace
         WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND tn.nspname !~ '^pg_' AND tn.nspname <> 'information_schema'
         AND coalesce(i.typtype, t.typtype) IN ('c', 'd', 'r')
         AND NOT EXISTS (SELECT 1 FROM pg_depend e WHERE e.objid = t.oid AND e.deptype = 'e')) AS odd
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE ${OURS('c.oid', 'pg_class')} AND c.relkind IN ('r', 'p', 'f') AND c.relpersistence <> 't' ORDER BY c.oid`,
  )
  const tables: Table[] = []
  for (const { oid, schema, name, kind, part, odd } of found) {
    const full = named(schema, name)
    if (kind !== 'r' || part === true) leave(facts, `${kind === 'f' ? 'foreign' : 'partitioned'} table ${full}`)
    else if (odd === true) leave(facts, `table ${full}, whose columns have types of its own`)
    else tables.push({ oid: String(oid), name: full })
  }
  return tables
}

function columnsOf(session: SqlSession, { oid }: Table) {
  return session.query(
    `SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS required,
       pg_get_expr(d.adbin, d.adrelid) AS value, a.attidentity::text AS identity, a.attgenerated::text AS generated,
       CASE WHEN a.attcollation <> t.typcollation THEN (SELECT quote_ident(cn.nspname) || '.' || quote_ident(co.collname)
         FROM pg_collation co JOIN pg_namespace cn ON cn.oid = co.collnamespace WHERE co.oid = a.attcollation) END AS collation
     FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE a.attrelid = ${oid} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`,
  )
}

async function* definition(session: SqlSession, table: Table): AsyncGenerator<string> {
  const lines = (await columnsOf(session, table)).map(
    ({ name, type, required, value, identity, generated, collation }) => {
      const parts = [quoted(String(name)), String(type)]
      if (collation !== null) parts.push(`COLLATE ${String(collation)}`)
      if (generated === 's') parts.push(`GENERATED ALWAYS AS (${String(value)}) STORED`)
      else if (identity !== '') parts.push(`GENERATED ${identity === 'a' ? 'ALWAYS' : 'BY DEFAULT'} AS IDENTITY`)
      else if (value !== null) parts.push(`DEFAULT ${String(value)}`)
      if (required === true) parts.push('NOT NULL')
      return `  ${parts.join(' ')}`
    },
  )
  yield `\nCREATE TABLE ${table.name} (\n${lines.join(',\n')}\n);\n`
}

async function* content(session: SqlSession, table: Table, facts: DumpFacts): AsyncGenerator<string> {
  const stored = (await columnsOf(session, table)).filter(({ generated }) => generated !== 's')
  if (stored.length === 0) return
  const names = stored.map(({ name }) => quoted(String(name)))
  const system = stored.some(({ identity }) => identity === 'a') ? ' OVERRIDING SYSTEM VALUE' : ''
  const head = `INSERT INTO ${table.name} (${names.join(', ')})${system} VALUES\n`
  const write = (value: SqlValue): string => (value === null ? 'NULL' : literal(String(value)))
  yield* inserts(session.rows(`SELECT ${names.join(', ')} FROM ONLY ${table.name}`), { head, end: ';\n', write, facts })
}

/** Where sequences stand, and whose they are. */
async function* values(session: SqlSession): AsyncGenerator<string> {
  const found = await session.query(
    `SELECT n.nspname AS schema, c.relname AS name, pg_sequence_last_value(c.oid)::text AS last, d.deptype::text AS how,
       tn.nspname AS table_schema, t.relname AS table_name, a.attname AS column_name
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     LEFT JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i') AND d.refobjsubid > 0
     LEFT JOIN pg_class t ON t.oid = d.refobjid LEFT JOIN pg_namespace tn ON tn.oid = t.relnamespace
     LEFT JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
     WHERE c.relkind = 'S' AND ${OURS('c.oid', 'pg_class')} ORDER BY 1, 2`,
  )
  for (const { schema, name, last, how, table_schema, table_name, column_name } of found) {
    const owned = typeof table_name === 'string'
    const column = owned ? `${named(table_schema, table_name)}.${quoted(String(column_name))}` : ''
    if (how === 'a') yield `ALTER SEQUENCE ${named(schema, name)} OWNED BY ${column};\n`
    if (last === null) continue
    const sequence =
      how === 'i'
        ? `pg_get_serial_sequence(${literal(named(table_schema, table_name))}, ${literal(String(column_name))})`
        : literal(named(schema, name))
    yield `SELECT pg_catalog.setval(${sequence}, ${String(last)});\n`
  }
}

/** Constraints, indexes, views and triggers: each stands on tables with their rows. */
async function* afterTables(session: SqlSession, facts: DumpFacts): AsyncGenerator<string> {
  const ordinary = `c.relkind = 'r' AND NOT c.relispartition AND c.relpersistence <> 't' AND ${OURS('c.oid', 'pg_class')}`
  const constraints = await session.query(
    `SELECT n.nspname AS schema, c.relname AS name, k.conname AS label, pg_get_constraintdef(k.oid) AS sql
     FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE ${ordinary} AND k.contype IN ('p', 'u', 'c', 'f', 'x') AND k.conislocal ORDER BY k.contype = 'f', k.contype <> 'p', k.oid`,
  )
  for (const { schema, name, label, sql } of constraints) {
    yield `ALTER TABLE ONLY ${named(schema, name)} ADD CONSTRAINT ${quoted(String(label))} ${String(sql)};\n`
  }
  const indexes = await session.query(
    `SELECT pg_get_indexdef(i.indexrelid) AS sql FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE ${ordinary} AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x')) ORDER BY i.indexrelid`,
  )
  for (const { sql } of indexes) yield `${String(sql)};\n`
  const views = await session.query(
    `SELECT n.nspname AS schema, c.relname AS name, c.relkind::text AS kind, pg_get_viewdef(c.oid) AS sql
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('v', 'm') AND ${OURS('c.oid', 'pg_class')} ORDER BY c.oid`,
  )
  for (const { schema, name, kind, sql } of views) {
    // It ends with a semicolon already.
    yield `CREATE ${kind === 'm' ? 'MATERIALIZED VIEW' : 'VIEW'} ${named(schema, name)} AS\n${String(sql)}\n`
  }
  const triggers = await session.query(
    `SELECT pg_get_triggerdef(t.oid) AS sql FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE NOT t.tgisinternal AND ${ordinary} ORDER BY t.oid`,
  )
  for (const { sql } of triggers) yield `${String(sql)};\n`
  const others = await session.query(
    `SELECT 'policy ' || p.polname || ' on ' || c.relname AS what FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
     UNION ALL SELECT 'rule ' || r.rulename || ' on ' || c.relname FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class
     JOIN pg_namespace n ON n.oid = c.relnamespace WHERE r.rulename <> '_RETURN' AND ${OURS('c.oid', 'pg_class')}`,
  )
  for (const { what } of others) leave(facts, String(what))
}

function named(schema: unknown, name: unknown): string {
  return `${quoted(String(schema))}.${quoted(String(name))}`
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}
