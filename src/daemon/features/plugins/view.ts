import type { Plugin, PluginDetail, PluginStatus } from '../../../shared/api/plugins.ts'
import { nextTime } from '../../core/cron.ts'
import { shownConfig, storedConfig } from './config-values.ts'
import { messageOf } from './failures.ts'
import { type Definition, permissionsOf } from './manifest.ts'
import type { Plugins } from './plugins.ts'
import { findPlugin, grantedOf, type PluginRow } from './rows.ts'

/** A plugin as a list shows it. One whose manifest cannot be read is shown with the reason. */
export async function pluginView(plugins: Plugins, name: string): Promise<Plugin> {
  return viewOf(plugins, name, await read(plugins, name))
}

/** A plugin with all that its manifest declares. */
export async function pluginDetail(plugins: Plugins, name: string): Promise<PluginDetail> {
  const found = await read(plugins, name)
  const { definition, row } = found
  const { settings, clock } = plugins.deps
  const timeZone = settings.get('panel.timezone')
  const isWanted = row?.enabled === 1
  return {
    ...viewOf(plugins, name, found),
    engine: definition?.engine ?? '',
    catalystVersion: definition?.engine ?? '',
    config: shownConfig(storedConfig(row), definition?.schema.secrets ?? new Set()),
    configSchema: definition?.configSchema ?? {},
    routes: (definition?.routes ?? []).map(({ method, path, permission }) => ({
      method,
      url: `/api/plugins/${name}${path}`,
      permission,
    })),
    wsHandlers: [],
    tasks: (definition?.tasks ?? []).map((task) => ({
      name: task.name,
      cron: task.cron,
      nextRun: isWanted ? nextTime({ cron: task.cron, timeZone }, clock.nowMs()) : null,
    })),
    events: eventsOf(definition),
    exposedApis: [],
    enabledBy: row?.enabledBy ?? null,
    keyId: row?.keyId ?? null,
    memoryMb: definition?.memoryMb ?? 0,
  }
}

interface Found {
  readonly definition: Definition | undefined
  readonly problem: string | null
  readonly row: PluginRow | undefined
}

async function read(plugins: Plugins, name: string): Promise<Found> {
  const row = await findPlugin(plugins.deps.db.read, name)
  const living = plugins.life(name)
  if (living !== undefined) return { definition: living.definition, problem: null, row }
  const problem = plugins.problem(name)
  try {
    return { definition: await plugins.definition(name), problem, row }
  } catch (error) {
    return { definition: undefined, problem: messageOf(error), row }
  }
}

function viewOf(plugins: Plugins, name: string, { definition, problem, row }: Found): Plugin {
  const life = plugins.life(name)
  const wanted = row?.enabled === 1
  const status = statusOf(life?.status, { wanted, problem })
  const declaredEvents = eventsOf(definition)
  return {
    name,
    version: definition?.version ?? '',
    displayName: definition?.displayName ?? name,
    description: definition?.description ?? '',
    author: definition?.author ?? '',
    status,
    enabled: status === 'enabled',
    wanted,
    loadedAt: life?.loadedAt ?? null,
    enabledAt: row?.enabledAt ?? null,
    error: life?.error ?? problem,
    permissions: definition === undefined ? [] : permissionsOf(definition),
    granted: grantedOf(row),
    hasBackend: true,
    hasFrontend: definition?.frontend !== undefined,
    dependencies: {},
    hasDeclaredEvents: declaredEvents.length > 0,
    declaredEvents,
  }
}

function statusOf(
  living: PluginStatus | undefined,
  { wanted, problem }: { wanted: boolean; problem: string | null },
): PluginStatus {
  if (living !== undefined) return living
  if (problem !== null) return 'error'
  return wanted ? 'unloaded' : 'disabled'
}

function eventsOf(definition: Definition | undefined): string[] {
  return [...new Set((definition?.events ?? []).map(({ type }) => type))].sort()
}
