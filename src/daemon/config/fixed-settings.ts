import { resolve } from 'node:path'
import { z } from 'zod'
import { mustBe } from '../../shared/kernel/refusal-words.ts'
import { type FixedSetting, SECRET_SETTINGS, SETTINGS } from '../core/settings.ts'
import { readTextSync } from './config-files.ts'

/** Sections that only the daemon itself writes. */
const INTERNAL: ReadonlySet<string> = new Set(['setup', 'install'])
const SECRETS: ReadonlySet<string> = new Set(SECRET_SETTINGS)

type Fields = Record<string, z.ZodType>

/**
 * The sections of the configuration file that fix settings, with a schema for each field. Values may be text, as the
 * environment gives them: numbers, `true` and `false`, lists with commas. A secret may stand in a file of its own, which
 * `<name>File` names.
 */
export function settingSections(): Readonly<Record<string, Readonly<Fields>>> {
  const sections: Record<string, Fields> = {}
  for (const [key, schema] of Object.entries(SETTINGS)) {
    const [section, name] = partsOf(key)
    if (INTERNAL.has(section)) continue
    const fields = sections[section] ?? {}
    sections[section] = fields
    fields[name] = givenAs(schema)
    if (SECRETS.has(key)) fields[`${name}File`] = z.string().min(1)
  }
  return sections
}

/** The settings that the read configuration fixes. `variableOf` names the variable that a field came from. */
export function fixedSettings(
  sections: Readonly<Record<string, Readonly<Record<string, unknown>> | undefined>>,
  variableOf: (field: string) => string | undefined,
  problems: string[],
): Record<string, FixedSetting> {
  const fixed: Record<string, FixedSetting> = {}
  for (const key of Object.keys(SETTINGS)) {
    const [section, name] = partsOf(key)
    const fields = INTERNAL.has(section) ? undefined : sections[section]
    const value = fields?.[name]
    const file = SECRETS.has(key) ? fields?.[`${name}File`] : undefined
    if (value !== undefined) fixed[key] = { value, ...origin(key, variableOf) }
    else if (typeof file === 'string') {
      const secret = readSecretFile(file, `${key}File`, problems)
      if (secret !== undefined) fixed[key] = { value: secret, ...origin(`${key}File`, variableOf) }
    }
  }
  return fixed
}

function origin(field: string, variableOf: (field: string) => string | undefined): Omit<FixedSetting, 'value'> {
  const variable = variableOf(field)
  return variable === undefined ? { source: 'file', name: field } : { source: 'env', name: variable }
}

function readSecretFile(path: string, field: string, problems: string[]): string | undefined {
  try {
    const secret = readTextSync(resolve(path)).trim()
    if (secret !== '') return secret
    problems.push(`${field}: ${path} is empty`)
  } catch (error) {
    problems.push(`${field}: ${error instanceof Error ? error.message : String(error)}`)
  }
  return undefined
}

/** Takes what fits the setting's schema as it stands, or else as what the text spells. */
function givenAs(schema: z.ZodType): z.ZodType {
  return z.unknown().transform((given, context) => {
    let problem = 'unfit'
    for (const reading of readings(given)) {
      const parsed = schema.safeParse(reading, { error: mustBe })
      if (parsed.success) return parsed.data
      problem = parsed.error.issues[0]?.message ?? problem
    }
    context.addIssue({ code: 'custom', message: problem })
    return z.NEVER
  })
}

function readings(given: unknown): unknown[] {
  if (typeof given !== 'string') return [given]
  const text = given.trim()
  if (/^-?\d+(\.\d+)?$/.test(text)) return [given, Number(text)]
  if (text === 'true' || text === 'false') return [given, text === 'true']
  return [text.split(',').map((part) => part.trim()), given]
}

function partsOf(key: string): [section: string, name: string] {
  const at = key.indexOf('.')
  return [key.slice(0, at), key.slice(at + 1)]
}
