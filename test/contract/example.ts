import { z } from 'zod'
import type { Endpoint } from '../../src/shared/kernel/contract.ts'
import { isDeclared } from '../../src/shared/kernel/contract.ts'

/** What the parts of an example are made of. */
export interface Filling {
  /** What nothing else is called. */
  readonly unique: string
  /** Real ids by the names of fields; others get one that nothing has. */
  readonly ids: Readonly<Record<string, string>>
}

type Json = Readonly<Record<string, unknown>>

/** What fields hold whose names say more than their schemas. */
const BY_NAME: Readonly<Record<string, string>> = {
  password: 'Another-elephant-66',
  currentPassword: 'Another-elephant-66',
  newPassword: 'Another-elephant-66',
  ip: '127.0.0.1',
  ports: '6000-6003',
  host: 'db.example.org',
  permission: 'server.read',
}

/** Texts of the shapes that other fields have; the first that the schema takes stands for it. */
const TEXTS = ['x', 'x-1', '10.0.0.0/24', 'https://example.org', '000000', 'Another-elephant-66']

/**
 * The smallest body that the endpoint's schema takes, made from the schema alone: what is required, ids by their names.
 * `undefined` for an endpoint without a body, and for one whose rules a schema does not tell.
 */
export function exampleBody(endpoint: Endpoint, filling: Filling): unknown {
  if (!isDeclared(endpoint.body) || endpoint.accepts !== 'json') return undefined
  const schema = z.toJSONSchema(endpoint.body, { io: 'input', unrepresentable: 'any' }) as Json
  const made = exampleOf(schema, { ...filling, schema }, '')
  return endpoint.body.safeParse(made).success ? made : undefined
}

interface Making extends Filling {
  readonly schema: Json
}

function exampleOf(schema: Json, making: Making, name: string): unknown {
  if (typeof schema['$ref'] === 'string') return exampleOf(referenced(schema['$ref'], making.schema), making, name)
  if (schema['const'] !== undefined) return schema['const']
  if (Array.isArray(schema['enum'])) return schema['enum'][0]
  const choices = schema['anyOf'] ?? schema['oneOf']
  if (Array.isArray(choices)) return exampleOf(choices[0], making, name)
  switch (schema['type']) {
    case 'object':
      return objectOf(schema, making)
    case 'array':
      return Number(schema['minItems'] ?? 0) === 0
        ? []
        : [exampleOf(partOf(schema, 'items'), making, name.replace(/s$/, ''))]
    case 'integer':
    case 'number':
      return Math.max(Number(schema['minimum'] ?? 1), 1)
    case 'boolean':
      return true
    case 'string':
      return textOf(schema, making, name)
    default:
      return {}
  }
}

function objectOf(schema: Json, making: Making): unknown {
  const properties = partOf(schema, 'properties')
  const required = Array.isArray(schema['required']) ? schema['required'].map(String) : []
  return Object.fromEntries(required.map((name) => [name, exampleOf(partOf(properties, name), making, name)]))
}

/** An id by its name, what must be unique, or the first text that fits. */
function textOf(schema: Json, { unique, ids }: Making, name: string): string {
  if (name.endsWith('Id')) return ids[name] ?? 'nobody_has_this'
  const pattern = typeof schema['pattern'] === 'string' ? new RegExp(schema['pattern'], 'u') : /^/
  const fits = (text: string): boolean =>
    pattern.test(text) &&
    text.length >= Number(schema['minLength'] ?? 0) &&
    text.length <= Number(schema['maxLength'] ?? Number.POSITIVE_INFINITY)
  if (name === 'email') return `${unique}@example.org`
  const named = BY_NAME[name] ?? (/name$/i.test(name) ? unique : undefined)
  return [...(named === undefined ? [] : [named]), ...TEXTS].find(fits) ?? unique
}

function partOf(schema: Json, key: string): Json {
  const part = schema[key]
  return typeof part === 'object' && part !== null ? (part as Json) : {} // a JSON Schema is made of objects
}

function referenced(ref: string, root: Json): Json {
  return ref
    .replace(/^#\/?/, '')
    .split('/')
    .filter((word) => word !== '')
    .reduce<Json>((at, word) => partOf(at, word), root)
}
