const MOST_BYTES = 16_384
const MOST_DEPTH = 8
/** Names that would reach into objects, and names of what has a place of its own where it is sealed. */
const RESERVED = /^(?:__proto__|prototype|constructor)$|password|secret|token|api_?key|credential|oidc/i

/** Why this cannot be the metadata of a theme; `undefined` when it can. */
export function metadataProblem(value: unknown): string | undefined {
  const problem = problemWithin(value, 0)
  if (problem !== undefined) return problem
  return JSON.stringify(value).length > MOST_BYTES ? 'must have at most 16 KiB' : undefined
}

/** What is there with the change put into it, object by object; `null` removes a key. */
export function mergeMetadata(
  before: Readonly<Record<string, unknown>>,
  change: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const merged = new Map(Object.entries(before))
  for (const [key, value] of Object.entries(change)) {
    const old = merged.get(key)
    if (value === null) merged.delete(key)
    else merged.set(key, isObject(value) ? mergeMetadata(isObject(old) ? old : {}, value) : value)
  }
  return Object.fromEntries(merged)
}

function problemWithin(value: unknown, depth: number): string | undefined {
  if (depth > MOST_DEPTH) return `must not be deeper than ${MOST_DEPTH}`
  if (typeof value !== 'object' || value === null) return undefined
  for (const [key, item] of Object.entries(value)) {
    if (!Array.isArray(value) && RESERVED.test(key))
      return `must not use the name ${key.slice(0, 64)}, which is reserved`
    const problem = problemWithin(item, depth + 1)
    if (problem !== undefined) return problem
  }
  return undefined
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
