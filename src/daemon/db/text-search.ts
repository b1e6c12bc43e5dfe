import { type RawBuilder, type SqlBool, sql } from 'kysely'

/**
 * The condition of a list's `search`: the id begins with the text (with or without its prefix), or one of the columns
 * contains it. ASCII letters match in either case; `%` and `_` stand for themselves.
 */
export function textMatches(search: string, idColumn: string, columns: readonly string[]): RawBuilder<SqlBool> {
  const text = search.trim().replace(/[\\%_]/g, '\\$&')
  const contains = columns.map((column) => sql`lower(${sql.ref(column)}) like lower(${`%${text}%`}) escape '\\'`)
  const beginnings = [`${text}%`, `%\\_${text}%`].map(
    (pattern) => sql`${sql.ref(idColumn)} like ${pattern} escape '\\'`,
  )
  return sql<SqlBool>`(${sql.join([...beginnings, ...contains], sql` or `)})`
}

/** The LIKE pattern of a text that is to be contained, for {@link contains}. */
export function containing(text: string): string {
  return `%${text.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`
}

/** Whether the column contains the text of the pattern, whatever its case. */
export function contains(column: ReturnType<typeof sql.ref>, pattern: string) {
  return sql<boolean>`lower(${column}) like ${pattern} escape '\\'`
}
