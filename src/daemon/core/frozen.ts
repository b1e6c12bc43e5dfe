/** Values of which nothing changes any more. */
const values = new WeakSet<object>()

/**
 * Freezes a value that many answers contain, all the way down. Its JSON is made once per place of a schema, so nothing in
 * it may be meant for one reader alone.
 */
export function frozen<T extends object>(value: T): T {
  freeze(value)
  values.add(value)
  return value
}

/** Whether the value came from {@link frozen}. */
export function isFrozen(value: object): boolean {
  return values.has(value)
}

function freeze(value: unknown): void {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return
  Object.freeze(value)
  for (const item of Object.values(value)) freeze(item)
}
