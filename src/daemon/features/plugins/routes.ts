import * as api from '../../../shared/api/plugins.ts'
import { PanelError } from '../../../shared/kernel/errors.ts'
import { type Context, callerOf, type Route, route } from '../../http/route.ts'
import { shownConfig, storedConfig } from './config-values.ts'
import { type By, configure, disable, enable, reload } from './enable.ts'
import type { Plugins } from './plugins.ts'
import { allPlugins, findPlugin } from './rows.ts'
import { pluginDetail, pluginView } from './view.ts'

/** The routes by which plugins are managed. */
export function pluginRoutes(plugins: Plugins): Route[] {
  return [
    route(api.listPlugins, async ({ query: { page, limit } }) => {
      const names = await knownNames(plugins)
      const shown = names.slice((page - 1) * limit, page * limit)
      return { items: await Promise.all(shown.map((name) => pluginView(plugins, name))), total: names.length }
    }),
    route(api.getPlugin, async ({ params: { name } }) => {
      if (!(await knownNames(plugins)).includes(name)) throw gone(name)
      return pluginDetail(plugins, name)
    }),
    route(api.enablePlugin, async ({ params: { name }, body: { enabled } }, context) => {
      const by = byOf(context)
      if (enabled) await plugins.turn(name, () => enable(plugins, name, by))
      else {
        if (!(await knownNames(plugins)).includes(name)) throw gone(name)
        await plugins.turn(name, () => disable(plugins, name, by))
      }
      return null
    }),
    route(api.reloadPlugin, async ({ params: { name } }, context) => {
      await plugins.turn(name, () => reload(plugins, name, byOf(context)))
      return null
    }),
    route(api.configurePlugin, ({ params: { name }, body: { config } }, context) =>
      plugins.turn(name, () => configure(plugins, name, config, byOf(context))),
    ),
    frontend(plugins),
  ]
}

/** For whoever is signed in, so nothing of a plugin that does not work or has no screen. */
function frontend(plugins: Plugins): Route {
  return route(api.getFrontendManifest, async ({ params: { name } }) => {
    const life = plugins.life(name)
    if (life?.status !== 'enabled' || life.definition.frontend === undefined) {
      throw new PanelError('PLUGIN_NOT_FOUND', `There is no plugin ${name} with a screen that works`)
    }
    const { displayName, frontend: screen, permissions, events, schema } = life.definition
    const shown = shownConfig(storedConfig(await findPlugin(plugins.deps.db.read, name)), schema.secrets)
    const config = Object.fromEntries(Object.entries(shown).filter(([field]) => !schema.secrets.has(field)))
    const { entry } = screen
    return { name, displayName, entry, config, permissions, events: [...new Set(events.map(({ type }) => type))] }
  })
}

/** Those in the folder, and those that are wanted although their folder is gone. */
async function knownNames(plugins: Plugins): Promise<string[]> {
  const wanted = (await allPlugins(plugins.deps.db.read)).filter(({ enabled }) => enabled === 1)
  return [...new Set([...(await plugins.folder.names()), ...wanted.map(({ name }) => name)])].sort()
}

function byOf(context: Pick<Context, 'caller' | 'principal'>): By {
  return { caller: callerOf(context), principal: context.principal }
}

function gone(name: string): PanelError {
  return new PanelError('PLUGIN_NOT_FOUND', `There is no plugin ${name}`)
}
