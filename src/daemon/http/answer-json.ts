import { z } from 'zod'
import { isFrozen } from '../core/frozen.ts'
import { WrittenItems } from '../core/written-items.ts'
import type { JsonBytes } from './json-bytes.ts'

/** Writes a value as JSON by a schema; false when the value does not have the schema's shape, whatever was written so far. */
type Write = (value: unknown, out: JsonBytes) => boolean

/**
 * Compiles a schema into a function that writes the same as `JSON.stringify(schema.parse(value))`: fields that the
 * schema does not name are left out, defaults are put in. Of a value it checks the shape (types, literals, presence), not
 * lengths, ranges and patterns; a part of the schema that can change what it parses goes through zod itself. A value of
 * another shape is left to zod as a whole, which throws the ZodError that says where it does not fit. {@link WrittenItems} go out as they are.
 */
export function compileJson(schema: z.ZodType): (value: unknown, out: JsonBytes) => void {
  let write: Write | undefined
  return (value, out) => {
    if (value instanceof WrittenItems) return written(value, out)
    write ??= compiled(schema) // by the first answer: a daemon has hundreds of endpoints, and most rest
    const { length } = out
    if (write(value, out)) return
    out.back(length)
    out.json(JSON.stringify(schema.parse(value)))
  }
}

/** What has been made before anybody asks. */
const prepared = new WeakMap<z.ZodType, Write>()

/** Compiles a schema whose first answer is to come without that: of one as large as a server's it takes several milliseconds. */
export function prepareJson(schema: z.ZodType): void {
  prepared.set(schema, compiled(schema))
}

function compiled(schema: z.ZodType): Write {
  return prepared.get(schema) ?? compile(schema)
}

function written({ items }: WrittenItems, out: JsonBytes): void {
  out.json('[')
  for (const [i, item] of items.entries()) {
    if (i > 0) out.json(',')
    out.bytes(item)
  }
  out.json(']')
}

/** By what a schema says of itself: to ask zod's classes (`instanceof`) costs the first answer more than all else here. */
function compile(schema: z.ZodType): Write {
  if (!leavesAlone(schema)) return strict(schema)
  switch (schema.def.type) {
    case 'object':
      return object(schema as z.ZodObject)
    case 'array':
      return array(compile((schema as z.ZodArray<z.ZodType>).def.element))
    case 'record':
      return record(schema as z.ZodRecord)
    case 'nullable':
      return nullable(compile((schema as z.ZodNullable<z.ZodType>).def.innerType))
    case 'union':
      return 'discriminator' in schema.def
        ? discriminated(schema as z.ZodDiscriminatedUnion)
        : union(schema as z.ZodUnion)
    case 'enum':
      return oneOf((schema as z.ZodEnum).options)
    case 'literal':
      return oneOf([...(schema as z.ZodLiteral).values])
    case 'unknown':
      return anything
    case 'number':
      return number(schema)
    default:
      return SCALARS[schema.def.type] ?? strict(schema)
  }
}

function number(schema: z.ZodType): Write {
  if (!('format' in schema.def)) return finite
  return schema.def.format === 'safeint' ? integer : strict(schema)
}

const [NULL, TRUE, FALSE] = [Buffer.from('null'), Buffer.from('true'), Buffer.from('false')]

const SCALARS: Readonly<Record<string, Write>> = {
  string: (value, out) => {
    if (typeof value !== 'string') return false
    out.string(value)
    return true
  },
  number: finite,
  boolean: (value, out) => (value === true ? put(TRUE, out) : value === false && put(FALSE, out)),
  null: (value, out) => value === null && put(NULL, out),
}

function put(json: Uint8Array, out: JsonBytes): true {
  out.bytes(json)
  return true
}

function text(json: string, out: JsonBytes): true {
  out.json(json)
  return true
}

function finite(value: unknown, out: JsonBytes): boolean {
  return Number.isFinite(value) && text(`${value}`, out)
}

function integer(value: unknown, out: JsonBytes): boolean {
  return Number.isSafeInteger(value) && text(`${value}`, out)
}

function anything(value: unknown, out: JsonBytes): boolean {
  const json = JSON.stringify(value) as string | undefined // of what JSON has no word for
  return json !== undefined && text(json, out)
}

/** Checks that accept or refuse, and never change what they look at. */
const ONLY_LOOK = new Set([
  'greater_than',
  'length_equals',
  'less_than',
  'max_length',
  'min_length',
  'multiple_of',
  'number_format',
  'string_format',
])

function leavesAlone({ def }: z.ZodType): boolean {
  if ('coerce' in def && def.coerce === true) return false
  if ('format' in def && def.format === 'url') return false // zod writes URLs in its own way
  return (def.checks ?? []).every(({ _zod: { def: check } }) => {
    return ONLY_LOOK.has(check.check) && !('format' in check && check.format === 'url')
  })
}

function strict(schema: z.ZodType): Write {
  return (value, out) => {
    const parsed = schema.safeParse(value)
    return parsed.success && anything(parsed.data, out)
  }
}

