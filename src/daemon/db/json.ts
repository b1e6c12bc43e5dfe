import { sql } from 'kysely'
import type { z } from 'zod'

/** Reads a JSON column by its schema. A row that does not fit is our bug: it throws with the issues, never with the value. */
export function parseJson<T extends z.ZodType>(schema: T, text: string): z.output<T> {
  const parsed = schema.safeParse(JSON.parse(text))
  if (parsed.success) return parsed.data
  throw new Error(
    `a stored JSON value does not fit: ${parsed.error.issues.map((i) => `${i.path.join('.')} ${i.message}`)}`,
  )
}

/**
 * The text of a JSON column on one line when it is an object, else NULL. The database reads it: what passes through here by
 * the million is not parsed in this process, where every short text in it would stay until the next full collection.
 */
export function jsonObjectText(column: ReturnType<typeof sql.ref>) {
  return sql<
    string | null
  >`case when json_valid(${column}) and json_type(${column}) = 'object' then json(${column}) end`
}
