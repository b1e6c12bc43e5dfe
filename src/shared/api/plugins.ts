import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { isEventType } from '../kernel/events.ts'
import { pageQuery } from '../kernel/page.ts'
import { IsoTime } from '../kernel/time.ts'

/** The name of a plugin, which is also the name of its folder. */
export const PluginName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,63}$/, 'must be 1 to 64 of a-z, 0-9 and -, not beginning with -')

/**
 * The state of a plugin: `disabled` as long as nobody enabled it, `loading` while its process starts or waits
 * to be started again, `enabled` while it works, `error` when it cannot be loaded or was given up, `unloaded` while the daemon
 * has not come to it yet.
 */
export const PluginStatus = z.enum(['unloaded', 'loading', 'loaded', 'enabled', 'disabled', 'error'])
export type PluginStatus = z.infer<typeof PluginStatus>

const MOST_CONFIG = 64 * 1024
const Config = z.record(z.string().max(100), z.unknown())

/** A plugin in a list. */
export const Plugin = z.object({
  name: z.string(),
  version: z.string(),
  displayName: z.string(),
  description: z.string(),
  author: z.string(),
  status: PluginStatus,
  /** Whether it works now: its status is `enabled`. */
  enabled: z.boolean(),
  /** Whether an administrator wants it to work. */
  wanted: z.boolean(),
  /** When its process was last ready. */
  loadedAt: IsoTime.nullable(),
  enabledAt: IsoTime.nullable(),
  /** Why it does not work. */
  error: z.string().nullable(),
  /** The permissions that its manifest asks for. */
  permissions: z.array(z.string()),
  /** Those that it was given when it was enabled. */
  granted: z.array(z.string()),
  hasBackend: z.boolean(),
  hasFrontend: z.boolean(),
  /** Plugins do not build on each other: always empty. */
  dependencies: z.record(z.string(), z.string()),
  hasDeclaredEvents: z.boolean(),
  declaredEvents: z.array(z.string()),
})
export type Plugin = z.infer<typeof Plugin>

/** A plugin with everything that its manifest declares. */
export const PluginDetail = Plugin.extend({
  /** The versions of the panel that it runs with; `catalystVersion` is the same under the name that clients know. */
  engine: z.string(),
  catalystVersion: z.string(),
  /** Secret fields that are set read as the mask. */
  config: Config,
  configSchema: z.record(z.string(), z.unknown()),
  routes: z.array(z.object({ method: z.string(), url: z.string(), permission: z.string() })),
  wsHandlers: z.array(z.string()),
  tasks: z.array(z.object({ name: z.string(), cron: z.string(), nextRun: IsoTime.nullable() })),
  events: z.array(z.string()),
  exposedApis: z.array(z.string()),
  /** Who enabled it: the plugin may do what this user may, and only of `granted`. */
  enabledBy: z.string().nullable(),
  /** The API key that carries its rights. */
  keyId: z.string().nullable(),
  memoryMb: z.int(),
})
export type PluginDetail = z.infer<typeof PluginDetail>

const params = { name: PluginName }

export const listPlugins = defineEndpoint({
  id: 'plugins.list',
  tag: 'Plugins',
  summary: 'List the plugins of the data folder by name',
  method: 'GET',
  path: '/api/plugins',
  access: { panel: 'admin.read' },
  query: pageQuery(),
  response: z.array(Plugin),
  paged: true,
})

export const getPlugin = defineEndpoint({
  id: 'plugins.get',
  tag: 'Plugins',
  summary: 'Show a plugin with its configuration, routes and tasks',
  method: 'GET',
  path: '/api/plugins/:name',
  access: { panel: 'admin.read' },
  params,
  response: PluginDetail,
  errors: ['PLUGIN_NOT_FOUND'],
})

export const enablePlugin = defineEndpoint({
  id: 'plugins.enable',
  tag: 'Plugins',
  summary: 'Enable a plugin with the permissions that it asks for, or disable it',
  method: 'POST',
  path: '/api/plugins/:name/enable',
  access: { panel: 'admin.write' },
  params,
  body: z.object({ enabled: z.boolean() }),
  response: NoData,
  errors: ['PLUGIN_NOT_FOUND', 'PLUGIN_ERROR', 'PLUGIN_CONFIG_INVALID', 'CREDENTIAL_ENCRYPTION_KEY_MISSING'],
  audit: { action: 'plugin.enable' },
})

export const reloadPlugin = defineEndpoint({
  id: 'plugins.reload',
  tag: 'Plugins',
  summary: 'Read a plugin again from its folder and start it anew',
  method: 'POST',
  path: '/api/plugins/:name/reload',
  access: { panel: 'admin.write' },
  params,
  response: NoData,
  errors: ['PLUGIN_NOT_FOUND', 'PLUGIN_ERROR', 'PLUGIN_CONFIG_INVALID', 'CREDENTIAL_ENCRYPTION_KEY_MISSING'],
  audit: { action: 'plugin.reload' },
})

export const configurePlugin = defineEndpoint({
  id: 'plugins.config',
  tag: 'Plugins',
  summary: 'Replace the configuration of a plugin; it starts anew with it',
  method: 'PUT',
  path: '/api/plugins/:name/config',
  access: { panel: 'admin.write' },
  params,
  /** Secret fields that hold the mask keep what they have. */
  body: z.object({
    config: Config.refine((config) => JSON.stringify(config).length <= MOST_CONFIG, 'must be at most 64 KiB of JSON'),
  }),
  response: Config,
  errors: ['PLUGIN_NOT_FOUND', 'PLUGIN_ERROR', 'PLUGIN_CONFIG_INVALID', 'CREDENTIAL_ENCRYPTION_KEY_MISSING'],
  audit: { action: 'plugin.config' },
})

export const getFrontendManifest = defineEndpoint({
  id: 'plugins.frontend_manifest',
  tag: 'Plugins',
  summary: 'Show what a client with a screen needs to know of a plugin',
  method: 'GET',
  path: '/api/plugins/:name/frontend-manifest',
  access: 'session',
  params,
  response: z.object({
    name: z.string(),
    displayName: z.string(),
    entry: z.string(),
    /** Without secret fields. */
    config: Config,
    permissions: z.array(z.string()),
    events: z.array(z.string().refine(isEventType)),
  }),
  errors: ['PLUGIN_NOT_FOUND'],
})
