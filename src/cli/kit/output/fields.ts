import { usage } from '../failure.ts'

/** The chosen fields of one row, by dotted paths: `id,node.name` gives `{"id":…,"node.name":…}`. */
export function pickFields(row: unknown, fields: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(
    fields.map((field) => {
      const found = lookUp(row, field.split('.'))
      if (!found.known) throw usage(`there is no field '${field}'`, `fields: ${namesOf(row).join(', ')}`)
      return [field, found.value]
    }),
  )
}

/** Splits the value of `--json`; without fields it means all of them. */
export function parseFields(text: string): readonly string[] {
  return text
    .split(',')
    .map((field) => field.trim())
    .filter((field) => field !== '')
}

function lookUp(value: unknown, path: readonly string[]): { known: boolean; value: unknown } {
  const [first, ...rest] = path
  if (first === undefined) return { known: true, value }
  if (value === null) return { known: true, value: null }
  if (typeof value !== 'object' || !Object.hasOwn(value, first)) return { known: false, value: undefined }
  return lookUp(Object.entries(value).find(([key]) => key === first)?.[1], rest)
}

function namesOf(row: unknown): string[] {
  return typeof row === 'object' && row !== null ? Object.keys(row) : []
}
