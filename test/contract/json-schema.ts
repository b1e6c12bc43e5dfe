/** A JSON Schema (draft 2020-12) as far as our documents use it. */
export type Schema = { readonly [keyword: string]: unknown }

type Check = (schema: Schema, value: unknown, path: string, root: Schema) => string[]

/** What the value breaks, one sentence each; empty when it fits. A keyword that is not known here throws. */
export function problems(schema: Schema, value: unknown, path = '$', root: Schema = schema): string[] {
  return Object.keys(schema).flatMap((keyword) => {
    const check = CHECKS[keyword]
    if (check === undefined) throw new Error(`the keyword ${keyword} is not known, at ${path}`)
    return check(schema, value, path, root)
  })
}

/** Every schema inside this one, itself included. */
export function walkSchemas(schema: Schema, path = '$'): { schema: Schema; path: string }[] {
  const inside = (value: unknown, at: string): { schema: Schema; path: string }[] =>
    isObject(value) ? walkSchemas(value, at) : []
  return [
    { schema, path },
    ...['items', 'additionalProperties', 'propertyNames', 'not'].flatMap((key) =>
      inside(schema[key], `${path}/${key}`),
    ),
    ...['properties', '$defs'].flatMap((key) =>
      Object.entries(isObject(schema[key]) ? schema[key] : {}).flatMap(([name, value]) =>
        inside(value, `${path}/${key}/${name}`),
      ),
    ),
    ...['anyOf', 'oneOf', 'allOf'].flatMap((key) =>
      list(schema[key]).flatMap((value, i) => inside(value, `${path}/${key}/${i}`)),
    ),
  ]
}

/** Whether a keyword is one that the checker knows. */
export function isKeyword(name: string): boolean {
  return Object.hasOwn(CHECKS, name)
}

export function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

const fine: Check = () => []
const when =
  (broken: (limit: number, value: unknown) => boolean, keyword: string): Check =>
  (schema, value, path) =>
    broken(Number(schema[keyword]), value) ? [`${path} breaks ${keyword} ${String(schema[keyword])}`] : []

const CHECKS: Readonly<Record<string, Check>> = {
  $schema: fine,
  $defs: fine,
  default: fine,
  description: fine,
  format: fine,
  id: fine,
  title: fine,
  readOnly: fine,
  $ref: (schema, value, path, root) => problems(resolve(root, String(schema['$ref'])), value, path, root),
  type: (schema, value, path) =>
    list(schema['type'], [schema['type']]).some((type) => hasType(value, String(type)))
      ? []
      : [`${path} is not of type ${String(schema['type'])}`],
  const: (schema, value, path) => (value === schema['const'] ? [] : [`${path} is not ${String(schema['const'])}`]),
  enum: (schema, value, path) => (list(schema['enum']).includes(value) ? [] : [`${path} is none of the enum`]),
  required: (schema, value, path) =>
    isObject(value)
      ? list(schema['required']).flatMap((name) =>
          Object.hasOwn(value, String(name)) ? [] : [`${path} lacks ${String(name)}`],
        )
      : [],
  properties: (schema, value, path, root) =>
    isObject(value)
      ? Object.entries(schema['properties'] as Record<string, Schema>).flatMap(
          (
            [name, inner], // JSON Schema says so
          ) => (Object.hasOwn(value, name) ? problems(inner, value[name], `${path}.${name}`, root) : []),
        )
      : [],
  additionalProperties: (schema, value, path, root) => {
    if (!isObject(value)) return []
    const known = Object.keys(isObject(schema['properties']) ? schema['properties'] : {})
    const rest = Object.keys(value).filter((name) => !known.includes(name))
    const rule = schema['additionalProperties']
    if (rule === false) return rest.map((name) => `${path}.${name} is not declared`)
    return isObject(rule) ? rest.flatMap((name) => problems(rule, value[name], `${path}.${name}`, root)) : []
  },
  propertyNames: (schema, value, path, root) =>
    isObject(value) && isObject(schema['propertyNames'])
      ? Object.keys(value).flatMap((name) =>
          problems(schema['propertyNames'] as Schema, name, `${path}{${name}}`, root),
        ) // asked above
      : [],
  items: (schema, value, path, root) =>
    Array.isArray(value) && isObject(schema['items'])
      ? value.flatMap((item, i) => problems(schema['items'] as Schema, item, `${path}[${i}]`, root)) // asked above
      : [],
  anyOf: (schema, value, path, root) =>
    list(schema['anyOf']).some((inner) => problems(inner as Schema, value, path, root).length === 0)
      ? []
      : [`${path} fits none of anyOf`],
  oneOf: (schema, value, path, root) =>
    list(schema['oneOf']).filter((inner) => problems(inner as Schema, value, path, root).length === 0).length === 1
      ? []
      : [`${path} does not fit exactly one of oneOf`],
  allOf: (schema, value, path, root) =>
    list(schema['allOf']).flatMap((inner) => problems(inner as Schema, value, path, root)),
  not: (schema, value, path, root) =>
    isObject(schema['not']) && problems(schema['not'], value, path, root).length > 0 ? [] : [`${path} is excluded`],
  pattern: (schema, value, path) =>
    typeof value === 'string' && !new RegExp(String(schema['pattern']), 'u').test(value)
      ? [`${path} breaks its pattern`]
      : [],
  minimum: when((limit, value) => typeof value === 'number' && value < limit, 'minimum'),
  maximum: when((limit, value) => typeof value === 'number' && value > limit, 'maximum'),
  exclusiveMinimum: when((limit, value) => typeof value === 'number' && value <= limit, 'exclusiveMinimum'),
  exclusiveMaximum: when((limit, value) => typeof value === 'number' && value >= limit, 'exclusiveMaximum'),
  minLength: when((limit, value) => typeof value === 'string' && value.length < limit, 'minLength'),
  maxLength: when((limit, value) => typeof value === 'string' && value.length > limit, 'maxLength'),
  minItems: when((limit, value) => Array.isArray(value) && value.length < limit, 'minItems'),
  maxItems: when((limit, value) => Array.isArray(value) && value.length > limit, 'maxItems'),
}

function hasType(value: unknown, type: string): boolean {
  if (type === 'null') return value === null
  if (type === 'array') return Array.isArray(value)
  if (type === 'integer') return Number.isInteger(value)
  if (type === 'object') return isObject(value)
  return typeof value === type
}

function resolve(root: Schema, ref: string): Schema {
  const found = ref
    .replace(/^#\/?/, '')
    .split('/')
    .reduce<unknown>((at, name) => (isObject(at) ? at[name] : undefined), root)
  if (!isObject(found)) throw new Error(`${ref} leads nowhere`)
  return found
}

function list(value: unknown, otherwise: readonly unknown[] = []): readonly unknown[] {
  return Array.isArray(value) ? value : otherwise
}
