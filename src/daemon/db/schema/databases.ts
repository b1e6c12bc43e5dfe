import type { Generated } from 'kysely'
import type { Flag, Stamps } from './columns.ts'

interface DatabaseHostTable extends Stamps {
  id: string
  name: string
  engine: 'mysql' | 'postgresql'
  host: string
  port: number
  username: string
  /** Sealed. */
  password: string
  tls: 'auto' | 'off' | 'require' | 'verify'
  /** PEM; trusted beside the usual authorities. */
  caCertificate: string | null
  /** `null`: as many as servers may have. */
  maxDatabases: number | null
}

/**
 * What a row of a server's database stands for on its host. `planned`: nothing yet. `creating`: perhaps a part.
 * `ready`: all of it. `rotating`: all of it, and one of two passwords holds. `undoing`: what is left of a creation that
 * has failed. `deleting`: what is left of a database that was ready.
 */
export type DatabaseState = 'planned' | 'creating' | 'ready' | 'rotating' | 'undoing' | 'deleting'

interface ServerDatabaseTable extends Stamps {
  id: string
  hostId: string
  /** `null`: its server is gone. */
  serverId: string | null
  name: string
  username: string
  remote: string
  /** Sealed. */
  password: string
  /** Sealed; the password that a rotation is about to set. */
  pendingPassword: string | null
  state: DatabaseState
  /** 0: a migration has recorded it where it lies, and whoever it comes from uses it: what stands on the host is not the panel's. */
  managed: Generated<Flag>
  /** Who asked for the last change. */
  requestedBy: string | null
  /** Why the host has not finished the last change. */
  lastError: string | null
}

/** Where databases of servers stand, and those databases. */
export interface DatabasesTables {
  databaseHost: DatabaseHostTable
  serverDatabase: ServerDatabaseTable
}