interface Field {
  readonly name: string
  /** The name as JSON, as the first of its object and behind others. */
  readonly first: Uint8Array
  readonly next: Uint8Array
  readonly write: Write
  /** What is written for `undefined`: nothing at all, a default; `undefined` where the value must be there. */
  readonly absent: Uint8Array | undefined
}

const NOTHING = Buffer.alloc(0)

function object(schema: z.ZodObject): Write {
  if (schema.def.catchall !== undefined) return strict(schema)
  const fields = Object.entries(schema.shape).map(([name, field]) => fieldOf(name, field as z.ZodType)) // as in compile
  return memoized(isObject, (value, out) => {
    let isEmpty = true
    for (const { name, first, next, write, absent } of fields) {
      const item = value[name]
      const inPlace = item === undefined ? absent : undefined
      if (inPlace === NOTHING) continue
      out.bytes(isEmpty ? first : next)
      isEmpty = false
      if (inPlace !== undefined) out.bytes(inPlace)
      else if (!write(item, out)) return false
    }
    return text(isEmpty ? '{}' : '}', out)
  })
}

function fieldOf(name: string, schema: z.ZodType): Field {
  const label = `${JSON.stringify(name)}:`
  const labels = { name, first: Buffer.from(`{${label}`), next: Buffer.from(`,${label}`) }
  const { type } = schema.def
  if ((type !== 'optional' && type !== 'default') || !leavesAlone(schema)) {
    return { ...labels, write: compile(schema), absent: undefined }
  }
  const { def } = schema as z.ZodOptional<z.ZodType> | z.ZodDefault<z.ZodType>
  const absent = 'defaultValue' in def ? Buffer.from(JSON.stringify(def.defaultValue)) : NOTHING
  return { ...labels, write: compile(def.innerType), absent }
}

function array(item: Write): Write {
  return memoized(isList, (value, out) => {
    let isEmpty = true
    for (const one of value) {
      out.json(isEmpty ? '[' : ',')
      isEmpty = false
      if (!item(one, out)) return false
    }
    return text(isEmpty ? '[]' : ']', out)
  })
}

function record(schema: z.ZodRecord): Write {
  const { keyType, valueType } = schema.def
  if (!(keyType instanceof z.ZodString) || !leavesAlone(keyType)) return strict(schema)
  const write = compile(valueType as z.ZodType)
  return memoized(isObject, (value, out) => {
    if (Object.getPrototypeOf(value) !== Object.prototype) return false
    let isEmpty = true
    for (const key of Object.keys(value)) {
      if (key === '__proto__') return false
      out.json(isEmpty ? '{' : ',')
      isEmpty = false
      out.string(key)
      out.json(':')
      if (!write(value[key], out)) return false
    }
    return text(isEmpty ? '{}' : '}', out)
  })
}

function nullable(write: Write): Write {
  return (value, out) => (value === null ? put(NULL, out) : write(value, out))
}

function oneOf(values: readonly unknown[]): Write {
  const known = new Map(values.map((value) => [value, Buffer.from(JSON.stringify(value))]))
  return (value, out) => {
    const json = known.get(value)
    return json !== undefined && put(json, out)
  }
}

/** Of strings, numbers, literals and the like: whichever option takes the value writes the same. */
function union(schema: z.ZodUnion): Write {
  const options = schema.options as readonly z.ZodType[] // as in compile
  const scalar = ({ def }: z.ZodType): boolean => def.type in SCALARS || def.type === 'enum' || def.type === 'literal'
  if ('inclusive' in schema.def && schema.def.inclusive === false) return strict(schema)
  if (!options.every((option) => scalar(option) && leavesAlone(option))) return strict(schema)
  const writes = options.map(compile)
  return (value, out) => writes.some((write) => write(value, out)) // a scalar that does not fit writes nothing
}

function discriminated(schema: z.ZodDiscriminatedUnion): Write {
  const { discriminator, unionFallback } = schema.def
  const writes = new Map<unknown, Write>()
  for (const option of schema.options) {
    const tag = option instanceof z.ZodObject ? option.shape[discriminator] : undefined
    if (unionFallback === true || !(option instanceof z.ZodObject)) return strict(schema)
    if (!(tag instanceof z.ZodLiteral || tag instanceof z.ZodEnum)) return strict(schema)
    const write = compile(option)
    for (const value of tag instanceof z.ZodEnum ? tag.options : tag.values) writes.set(value, write)
  }
  return (value, out) => isObject(value) && writes.get(value[discriminator])?.(value, out) === true
}

/** Caches the JSON of {@link frozen} values, as long as they live. */
function memoized<T extends object>(
  fits: (value: unknown) => value is T,
  write: (value: T, out: JsonBytes) => boolean,
): Write {
  const known = new WeakMap<object, Uint8Array>()
  return (value, out) => {
    if (!fits(value)) return false
    if (!isFrozen(value)) return write(value, out)
    const bytes = known.get(value)
    if (bytes !== undefined) {
      out.bytes(bytes)
      return true
    }
    const { length } = out
    if (!write(value, out)) return false
    known.set(value, out.since(length))
    return true
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value)
}
