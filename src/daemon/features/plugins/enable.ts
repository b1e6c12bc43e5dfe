import * as api from '../../../shared/api/plugins.ts'
import type { Endpoint } from '../../../shared/kernel/contract.ts'
import { PanelError } from '../../../shared/kernel/errors.ts'
import type { Caller } from '../../access/caller.ts'
import { type Principal, recordChange } from '../../access/operation.ts'
import type { Tx } from '../../db/db.ts'
import { ensureMayGrant, stillAllowed } from '../accounts/auth/grant-cap.ts'
import { configToStore, openedConfig, type StoredConfig, shownConfig, storedConfig } from './config-values.ts'
import { LoadProblem } from './failures.ts'
import { type Definition, permissionsOf } from './manifest.ts'
import type { Plugins } from './plugins.ts'
import { configColumns, DISABLED, ensureRow, findPlugin, grantedOf, updatePlugin } from './rows.ts'

/** Who changes something. */
export interface By {
  readonly caller: Caller
  readonly principal: Principal
}

type What = 'enabled' | 'disabled' | 'reloaded' | 'config_updated'

/**
 * Enables a plugin with what its manifest asks for, and starts it. Nobody can give a plugin more than they hold; from then on
 * it may what they may at each moment, and only of that. Fails with PLUGIN_ERROR when it cannot be loaded: then it is disabled
 * again. One that works with all that it asks for is left alone.
 */
export async function enable(plugins: Plugins, name: string, by: By): Promise<void> {
  const { db, vault } = plugins.deps
  const definition = await definitionOf(plugins, name)
  const permissions = permissionsOf(definition)
  const row = await findPlugin(db.read, name)
  const same = row?.enabled === 1 && row.keyId !== null && grantedOf(row).join() === permissions.join()
  if (same && plugins.life(name)?.status === 'enabled') return
  openedConfig(definition, storedConfig(row), vault)
  await db.write((tx) => writeEnabled(plugins, tx, { definition, permissions, by }))
  await plugins.stop(name)
  try {
    await plugins.start(name, { patiently: false })
  } catch (error) {
    await plugins.stop(name)
    const reason = reasonOf(error)
    await db.write((tx) => writeDisabled(plugins, tx, name, { by, details: { reason } }))
    throw pluginError(name, reason)
  }
}

/** Disables a plugin: ends its process and its rights. What it has stored and its configuration stay. */
export async function disable(plugins: Plugins, name: string, by: By): Promise<void> {
  const row = await findPlugin(plugins.deps.db.read, name)
  if (row?.enabled !== 1) return
  await plugins.stop(name)
  await plugins.deps.db.write((tx) => writeDisabled(plugins, tx, name, { by }))
}

/** Reads the folder again and starts an enabled plugin anew. Its rights stay as they are: only enabling gives some. */
export async function reload(plugins: Plugins, name: string, by: By): Promise<void> {
  const { db, vault } = plugins.deps
  const definition = await definitionOf(plugins, name)
  const row = await findPlugin(db.read, name)
  // What works goes on working when what is there now cannot.
  if (row?.enabled === 1) openedConfig(definition, storedConfig(row), vault)
  await db.write((tx) => note(plugins, tx, { name, by, what: 'reloaded', details: { version: definition.version } }))
  if (row?.enabled === 1) await startAnew(plugins, name)
}

/** Replaces the configuration; a plugin that works starts anew with it. Answers it as it is shown. */
export async function configure(
  plugins: Plugins,
  name: string,
  given: Parameters<typeof configToStore>[1],
  by: By,
): Promise<ReturnType<typeof shownConfig>> {
  const { db, vault } = plugins.deps
  const definition = await definitionOf(plugins, name)
  const outcome = await db.write(async (tx) => {
    await ensureRow(tx, name)
    const row = await findPlugin(tx.q, name)
    const before = storedConfig(row)
    const after = configToStore(definition, given, { before, vault })
    const [was, is] = [configColumns(before), configColumns(after)]
    if (was.config === is.config && was.secrets === is.secrets) return { after, changed: false, enabled: false }
    await updatePlugin(tx, name, is)
    await note(plugins, tx, {
      name,
      by,
      what: 'config_updated',
      details: differences(before, after, definition.schema.secrets),
    })
    return { after, changed: true, enabled: row?.enabled === 1 }
  })
  if (outcome.enabled) await startAnew(plugins, name, 'The configuration is stored. ')
  return shownConfig(outcome.after, definition.schema.secrets)
}

