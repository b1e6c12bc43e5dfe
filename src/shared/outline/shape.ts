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
      readonly like?: readonly Like[]
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
 * it does not fit, or when only the schema itself could say. An answer is read once, so this is written for code that is not yet compiled:
 * what is as it should be is handed on and not made anew, and the most common kinds come first.
 */
export function readByShape(shape: Shape, root: number, value: unknown): unknown {
  const node = shape[root]
  if (node === undefined) return UNFIT
  const { is } = node
  if (is === 'string') return typeof value === 'string' && isString(node, value) ? value : UNFIT
  if (is === 'nullable') return value === null ? null : readByShape(shape, node.of, value)
  switch (is) {
    case 'one':
      return (node.of as readonly unknown[]).includes(value) ? value : UNFIT
    case 'number':
      return typeof value === 'number' && isNumber(node, value) ? value : UNFIT
    case 'default':
    case 'optional':
      return readByShape(shape, node.of, value)
    case 'boolean':
      return typeof value === 'boolean' ? value : UNFIT
    case 'object':
      return isRecord(value) ? readObject(shape, node, value) : UNFIT
    case 'list':
      return Array.isArray(value) ? readList(shape, node, value) : UNFIT
    case 'map':
      return isRecord(value) ? readMap(shape, node, value) : UNFIT
    case 'either':
      return readEither(shape, node.of, value)
    case 'any':
      return value
  }
}

type Kind<K extends ShapeNode['is']> = Extract<ShapeNode, { is: K }>

function isString(node: Kind<'string'>, text: string): boolean {
  if (node.max !== undefined && text.length > node.max) return false
  // Counted are characters, of which some are two units of the text; what is beyond the limit in units says the schema.
  if (node.min !== undefined && text.length < 2 * node.min && [...text].length < node.min) return false
  if (node.like === undefined) return true
  for (const like of node.like) if (!expression(like).test(text)) return false
  return true
}

function isNumber(node: Kind<'number'>, value: number): boolean {
  if (!Number.isFinite(value) || (node.whole === true && !Number.isSafeInteger(value))) return false
  if ((node.min !== undefined && value < node.min) || (node.max !== undefined && value > node.max)) return false
  return !((node.above !== undefined && value <= node.above) || (node.below !== undefined && value >= node.below))
}

function readList(shape: Shape, { of, min, max }: Kind<'list'>, value: readonly unknown[]): unknown {
  if (value.length < (min ?? 0) || value.length > (max ?? value.length)) return UNFIT
  let read: unknown[] | undefined
  for (let i = 0; i < value.length; i++) {
    const one = readByShape(shape, of, value[i])
    if (one === UNFIT) return UNFIT
    if (one === value[i]) continue
    read ??= [...value]
    read[i] = one
  }
  return read ?? value
}

function readObject(shape: Shape, node: Kind<'object'>, value: Record<string, unknown>): unknown {
  const { fields } = node
  const names = Object.keys(value)
  const values = Object.values(value)
  let read: Record<string, unknown> | undefined
  let at = 0
  for (let i = 0; i < fields.length; i++) {
    const field = fields[i] as readonly [string, number] // within the length
    if (field[0] !== names[at]) {
      if (mayLack(shape, field, value)) continue
      return rebuilt(shape, node, value)
    }
    const one = readByShape(shape, field[1], values[at])
    if (one === UNFIT) return UNFIT
    if (one !== values[at]) read = { ...(read ?? value), [field[0]]: one }
    at++
  }
  return at === names.length ? (read ?? value) : rebuilt(shape, node, value)
}

function mayLack(shape: Shape, [name, of]: readonly [string, number], value: Record<string, unknown>): boolean {
  return shape[of]?.is === 'optional' && !Object.hasOwn(value, name)
}

/** An object that has further fields, or in another order, or lacks some that have defaults. */
function rebuilt(shape: Shape, { fields, others }: Kind<'object'>, value: Record<string, unknown>): unknown {
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

function readMap(shape: Shape, { keys, of }: Kind<'map'>, value: Record<string, unknown>): unknown {
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

type Like = readonly [source: string, flags: string]

const expressions = new WeakMap<Like, RegExp>()

function expression(like: Like): RegExp {
  const known = expressions.get(like)
  if (known !== undefined) return known
  const made = new RegExp(like[0], like[1])
  expressions.set(like, made)
  return made
}
