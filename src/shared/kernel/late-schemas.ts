import * as zod from 'zod'

// zod with schemas that are made when they are first used. The build puts it into the place of zod: the contract has some ten
// thousand schemas, a start that makes all of them takes a third longer, and a daemon that has been asked for little needs few.
export * from 'zod'

type Schema = zod.ZodType
type Make = (...args: readonly unknown[]) => Schema
type Shape = Readonly<Record<string, unknown>>

/** A schema that was asked for, and has been made or not. */
interface Late {
  make: (() => Schema) | undefined
  made: Schema | undefined
  /** The fields of an object, where the calls say them: many objects are made of fields of others. */
  readonly shape: (() => Shape) | undefined
  /** The call that it is of, which says its class; `undefined`: only zod knows. */
  readonly call: string | undefined
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
      'unwrap',
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
    ['exclude', 'extract'],
    ['refine', 'superRefine', 'check', 'overwrite', 'transform'],
    ['extend', 'safeExtend', 'pick', 'omit', 'partial', 'required', 'strict', 'loose', 'catchall'],
  ].flat(),
)

/** Methods that answer with a schema of the same class. */
const ALIKE: ReadonlySet<string> = new Set(['brand', 'refine', 'superRefine', 'check', 'overwrite'])

/** The fields of the object that a method makes of one with these fields; of others only zod knows. */
const SHAPES: Readonly<Record<string, (shape: Shape, by: Shape) => Shape>> = {
  refine: (shape) => shape,
  partial: (shape, mask) =>
    Object.fromEntries(
      Object.entries(shape).map(([key, field]) => [
        key,
        mask === undefined || mask[key] === true ? (field as Schema).optional() : field, // fields are schemas
      ]),
    ),
  strict: (shape) => shape,
  loose: (shape) => shape,
  extend: (shape, more) => ({ ...shape, ...more }),
  pick: (shape, mask) => Object.fromEntries(fields(mask).map((key) => [key, shape[key]])),
  omit: (shape, mask) => {
    const without = new Set(fields(mask))
    return Object.fromEntries(Object.entries(shape).filter(([key]) => !without.has(key)))
  },
}

/** Stands for a schema until somebody looks at it: all that is asked of it is asked of the schema. */
const standIn: ProxyHandler<Late> = {
  get: (late, key) => {
    if (key === LATE) return late
    if (key === 'shape' && late.made === undefined && late.shape !== undefined) return late.shape()
    if (!CHAINED.has(key)) return Reflect.get(schemaOf(late), key)
    return (...args: readonly unknown[]) =>
      later(
        () => (Reflect.get(schemaOf(late), key) as Make)(...args.map(plain)), // by the list above
        {
          shape: shapeAfter(String(key), late.shape, args[0] as Shape), // what these methods take
          call: callOf(String(key), late),
        },
      )
  },
  has: (late, key) => Reflect.has(schemaOf(late), key),
  getPrototypeOf: (late) => Reflect.getPrototypeOf(schemaOf(late)),
}

function fields(mask: Shape): string[] {
  return Object.keys(mask).filter((key) => mask[key] === true)
}

function shapeAfter(method: string, shape: Late['shape'], by: Shape): Late['shape'] {
  const change = SHAPES[method]
  if (shape === undefined || change === undefined) return undefined
  let made: Shape | undefined
  return () => (made ??= change(shape(), by))
}

function callOf(method: string, late: Late): string | undefined {
  if (method === 'unwrap') return undefined
  if (method === 'nullish') return 'optional'
  return ALIKE.has(method) ? late.call : method
}

function later(make: () => Schema, { shape, call }: Pick<Late, 'shape' | 'call'>): Schema {
  const late: Late = { make, made: undefined, shape, call }
  return new Proxy(late, standIn) as never // it answers as one
}

function schemaOf(late: Late): Schema {
  late.made ??= late.make?.()
  if (late.made === undefined) throw new Error('a schema is needed to make itself')
  late.make = undefined
  return late.made
}

/** What a stand-in stands for; `undefined`: it is none. */
function lateOf(value: object): Late | undefined {
  return Reflect.get(value, LATE) as Late | undefined // by the handler above
}

/** What is given to zod holds the schemas themselves, so that parsing meets no stand-in on its way. */
function plain(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  const late = lateOf(value)
  if (late !== undefined) return schemaOf(late)
  if (Array.isArray(value)) return value.map(plain)
  if (Object.getPrototypeOf(value) !== Object.prototype) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, plain(one)]))
}

function lateBy<T>(make: T): T {
  const call = make as Make // each of those below makes a schema
  const known = { shape: undefined, call: '' }
  return ((...args: readonly unknown[]) => later(() => call(...args.map(plain)), known)) as T // of the same arguments
}

/** A class of zod, of which stand-ins are said to be by the call that they note: nothing is made to ask. */
function classBy<T extends abstract new (...args: never) => unknown>(call: string, real: T): T {
  const has = (value: unknown): boolean => {
    const known = typeof value === 'object' && value !== null ? lateOf(value)?.call : undefined
    return known === undefined ? value instanceof real : known === call
  }
  return Object.create(real, { [Symbol.hasInstance]: { value: has } }) as T // with all that the class has
}

function lateObjectBy<T>(make: T): T {
  const call = make as Make // as in lateBy
  return ((...args: readonly unknown[]) => {
    const shape = args[0] as Shape | undefined
    return later(() => call(...args.map(plain)), { shape: shape && (() => shape), call: 'object' })
  }) as T // of the same arguments
}

export const array = lateBy(zod.array)
export const boolean = lateBy(zod.boolean)
export const cidrv4 = lateBy(zod.cidrv4)
export const cidrv6 = lateBy(zod.cidrv6)
export const coerce = { ...zod.coerce, number: lateBy(zod.coerce.number) }
export const discriminatedUnion = lateBy(zod.discriminatedUnion)
export const email = lateBy(zod.email)
const enumeration = lateBy(zod.enum)
export const int = lateBy(zod.int)
export const ipv4 = lateBy(zod.ipv4)
export const ipv6 = lateBy(zod.ipv6)
export const iso = { ...zod.iso, date: lateBy(zod.iso.date), datetime: lateBy(zod.iso.datetime) }
export const literal = lateBy(zod.literal)
export const looseObject = lateObjectBy(zod.looseObject)
const nothing = lateBy(zod.null)
export const nullable = lateBy(zod.nullable)
export const number = lateBy(zod.number)
export const object = lateObjectBy(zod.object)
export const optional = ((schema: Schema) => schema.optional()) as typeof zod.optional // what it does
export const partialRecord = lateBy(zod.partialRecord)
export const record = lateBy(zod.record)
export const strictObject = lateObjectBy(zod.strictObject)
export const string = lateBy(zod.string)
export const tuple = lateBy(zod.tuple)
export const union = lateBy(zod.union)
export const unknown = lateBy(zod.unknown)
export const url = lateBy(zod.url)
export const uuid = lateBy(zod.uuid)
export { enumeration as enum, nothing as null }
export const ZodDefault = classBy('default', zod.ZodDefault)
export const ZodOptional = classBy('optional', zod.ZodOptional)

/** To walk through a schema, zod has to have it itself. */
export const toJSONSchema = ((...args: readonly unknown[]) =>
  (zod.toJSONSchema as (...args: readonly unknown[]) => unknown)(...args.map(plain))) as typeof zod.toJSONSchema // of the same arguments
