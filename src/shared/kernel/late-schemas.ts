import * as zod from 'zod'

// zod with schemas that are made when they are first used. The build puts it into the place of zod: the contract has some ten
// thousand schemas, a start that makes all of them takes a third longer, and a daemon that has been asked for little needs few.
export * from 'zod'

type Schema = zod.ZodType
type Make = (...args: readonly unknown[]) => Schema

/** A schema that was asked for, and has been made or not. */
interface Late {
  make: (() => Schema) | undefined
  made: Schema | undefined
}

/** What a stand-in alone answers: which late schema it is for. */
const LATE = Symbol('late')

/** What makes another schema of a schema, and looks into neither. */
const CHAINED: ReadonlySet<string | symbol> = new Set(
  [
    [
      'optional',
      'nullable',
      'nullish',
      'default',
      'prefault',
      'catch',
      'array',
      'or',
      'and',
      'pipe',
      'readonly',
      'brand',
    ],
    [
      'min',
      'max',
      'length',
      'nonempty',
      'regex',
      'startsWith',
      'endsWith',
      'includes',
      'trim',
      'toLowerCase',
      'toUpperCase',
    ],
    ['int', 'gt', 'gte', 'lt', 'lte', 'positive', 'nonnegative', 'multipleOf'],
    ['refine', 'superRefine', 'check', 'overwrite', 'transform'],
    ['extend', 'safeExtend', 'pick', 'omit', 'partial', 'required', 'strict', 'loose', 'catchall'],
  ].flat(),
)

/** Stands for a schema until somebody looks at it: all that is asked of it is asked of the schema. */
const standIn: ProxyHandler<Late> = {
  get: (late, key) => {
    if (key === LATE) return late
    if (!CHAINED.has(key)) return Reflect.get(schemaOf(late), key)
    return (...args: readonly unknown[]) => later(() => (Reflect.get(schemaOf(late), key) as Make)(...args.map(plain))) // by the list above
  },
  has: (late, key) => Reflect.has(schemaOf(late), key),
  getPrototypeOf: (late) => Reflect.getPrototypeOf(schemaOf(late)),
}

function later(make: () => Schema): Schema {
  const late: Late = { make, made: undefined }
  return new Proxy(late, standIn) as never // it answers as one
}

function schemaOf(late: Late): Schema {
  late.made ??= late.make?.()
  if (late.made === undefined) throw new Error('a schema is needed to make itself')
  late.make = undefined
  return late.made
}

/** What is given to zod holds the schemas themselves, so that parsing meets no stand-in on its way. */
function plain(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  const late = Reflect.get(value, LATE) as Late | undefined // by the handler above
  if (late !== undefined) return schemaOf(late)
  if (Array.isArray(value)) return value.map(plain)
  if (Object.getPrototypeOf(value) !== Object.prototype) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, plain(one)]))
}

function lateBy<T>(make: T): T {
  const call = make as Make // each of those below makes a schema
  return ((...args: readonly unknown[]) => later(() => call(...args.map(plain)))) as T // of the same arguments
}

export const array = lateBy(zod.array)
export const boolean = lateBy(zod.boolean)
export const discriminatedUnion = lateBy(zod.discriminatedUnion)
const enumeration = lateBy(zod.enum)
export const int = lateBy(zod.int)
export const literal = lateBy(zod.literal)
export const looseObject = lateBy(zod.looseObject)
export const number = lateBy(zod.number)
export const object = lateBy(zod.object)
export const record = lateBy(zod.record)
export const strictObject = lateBy(zod.strictObject)
export const string = lateBy(zod.string)
export const union = lateBy(zod.union)
export { enumeration as enum }