/** The definition in the folder, or the refusal of a request about it. */
export async function definitionOf(plugins: Plugins, name: string): Promise<Definition> {
  if (!(await plugins.folder.has(name))) throw new PanelError('PLUGIN_NOT_FOUND', `There is no plugin ${name}`)
  try {
    return await plugins.definition(name)
  } catch (error) {
    if (error instanceof LoadProblem) throw pluginError(name, error.message)
    throw error
  }
}

async function startAnew(plugins: Plugins, name: string, before = ''): Promise<void> {
  await plugins.stop(name)
  try {
    await plugins.start(name, { patiently: false })
  } catch (error) {
    throw error instanceof LoadProblem ? pluginError(name, error.message, before) : error
  }
}

async function writeEnabled(
  plugins: Plugins,
  tx: Tx,
  of: { definition: Definition; permissions: readonly string[]; by: By },
): Promise<void> {
  const { definition, permissions, by } = of
  const { name, version } = definition
  const giver = await stillAllowed(plugins.deps.credentials, by.caller)
  await ensureMayGrant(tx, giver, permissions)
  await ensureRow(tx, name)
  const row = await findPlugin(tx.q, name)
  await plugins.rights.revoke(tx, name, row?.keyId ?? null)
  const keyId = await plugins.rights.issue(tx, { plugin: name, userId: giver.userId, permissions })
  const granted = JSON.stringify(permissions)
  await updatePlugin(tx, name, { enabled: 1, granted, keyId, enabledBy: giver.userId, enabledAt: tx.now })
  await note(plugins, tx, { name, by, what: 'enabled', details: { version, permissions, apiKeyId: keyId } })
}

async function writeDisabled(
  plugins: Plugins,
  tx: Tx,
  name: string,
  { by, details }: { by: By; details?: Record<string, unknown> },
): Promise<void> {
  const row = await findPlugin(tx.q, name)
  await plugins.rights.revoke(tx, name, row?.keyId ?? null)
  await updatePlugin(tx, name, DISABLED)
  await note(plugins, tx, { name, by, what: 'disabled', details })
}

/** Disabling is a call of the endpoint that enables, and has an action of its own. */
const ENDPOINTS = {
  enabled: { endpoint: api.enablePlugin },
  disabled: { endpoint: api.enablePlugin, action: 'plugin.disable' },
  reloaded: { endpoint: api.reloadPlugin },
  config_updated: { endpoint: api.configurePlugin },
} as const satisfies Record<What, { endpoint: Endpoint; action?: string }>

/** Leaves the row and the event of a change. What is done to a plugin's process stands outside of the transactions. */
async function note(
  { deps }: Plugins,
  tx: Tx,
  of: { name: string; by: By; what: What; details: Record<string, unknown> | undefined },
): Promise<void> {
  const { name, by, what, details } = of
  const { endpoint, ...action } = ENDPOINTS[what]
  await recordChange(
    tx,
    { deps, principal: by.principal, endpoint },
    {
      audit: { ...action, resourceId: name, details },
      events: [{ type: 'plugin_updated', data: { name, action: what, updatedBy: by.caller.userId } }],
    },
  )
}

/** The configuration before and after as it is shown, and which secrets are others now. */
function differences(before: StoredConfig, after: StoredConfig, secrets: ReadonlySet<string>): Record<string, unknown> {
  const fields = new Set([...Object.keys(before.sealed), ...Object.keys(after.sealed)])
  const replaced = [...fields].filter((field) => before.sealed[field] !== after.sealed[field])
  const config = { before: shownConfig(before, secrets), after: shownConfig(after, secrets) }
  return { config, ...(replaced.length === 0 ? {} : { replaced }) }
}

function reasonOf(error: unknown): string {
  if (error instanceof LoadProblem) return error.message
  throw error
}

function pluginError(name: string, reason: string, before = ''): PanelError {
  return new PanelError('PLUGIN_ERROR', `${before}The plugin ${name} does not work: ${reason}`, { meta: { reason } })
}
