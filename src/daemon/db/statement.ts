import type { CompiledQuery, SelectQueryBuilder } from 'kysely'
import type { Queries } from './db.ts'
import { asJson, rowsOf } from './json-rows.ts'
import type { SqlValue } from './sqlite/connection.ts'
import { givesRows } from './sqlite/dialect.ts'
import { queriesOver, SqliteQueries } from './sqlite/queries.ts'
import type { RowsById } from './table-parts.ts'

/** What else is known of a statement. */
export interface StatementOptions<P> {
  /** The rows of a table that it reads, where it reads no others of that table. */
  readonly keepsTo?: (values: P) => RowsById
}

/** Runs a statement with these values, and answers its rows. */
export interface Statement<P, O> {
  (q: Queries, values: P): Promise<O[]>
  readonly sql: () => string
}

/** Runs a statement that gives no rows with these values, and answers whether it has changed so many. */
export interface Changing<P> {
  (q: Queries, values: P, expected: number): Promise<boolean>
  readonly sql: () => string
}

/** Runs a statement whose rows come as JSON, and answers them. */
export interface JsonStatement<P, O> {
  (q: Queries, values: P): Promise<O[]>
  readonly sql: () => string
}

/** Stands before the name of a value while the SQL is made; no value of ours begins with it. */
const PLACE = '\0value:'

/**
 * A statement whose SQL is made once, with values that are given by name each time: what is done for every order, and reads of wide
 * joins, cost more to make than to run. `build` gets a place for each value, which it puts where the value belongs and looks at no further.
 */
export function statement<P extends Readonly<Record<string, SqlValue>>, O>(
  build: (q: Queries, places: P) => { compile(): CompiledQuery<O> },
  { keepsTo }: StatementOptions<P> = {},
): Statement<P, O> {
  const madeOnce = once(() => make(build))
  const run = async (q: Queries, values: P): Promise<O[]> => {
    const made = madeOnce()
    const parameters = parametersOf(made, values)
    if (q instanceof SqliteQueries) return (await q.rowsOf(made, parameters, keepsTo?.(values))) as O[] // the SQL says what its rows are
    return (await q.executeQuery<O>({ ...made.query, parameters })).rows
  }
  return Object.assign(run, { sql: () => madeOnce().sql })
}

/** The same for a statement that gives no rows, of which it matters how many it has changed. */
export function changing<P extends Readonly<Record<string, SqlValue>>>(
  build: (q: Queries, places: P) => { compile(): CompiledQuery<unknown> },
): Changing<P> {
  const madeOnce = once(() => make(build))
  const run = async (q: Queries, values: P, expected: number): Promise<boolean> => {
    const made = madeOnce()
    const parameters = parametersOf(made, values)
    if (q instanceof SqliteQueries) return q.change(made.sql, parameters, expected)
    const { numAffectedRows } = await q.executeQuery({ ...made.query, parameters })
    return Number(numAffectedRows) === expected
  }
  return Object.assign(run, { sql: () => madeOnce().sql })
}

/** The same for a query of wide rows, which come as JSON ({@link asJson}). */
export function jsonStatement<P extends Readonly<Record<string, SqlValue>>, DB, TB extends keyof DB, O>(
  build: (q: Queries, places: P) => SelectQueryBuilder<DB, TB, O>,
  options: StatementOptions<P> = {},
): JsonStatement<P, O> {
  let names: readonly string[] = []
  const run = statement((q, places: P) => {
    const made = asJson(build(q, places))
    names = made.names
    return made
  }, options)
  const read = async (q: Queries, values: P): Promise<O[]> => {
    const texts = await run(q, values)
    return rowsOf<O>(names, texts)
  }
  return Object.assign(read, { sql: run.sql })
}

interface Made<O> {
  readonly query: CompiledQuery<O>
  readonly sql: string
  readonly givesRows: boolean
  /** Either the name of a value that is given, or the value. */
  readonly parameters: readonly { readonly name: string | undefined; readonly value: unknown }[]
}

function once<T>(make: () => T): () => T {
  let known: T | undefined
  return () => {
    known ??= make()
    return known
  }
}

function parametersOf({ parameters }: Made<unknown>, values: Readonly<Record<string, SqlValue>>): unknown[] {
  return parameters.map(({ name, value }) => (name === undefined ? value : values[name]))
}

function make<P, O>(build: (q: Queries, places: P) => { compile(): CompiledQuery<O> }): Made<O> {
  const never = async (): Promise<never> => {
    throw new Error('this instance only makes SQL')
  }
  const q = queriesOver({ acquire: never, release: () => undefined })
  const places = new Proxy({}, { get: (_, name) => `${PLACE}${String(name)}` })
  const query = build(q, places as P).compile() // places stand for values of any type, see above
  const parameters = query.parameters.map((value) => ({
    name: typeof value === 'string' && value.startsWith(PLACE) ? value.slice(PLACE.length) : undefined,
    value,
  }))
  return { query, sql: query.sql, givesRows: givesRows(query), parameters }
}
