import { z } from 'zod'

/** Writes a value as JSON by a schema; `undefined` when the value does not have the schema's shape. */
type Write = (value: unknown) => string | undefined

const CONSTANT = Symbol('constant')

/**
 * Freezes a value that many answers contain, all the way down. Its JSON is made once per place of a schema, so nothing in
 * it may be meant for one reader alone.
 */
export function constant<T extends object>(value: T): T {
  freeze(value)
  return value
}

/**
 * Compiles a schema into a function that gives the same text as `JSON.stringify(schema.parse(value))`: fields that the
 * schema does not name are left out, defaults are put in. Of a value it checks the shape (types, literals, presence), not
 * lengths, ranges and patterns; a part of the schema that can change what it parses goes through zod itself. A value of
 * another shape is left to zod as a whole, which throws the ZodError that says where it does not fit.
 */
export function compileJson(schema: z.ZodType): (value: unknown) => string {
  let write: Write | undefined
  return (value) => {
    write ??= compile(schema) // by the first answer: a daemon has hundreds of endpoints, and most rest
    return write(value) ?? JSON.stringify(schema.parse(value))
  }
}

function compile(schema: z.ZodType): Write {
  if (!leavesAlone(schema)) return strict(schema)
  if (schema instanceof z.ZodObject) return schema.def.catchall === undefined ? object(schema) : strict(schema)
  if (schema instanceof z.ZodArray) return array(compile(schema.def.element as z.ZodType)) // zod types it by its core
  if (schema instanceof z.ZodRecord) return record(schema)
  if (schema instanceof z.ZodNullable) return nullable(compile(schema.def.innerType as z.ZodType)) // as above
  if (schema instanceof z.ZodDiscriminatedUnion) return discriminated(schema)
  if (schema instanceof z.ZodUnion) return union(schema)
  if (schema instanceof z.ZodEnum) return oneOf(schema.options)
  if (schema instanceof z.ZodLiteral) return oneOf([...schema.values])
  if (schema instanceof z.ZodUnknown) return (value) => JSON.stringify(value)
  if (schema instanceof z.ZodNumberFormat) return schema.format === 'safeint' ? integer : strict(schema)
  const scalar = SCALARS[schema.def.type]
  return scalar ?? strict(schema)
}

const SCALARS: Readonly<Record<string, Write>> = {
  string: (value) => (typeof value === 'string' ? quote(value) : undefined),
  number: (value) => (Number.isFinite(value) ? `${value}` : undefined),
  boolean: (value) => (value === true ? 'true' : value === false ? 'false' : undefined),
  null: (value) => (value === null ? 'null' : undefined),
}

function integer(value: unknown): string | undefined {
  return Number.isSafeInteger(value) ? `${value}` : undefined
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
  return (value) => {
    const parsed = schema.safeParse(value)
    return parsed.success ? JSON.stringify(parsed.data) : undefined
  }
}

interface Field {
  readonly name: string
  readonly label: string
  readonly write: Write
  /** What is written for `undefined`: nothing at all (''), a default; `undefined` where the value must be there. */
  readonly absent: string | undefined
}

function object(schema: z.ZodObject): Write {
  const fields = Object.entries(schema.shape).map(([name, field]) => fieldOf(name, field as z.ZodType)) // as in compile
  return memoized(isObject, (value) => {
    let text = ''
    for (const { name, label, write, absent } of fields) {
      const item = value[name]
      const written = item === undefined && absent !== undefined ? absent : write(item)
      if (written === undefined) return undefined
      if (written !== '') text += `${text === '' ? '{' : ','}${label}${written}`
    }
    return text === '' ? '{}' : `${text}}`
  })
}

function fieldOf(name: string, schema: z.ZodType): Field {
  const label = `${JSON.stringify(name)}:`
  if (schema instanceof z.ZodOptional && leavesAlone(schema)) {
    return { name, label, write: compile(schema.def.innerType as z.ZodType), absent: '' } // as in compile
  }
  if (schema instanceof z.ZodDefault && leavesAlone(schema)) {
    const absent = JSON.stringify(schema.def.defaultValue)
    return { name, label, write: compile(schema.def.innerType as z.ZodType), absent } // as in compile
  }
  return { name, label, write: compile(schema), absent: undefined }
}

function array(item: Write): Write {
  return memoized(isList, (value) => {
    let text = ''
    for (const one of value) {
      const written = item(one)
      if (written === undefined) return undefined
      text += `${text === '' ? '[' : ','}${written}`
    }
    return text === '' ? '[]' : `${text}]`
  })
}

function record(schema: z.ZodRecord): Write {
  const { keyType, valueType } = schema.def
  if (!(keyType instanceof z.ZodString) || !leavesAlone(keyType)) return strict(schema)
  const write = compile(valueType as z.ZodType)
  return memoized(isObject, (value) => {
    if (Object.getPrototypeOf(value) !== Object.prototype) return undefined
    let text = ''
    for (const key of Object.keys(value)) {
      const written = key === '__proto__' ? undefined : write(value[key])
      if (written === undefined) return undefined
      text += `${text === '' ? '{' : ','}${quote(key)}:${written}`
    }
    return text === '' ? '{}' : `${text}}`
  })
}

function nullable(write: Write): Write {
  return (value) => (value === null ? 'null' : write(value))
}

function oneOf(values: readonly unknown[]): Write {
  const texts = new Map(values.map((value) => [value, JSON.stringify(value)]))
  return (value) => texts.get(value)
}

/** Of strings, numbers, literals and the like: whichever option takes the value writes the same. */
function union(schema: z.ZodUnion): Write {
  const options = schema.options as readonly z.ZodType[] // as in compile
  const scalar = ({ def }: z.ZodType): boolean => def.type in SCALARS || def.type === 'enum' || def.type === 'literal'
  if ('inclusive' in schema.def && schema.def.inclusive === false) return strict(schema)
  if (!options.every((option) => scalar(option) && leavesAlone(option))) return strict(schema)
  const writes = options.map(compile)
  return (value) => {
    for (const write of writes) {
      const written = write(value)
      if (written !== undefined) return written
    }
    return undefined
  }
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
  return (value) => (isObject(value) ? writes.get(value[discriminator])?.(value) : undefined)
}

/** Remembers the text of {@link constant} values, as long as they live. */
function memoized<T extends object>(
  fits: (value: unknown) => value is T,
  write: (value: T) => string | undefined,
): Write {
  const known = new WeakMap<object, string>()
  return (value) => {
    if (!fits(value)) return undefined
    if (!(CONSTANT in value)) return write(value)
    const text = known.get(value) ?? write(value)
    if (text !== undefined) known.set(value, text)
    return text
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value)
}

function freeze(value: unknown, mark = true): void {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return
  if (mark) Object.defineProperty(value, CONSTANT, { value: true })
  Object.freeze(value)
  for (const item of Object.values(value)) freeze(item, false)
}

/** A string in JSON; most contain nothing that must be escaped. */
function quote(text: string): string {
  return ESCAPED.test(text) ? JSON.stringify(text) : `"${text}"`
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what JSON escapes
const ESCAPED = /[\u0000-\u001f"\\\ud800-\udfff]/
