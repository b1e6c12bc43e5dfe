import { createHash } from 'node:crypto'

/** SHA-256 of a value as JSON whose keys are sorted: the same for the same content, in whatever order a source names its fields. */
export function contentHash(value: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify(sorted(value)))
    .digest('hex')
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
  return Object.fromEntries(entries.map(([key, one]) => [key, sorted(one)]))
}

/** The id of a step: the same for the same action on the same thing of the same source, in every run. */
export function stepId(sourceFp: string, action: string, sourceType: string, sourceId: string): string {
  return `mgs_${contentHash([sourceFp, action, sourceType, sourceId]).slice(0, 26)}`
}
