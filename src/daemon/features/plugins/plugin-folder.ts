import { mkdir, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { PluginName } from '../../../shared/api/plugins.ts'
import { MANIFEST } from './manifest.ts'

/** Folders that are looked at. */
const MOST_PLUGINS = 1000

/** The folder of all plugins; each has a folder of its own in it, named as the plugin. */
export interface PluginFolder {
  readonly path: string
  /** Makes it, if it is not there. */
  prepare(): Promise<void>
  /** The names of the folders that hold a manifest, sorted. */
  names(): Promise<string[]>
  has(name: string): Promise<boolean>
}

/** The folder `plugins` of a data folder. */
export function pluginFolder(dataDir: string): PluginFolder {
  const path = join(dataDir, 'plugins')
  const has = async (name: string): Promise<boolean> => {
    if (!PluginName.safeParse(name).success) return false
    try {
      await stat(join(path, name, MANIFEST))
      return true
    } catch {
      return false // no such file, or none that can be reached: there is no plugin either way
    }
  }
  return {
    path,
    has,
    prepare: async () => {
      await mkdir(path, { recursive: true, mode: 0o711 })
    },
    names: async () => {
      await mkdir(path, { recursive: true, mode: 0o711 }) // somebody may have removed it meanwhile
      const found = (await readdir(path)).sort().slice(0, MOST_PLUGINS)
      const present = await Promise.all(found.map(has))
      return found.filter((_, at) => present[at] === true)
    },
  }
}
