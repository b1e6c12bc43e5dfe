import type { ConfigValue } from '../../shared/protocol/config-files.ts'

/**
 * The value with the type that stands in the file: a text stays a text; where a number or a truth stands, or nothing, a text that is an
 * integer becomes one. Truths come from texts only where one stood.
 */
export function typedValue(value: ConfigValue, current: unknown): ConfigValue {
  if (typeof value !== 'string') return value
  if (typeof current === 'string') return value
  if (typeof current === 'boolean') return value === 'true' ? true : value === 'false' ? false : value
  return /^-?(?:0|[1-9]\d{0,14})$/.test(value) ? Number(value) : value
}
