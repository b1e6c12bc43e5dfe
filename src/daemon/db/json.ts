import { sql } from 'kysely'
import type { z } from 'zod'

/** Reads a JSON column by its schema. A row that does not fit is our bug: it throws with the issues, never with the value. */
export function parseJson<T extends z.ZodType>(schema: T, text: string): z.output<T> {
  const parsed = schema.safeParse(read(text))
  if (parsed.success) return parsed.data
  throw new Error(
    `a stored JSON value does not fit: ${parsed.error.issues.map((i) => `${i.path.join('.')} ${i.message}`)}`,
  )
}

/** Whether a JSON column can be read by its schema. */
export function isJson(schema: z.ZodType, text: string): boolean {
  try {
    return schema.safeParse(read(text)).success
  } catch {
    return false
  }
}

function read(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Error('a stored JSON value is damaged') // the parser's own message shows a part of it
  }
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
