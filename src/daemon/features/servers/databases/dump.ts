import type { SqlSession } from './sql-session.ts'

/** What a dump holds, counted while it is written. */
export interface DumpFacts {
  tables: number
  rows: number
  /** What of the database is not in the dump, by its kind and name. */
  readonly left: string[]
}

/** Writes a database as SQL: text in the order in which it is to be read back, of one moment. */
export type Dump = (session: SqlSession, facts: DumpFacts) => AsyncGenerator<string>

/** Text is sent in pieces of about so many characters, and a statement with rows has no more. */
export const PIECE_CHARS = 256 * 1024
const MOST_LEFT = 200

/** Notes what is left out. */
export function leave(facts: DumpFacts, what: string): void {
  if (facts.left.length < MOST_LEFT) facts.left.push(what.slice(0, 200))
}

/** Statements that insert rows, as many in each as fit. */
export async function* inserts<V>(
  rows: AsyncIterable<readonly V[]>,
  {
    head,
    end,
    write,
    facts,
  }: { head: string; end: string; write: (value: V, column: number) => string; facts: DumpFacts },
): AsyncGenerator<string> {
  let values: string[] = []
  let chars = 0
  for await (const row of rows) {
    facts.rows += 1
    const text = `(${row.map(write).join(',')})`
    if (chars + text.length > PIECE_CHARS && values.length > 0) {
      yield `${head}${values.join(',\n')}${end}`
      values = []
      chars = 0
    }
    values.push(text)
    chars += text.length
  }
  if (values.length > 0) yield `${head}${values.join(',\n')}${end}`
}
