import type { z } from 'zod'

/** Reads a JSON column by its schema. A row that does not fit is our bug: it throws with the issues, never with the value. */
export function parseJson<T extends z.ZodType>(schema: T, text: string): z.output<T> {
  const parsed = schema.safeParse(JSON.parse(text))
  if (parsed.success) return parsed.data
  throw new Error(
    `a stored JSON value does not fit: ${parsed.error.issues.map((i) => `${i.path.join('.')} ${i.message}`)}`,
  )
}
