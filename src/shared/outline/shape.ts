/**
 * What a value must look like, as plain data: JSON that can be checked without the library that the contract is written in, which takes
 * longer to load than most commands run. `of` and the like are places in the {@link Shape}.
 */
export type ShapeNode =
  | { readonly is: 'any' | 'boolean' }
  | {
      readonly is: 'string'
      readonly min?: number
      readonly max?: number
      /** Source and flags of expressions that all match. */
      readonly like?: readonly (readonly [string, string])[]
    }
  | {
      readonly is: 'number'
      readonly whole?: true
      readonly min?: number
      readonly max?: number
      readonly above?: number
      readonly below?: number
    }
  | { readonly is: 'one'; readonly of: readonly (string | number | boolean | null)[] }
  | { readonly is: 'list'; readonly of: number; readonly min?: number; readonly max?: number }
  /** Fields in their order; `others`: fields that it does not name are dropped, kept, or none may be there. */
  | {
      readonly is: 'object'
      readonly fields: readonly (readonly [string, number])[]
      readonly others: 'dropped' | 'kept' | 'refused'
    }
  | { readonly is: 'map'; readonly keys: number; readonly of: number }
  /** The first that fits. */
  | { readonly is: 'either'; readonly of: readonly number[] }
  | { readonly is: 'nullable' | 'optional'; readonly of: number }
  | { readonly is: 'default'; readonly of: number; readonly value: unknown }

/** Nodes that name each other by their places. */
export type Shape = readonly ShapeNode[]

/** What {@link readByShape} answers for a value that it does not vouch for. */
export const UNFIT = Symbol('unfit')

/**
 * The value (of JSON) as the schema behind the shape would read it: without fields that it does not name, and with defaults. {@link UNFIT} when
 * it does not fit, or when only the schema itself could say.
 */
export function readByShape(shape: Shape, root: number, value: unknown): unknown {
  const node = shape[root]
  if (node === undefined) return UNFIT
  switch (node.is) {
    case 'any':
      return value
    case 'boolean':
      return typeof value === 'boolean' ? value : UNFIT
    case 'string':
      return typeof value === 'string' && isString(node, value) ? value : UNFIT
    case 'number':
      return typeof value === 'number' && isNumber(node, value) ? value : UNFIT
    case 'one':
      return (node.of as readonly unknown[]).includes(value) ? value : UNFIT
    case 'list':
      return readList(shape, node, value)
    case 'object':
      return readObject(shape, node, value)
    case 'map':
      return readMap(shape, node, value)
    case 'either':
      return readEither(shape, node.of, value)
    case 'nullable':
      return value === null ? null : readByShape(shape, node.of, value)
    case 'optional':
    case 'default':
      return readByShape(shape, node.of, value)
  }
}

type Kind<K extends ShapeNode['is']> = Extract<ShapeNode, { is: K }>

function isString({ min = 0, max = Number.POSITIVE_INFINITY, like = [] }: Kind<'string'>, text: string): boolean {
  // Counted are characters, of which some are two units of the text; what is beyond the limit in units says the schema.
  if (text.length > max || (text.length < 2 * min && [...text].length < min)) return false
  return like.every(([source, flags]) => expression(source, flags).test(text))
}

function isNumber({ whole, min, max, above, below }: Kind<'number'>, value: number): boolean {
  if (!Number.isFinite(value) || (whole === true && !Number.isSafeInteger(value))) return false
  if ((min !== undefined && value < min) || (max !== undefined && value > max)) return false
  return !((above !== undefined && value <= above) || (below !== undefined && value >= below))
}

function readList(shape: Shape, { of, min, max }: Kind<'list'>, value: unknown): unknown {
  if (!Array.isArray(value) || value.length < (min ?? 0) || value.length > (max ?? value.length)) return UNFIT
  const read: unknown[] = []
  for (const item of value) {
    const one = readByShape(shape, of, item)
    if (one === UNFIT) return UNFIT
    read.push(one)
  }
  return read
}

function readObject(shape: Shape, { fields, others }: Kind<'object'>, value: unknown): unknown {
  if (!isRecord(value)) return UNFIT
  const read: Record<string, unknown> = {}
  for (const [name, at] of fields) {
    if (!Object.hasOwn(value, name)) {
      const field = shape[at]
      if (field?.is === 'default') read[name] = copied(field.value)
      else if (field?.is !== 'optional') return UNFIT
      continue
    }
    const one = readByShape(shape, at, value[name])
    if (one === UNFIT) return UNFIT
    read[name] = one
  }
  if (others === 'dropped') return read
  for (const name of Object.keys(value)) {
    if (fields.some(([known]) => known === name)) continue
    // What becomes of a field that would be the prototype says the schema.
    if (others === 'refused' || name === '__proto__') return UNFIT
    read[name] = value[name]
  }
  return read
}

function readMap(shape: Shape, { keys, of }: Kind<'map'>, value: unknown): unknown {
  if (!isRecord(value)) return UNFIT
  const read: Record<string, unknown> = {}
  for (const name of Object.keys(value)) {
    if (name === '__proto__' || readByShape(shape, keys, name) === UNFIT) return UNFIT
    const one = readByShape(shape, of, value[name])
    if (one === UNFIT) return UNFIT
    read[name] = one
  }
  return read
}

function readEither(shape: Shape, options: readonly number[], value: unknown): unknown {
  for (const option of options) {
    const read = readByShape(shape, option, value)
    if (read !== UNFIT) return read
  }
  return UNFIT
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function copied(value: unknown): unknown {
  return typeof value === 'object' && value !== null ? JSON.parse(JSON.stringify(value)) : value
}

const expressions = new Map<string, RegExp>()

function expression(source: string, flags: string): RegExp {
  const known = expressions.get(`${flags}/${source}`)
  if (known !== undefined) return known
  const made = new RegExp(source, flags)
  expressions.set(`${flags}/${source}`, made)
  return made
}
