import type { IsoTime } from '../../../shared/kernel/time.ts'
import type { Flag, Json, Stamps } from './columns.ts'

interface PluginTable extends Stamps {
  name: string
  enabled: Flag
  /** The number of the system user that it runs as where the daemon is root; the same for ever. */
  uid: number | null
  /** The permissions that it was given when it was enabled. */
  granted: Json
  /** The API key that carries them. */
  keyId: string | null
  enabledBy: string | null
  enabledAt: IsoTime | null
  /** Without the secret fields. */
  config: Json
  /** Sealed texts by the names of the secret fields. */
  secrets: Json
}

interface PluginStorageTable {
  pluginName: string
  key: string
  value: Json
  /** Of key and value together. */
  bytes: number
  updatedAt: IsoTime
}

/** Plugins and what they keep. */
export interface PluginsTables {
  plugin: PluginTable
  pluginStorage: PluginStorageTable
}
