import { z } from 'zod'
import { PanelError } from '../../../shared/kernel/errors.ts'
import { SECRET_MASK } from '../../../shared/kernel/setting-values.ts'
import type { Vault } from '../../core/secrets.ts'
import { parseJson } from '../../db/json.ts'
import type { ConfigSchema } from './config-schema.ts'

/** The configuration of a plugin as its row keeps it. */
export interface StoredConfig {
  /** Without secret fields. */
  readonly plain: Readonly<Record<string, unknown>>
  /** Sealed texts by field. */
  readonly sealed: Readonly<Record<string, string>>
}

const Plain = z.record(z.string(), z.unknown())
const Sealed = z.record(z.string(), z.string())

/** Reads the two columns of a plugin's row. */
export function storedConfig(row: { config: string; secrets: string } | undefined): StoredConfig {
  if (row === undefined) return { plain: {}, sealed: {} }
  return { plain: parseJson(Plain, row.config), sealed: parseJson(Sealed, row.secrets) }
}

/**
 * The configuration as answers show it: the mask where a secret is set. So is what was stored openly before a newer manifest
 * made it one of `secrets`.
 */
export function shownConfig({ plain, sealed }: StoredConfig, secrets: ReadonlySet<string>): Record<string, unknown> {
  const hidden = [...Object.keys(sealed), ...Object.keys(plain).filter((field) => secrets.has(field))]
  return { ...plain, ...Object.fromEntries(hidden.map((field) => [field, SECRET_MASK])) }
}

/**
 * The configuration as the plugin gets it: secrets opened, defaults put in. Fails with PLUGIN_CONFIG_INVALID where it does not
 * fit the schema, and with CREDENTIAL_ENCRYPTION_KEY_MISSING where there are secrets and no key.
 */
export function openedConfig(of: PluginSchema, stored: StoredConfig, vault: Vault): Record<string, unknown> {
  const opened = Object.entries(stored.sealed).map(([field, text]) => [field, vault.open(place(of.name, field), text)])
  return checked(of, { ...stored.plain, ...Object.fromEntries(opened) })
}

/** A plugin's name with the schema of its configuration. */
export interface PluginSchema {
  readonly name: string
  readonly schema: ConfigSchema
}

/**
 * What the row shall keep of a given configuration: secrets sealed, a mask sent back keeps what was there. Fails as
 * {@link openedConfig} does; problems name the field as `body.config.port`.
 */
export function configToStore(
  of: PluginSchema,
  given: Readonly<Record<string, unknown>>,
  { before, vault }: { before: StoredConfig; vault: Vault },
): StoredConfig {
  const plain: Record<string, unknown> = {}
  const sealed: Record<string, string> = {}
  const whole: Record<string, unknown> = {}
  for (const [field, value] of Object.entries(given)) {
    const kept = before.sealed[field]
    if (!of.schema.secrets.has(field)) {
      plain[field] = value
      whole[field] = value
    } else if (value !== SECRET_MASK) {
      whole[field] = value
      if (typeof value === 'string') sealed[field] = sealUnlessSame(of.name, { field, value, kept }, vault)
    } else if (kept !== undefined) {
      whole[field] = vault.open(place(of.name, field), kept)
      sealed[field] = kept
    } else if (field in before.plain) {
      const open = before.plain[field]
      whole[field] = open
      if (typeof open === 'string') sealed[field] = vault.seal(place(of.name, field), open)
    }
  }
  checked(of, whole, 'body.')
  return { plain, sealed }
}

/** A secret that is sent again as it is stays sealed as it is, so that it counts as no change. */
function sealUnlessSame(
  name: string,
  { field, value, kept }: { field: string; value: string; kept: string | undefined },
  vault: Vault,
): string {
  const at = place(name, field)
  if (kept !== undefined && vault.hasKey && opens(() => vault.open(at, kept)) === value) return kept
  return vault.seal(at, value)
}

function opens(open: () => string): string | undefined {
  try {
    return open()
  } catch {
    return undefined // sealed by a key that is gone: the new one must be able to take its place
  }
}

function checked(of: PluginSchema, config: Readonly<Record<string, unknown>>, prefix = ''): Record<string, unknown> {
  const { config: whole, problems } = of.schema.check(config)
  const [first] = problems
  if (first === undefined) return whole
  const details = problems.map(({ field, message }) => ({ field: `${prefix}${field}`, message }))
  throw new PanelError(
    'PLUGIN_CONFIG_INVALID',
    `The configuration of ${of.name} is not valid: ${first.field} ${first.message}`,
    {
      details,
    },
  )
}

function place(name: string, field: string): string {
  return `plugin.secret ${name} ${field}`
}
