/** What jq would do otherwise than these lines, or not at all, is left to it. */
export class NotPlain extends Error {
  override readonly name = 'NotPlain'
}

/** Makes one value of one, as jq's function of that name. */
export type Function1 = (value: unknown) => unknown

/** Those that take nothing but the value. */
export const functions: ReadonlyMap<string, Function1> = new Map<string, Function1>([
  ['length', lengthOf],
  ['keys', keysOf],
  ['sort', (value) => ordered(items(value))],
  ['unique', (value) => ordered(items(value)).filter((one, at, all) => one !== all[at - 1])],
  ['reverse', (value) => [...items(value)].reverse()],
  ['first', (value) => plain(items(value)[0])],
  ['last', (value) => plain(items(value).at(-1))],
  ['add', sum],
  ['not', (value) => value === null || value === false],
])

export function field(value: unknown, name: string): unknown {
  if (value === null) return null
  if (typeof value !== 'object' || Array.isArray(value)) throw new NotPlain()
  return plain(Object.hasOwn(value, name) ? Reflect.get(value, name) : null)
}

export function join(value: unknown, between: string): string {
  return texts(items(value)).join(between)
}

/** The things in the order of what `of` says of each. */
export function sortBy(value: unknown, of: Function1): unknown[] {
  const pairs = items(value).map((thing) => [of(thing), thing] as const)
  const order = comparing(pairs.map(([by]) => by))
  return pairs.sort(([a], [b]) => order(a, b)).map(([, thing]) => thing)
}

/** A row whose fields lie between tabs. */
export function asTsv(value: unknown): string {
  const fields = items(value).map((one) => {
    if (one === null) return ''
    if (typeof one === 'object') throw new NotPlain()
    return printed(one)
  })
  if (fields.some((text) => /[\\\t]/.test(text))) throw new NotPlain()
  return fields.join('\t')
}

export function items(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw new NotPlain()
  return value.map(plain)
}

/** JSON knows no `undefined`. */
export function plain(value: unknown): unknown {
  return value === undefined ? null : value
}

export function single(values: readonly unknown[]): unknown {
  if (values.length !== 1) throw new NotPlain()
  return values[0]
}

function lengthOf(value: unknown): number {
  if (value === null) return 0
  if (typeof value === 'string' && value.isWellFormed()) return [...value].length
  if (Array.isArray(value)) return value.length
  if (typeof value === 'object') return Object.values(value).filter((one) => one !== undefined).length
  throw new NotPlain()
}

export function compared(found: unknown, sign: string, wanted: unknown): boolean {
  if (typeof found === 'object' && found !== null) throw new NotPlain()
  if (sign === '==') return found === wanted
  if (sign === '!=') return found !== wanted
  if (typeof found !== 'number' || typeof wanted !== 'number') throw new NotPlain()
  if (sign === '<') return found < wanted
  if (sign === '>') return found > wanted
  return sign === '<=' ? found <= wanted : found >= wanted
}

/** A result as `jq -c -r` prints it. */
export function printed(value: unknown): string {
  return typeof value === 'string' ? sameText(value) : JSON.stringify(checked(value))
}

/** The value, if jq and JavaScript print all of it alike. */
function checked(value: unknown): unknown {
  if (typeof value === 'string') sameText(value)
  if (typeof value === 'number') sameNumber(value)
  if (typeof value !== 'object' || value === null) return value
  for (const [name, one] of Object.entries(value)) {
    sameText(name)
    checked(one)
  }
  return value
}

function sameText(text: string): string {
  if (/^[\t -~\u00a0-\ud7ff\ue000-\ufffd]*$/.test(text)) return text
  throw new NotPlain()
}

function sameNumber(value: number): void {
  const size = Math.abs(value)
  if (value !== 0 && (size < 0.001 || size > 999_999_999_999)) throw new NotPlain()
}

function keysOf(value: unknown): string[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new NotPlain()
  return texts(Object.keys(value).filter((name) => Reflect.get(value, name) !== undefined)).sort()
}

function sum(value: unknown): unknown {
  const all = items(value)
  if (all.length === 0) return null
  if (all.every((one) => typeof one === 'number')) return all.reduce((sum, one) => sum + one)
  return texts(all).join('')
}

function ordered(values: readonly unknown[]): unknown[] {
  return [...values].sort(comparing(values))
}

/** How texts alone, or numbers alone, come one behind the other: the order of characters is that of their codes in the texts that are plain. */
function comparing(values: readonly unknown[]): (a: unknown, b: unknown) => number {
  if (values.every((one) => typeof one === 'number')) return (a, b) => Number(a) - Number(b)
  texts(values)
  return (a, b) => (a === b ? 0 : String(a) < String(b) ? -1 : 1)
}

function texts(values: readonly unknown[]): string[] {
  return values.map((one) => {
    if (typeof one !== 'string') throw new NotPlain()
    return sameText(one)
  })
}
