import type { ErrorObject, ValidateFunction } from 'ajv'
import { z } from 'zod'
import type { FieldProblem } from '../../../shared/kernel/errors.ts'
import { compileBounded } from '../../../shared/templates/bounded-pattern.ts'

/** A configuration schema that cannot be used; the message is a sentence part. */
export class SchemaProblem extends Error {
  override readonly name = 'SchemaProblem'
}

/** A compiled configuration schema. */
export interface ConfigSchema {
  /** Names of the fields whose values are secret: those that the schema marks `writeOnly`. */
  readonly secrets: ReadonlySet<string>
  /** A copy with the schema's defaults put in, or what is wrong with it; fields are named as `config.port`. */
  check(config: Readonly<Record<string, unknown>>): { config: Record<string, unknown>; problems: FieldProblem[] }
}

/**
 * Compiles a JSON Schema (draft 7) of an object. Patterns run in linear time, whatever they are; `format` is a hint for
 * people. Throws a SchemaProblem.
 */
export async function compileConfigSchema(schema: Readonly<Record<string, unknown>>): Promise<ConfigSchema> {
  if (schema['type'] !== 'object') throw new SchemaProblem('must be a schema of type object')
  // A panel without plugins does without it: it is as large as the panel's own routes.
  const { Ajv } = await import('ajv')
  const secrets = secretFields(schema)
  const ajv = new Ajv({ useDefaults: true, validateFormats: false, code: { regExp: linear }, logger: false })
  let validate: ValidateFunction
  try {
    validate = ajv.compile(schema)
  } catch (error) {
    throw new SchemaProblem(error instanceof Error ? error.message : String(error))
  }
  return {
    secrets,
    check: (given) => {
      const config = structuredClone({ ...given })
      const problems = validate(config) ? [] : (validate.errors ?? []).map(problemOf)
      return { config, problems }
    },
  }
}

const linear = Object.assign(
  (pattern: string) => {
    const compiled = compileBounded(pattern)
    return { test: (text: string) => compiled.find(text) }
  },
  { code: 'new RegExp' },
)

const Properties = z.record(z.string(), z.unknown())
const Secret = z.looseObject({ writeOnly: z.literal(true) })

function secretFields(schema: Readonly<Record<string, unknown>>): ReadonlySet<string> {
  const properties = Properties.safeParse(schema['properties'] ?? {})
  if (!properties.success) throw new SchemaProblem('properties must be an object')
  const secrets = new Set<string>()
  for (const [name, field] of Object.entries(properties.data)) {
    const secret = Secret.safeParse(field)
    if (!secret.success) {
      if (marksSecret(field)) throw new SchemaProblem(`${name}: only fields of the first level can be writeOnly`)
      continue
    }
    if (secret.data['type'] !== 'string') throw new SchemaProblem(`${name}: a writeOnly field must be of type string`)
    if ('default' in secret.data) throw new SchemaProblem(`${name}: a writeOnly field has no default`)
    secrets.add(name)
  }
  const { properties: _, ...rest } = schema
  if (marksSecret(rest)) throw new SchemaProblem('only fields of the first level can be writeOnly')
  return secrets
}

function marksSecret(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (Secret.safeParse(value).success) return true
  return Object.values(value).some(marksSecret)
}

function problemOf({ instancePath, keyword, params, message = 'is not valid' }: ErrorObject): FieldProblem {
  const named =
    keyword === 'required'
      ? params['missingProperty']
      : keyword === 'additionalProperties'
        ? params['additionalProperty']
        : undefined
  const path = instancePath.split('/').filter((part) => part !== '')
  const field = ['config', ...path, ...(typeof named === 'string' ? [named] : [])].join('.')
  if (keyword === 'required') return { field, message: 'is required' }
  if (keyword === 'additionalProperties') return { field, message: 'is not a field of this plugin' }
  return { field, message }
}
