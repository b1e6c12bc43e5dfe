import type { CompiledQuery } from 'kysely'
import type { Queries } from './db.ts'
import type { SqlValue } from './sqlite/connection.ts'
import { queriesOver } from './sqlite/queries.ts'

/** Stands before the name of a value while the SQL is made; no value of ours begins with it. */
const PLACE = '\0value:'

/**
 * A statement whose SQL is made once, with values that are given by name each time: what is done for every order costs more to
 * make than to run. `build` gets a place for each value, which it puts where the value belongs and looks at no further.
 */
export function statement<P extends Readonly<Record<string, SqlValue>>, O>(
  build: (q: Queries, places: P) => { compile(): CompiledQuery<O> },
): (q: Queries, values: P) => Promise<O[]> {
  let query: CompiledQuery<O> | undefined
  return async (q, values) => {
    query ??= made(build)
    const parameters = query.parameters.map((value) =>
      typeof value === 'string' && value.startsWith(PLACE) ? values[value.slice(PLACE.length)] : value,
    )
    return (await q.executeQuery<O>({ ...query, parameters })).rows
  }
}

function made<P, O>(build: (q: Queries, places: P) => { compile(): CompiledQuery<O> }): CompiledQuery<O> {
  const never = async (): Promise<never> => {
    throw new Error('this instance only makes SQL')
  }
  const q = queriesOver({ acquire: never, release: () => undefined })
  const places = new Proxy({}, { get: (_, name) => `${PLACE}${String(name)}` })
  return build(q, places as P).compile() // places stand for values of any type, see above
}
