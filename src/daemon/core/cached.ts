import type { CompiledQuery } from 'kysely'
import type { Queries } from '../db/db.ts'
import { queriesOver, rowsBy } from '../db/sqlite/queries.ts'

const KEPT = 256

/**
 * A query whose SQL is kept with its values for the next one who asks the same: lists are polled, and for a page of rows
 * the making of the SQL costs as much as the reading. `asked` must be all that the query depends on, as JSON can show it.
 */
export function cached<A, O>(
  build: (q: Queries, asked: A) => { compile(): CompiledQuery<O> },
): (q: Queries, asked: A) => Promise<O[]> {
  const query = compiled(build)
  return (q, asked) => rowsBy(q, query(asked))
}

/** The same without running it. */
export function compiled<A, O>(
  build: (q: Queries, asked: A) => { compile(): CompiledQuery<O> },
): (asked: A) => CompiledQuery<O> {
  const never = async (): Promise<never> => {
    throw new Error('this instance only makes SQL')
  }
  const builder = queriesOver({ acquire: never, release: () => undefined })
  const known = new Map<string, CompiledQuery<O>>()
  return (asked) => {
    const key = JSON.stringify(asked)
    const query = known.get(key) ?? build(builder, asked).compile()
    known.delete(key) // and back at the end: the first of the map is the one unused for longest
    known.set(key, query)
    const [oldest] = known.keys()
    if (known.size > KEPT && oldest !== undefined) known.delete(oldest)
    return query
  }
}
