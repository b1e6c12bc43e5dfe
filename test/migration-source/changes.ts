/** What is another in one value than in another, a line each: where, and both values. Rows of lists are found by their id or uuid. */
export function differencesOf(before: unknown, after: unknown, at = ''): string[] {
  if (Object.is(before, after)) return []
  if (!isMap(before) || !isMap(after)) return [`${at}: ${shown(before)} -> ${shown(after)}`]
  const [old, young] = [entriesOf(before), entriesOf(after)]
  return [...new Set([...old.keys(), ...young.keys()])].flatMap((name) => {
    const where = at === '' ? name : `${at}.${name}`
    if (!young.has(name)) return [`${where} is gone`]
    if (!old.has(name)) return [`${where} is new: ${shown(young.get(name))}`]
    return differencesOf(old.get(name), young.get(name), where)
  })
}

const isMap = (value: unknown): value is object => typeof value === 'object' && value !== null

function entriesOf(value: object): Map<string, unknown> {
  if (!Array.isArray(value)) return new Map(Object.entries(value))
  return new Map(value.map((row: unknown, index) => [nameOf(row) ?? String(index), row]))
}

function nameOf(row: unknown): string | undefined {
  if (!isMap(row)) return undefined
  const id: unknown = Reflect.get(row, 'id') ?? Reflect.get(row, 'uuid')
  return typeof id === 'number' || typeof id === 'string' ? String(id) : undefined
}

const shown = (value: unknown): string => (JSON.stringify(value) ?? 'nothing').slice(0, 300)
