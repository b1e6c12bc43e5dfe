import { z } from 'zod'
import { defineEndpoint } from '../kernel/contract.ts'
import { DatabaseHostId, DatabaseId, ServerId } from '../kernel/ids.ts'
import { pageQuery, QueryBoolean } from '../kernel/page.ts'
import { IsoTime } from '../kernel/time.ts'
import { DatabaseEngine } from './database-hosts.ts'

/** A database of a server. */
export const ServerDatabase = z.object({
  id: DatabaseId,
  serverId: ServerId,
  name: z.string(),
  username: z.string(),
  /** `null` for a caller without database.read, and while the daemon has no key to read it. */
  password: z.string().nullable(),
  /** From where its user may connect: `%` is everywhere. */
  remote: z.string(),
  engine: DatabaseEngine,
  host: z.string(),
  port: z.int(),
  hostId: DatabaseHostId,
  hostName: z.string(),
  /** `rotating`, `deleting`: the host was away in the middle of that; the panel goes on by itself. */
  state: z.enum(['ready', 'rotating', 'deleting']),
  /**
   * Whether it is this panel's own. `false`: a migration has recorded it where it lies, and the panel that it comes from goes on using it.
   * Deleting it or its server here leaves it there then, and nothing else changes it unless that is asked for.
   */
  managed: z.boolean(),
  createdAt: IsoTime,
})
export type ServerDatabase = z.infer<typeof ServerDatabase>

const ADDRESSES = z.union([
  z.literal('%'),
  z.ipv4(),
  z.ipv6(),
  z.cidrv4(),
  z.string().regex(/^(?:(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])\.){1,3}%$/),
])

const Remote = z
  .string()
  .max(45)
  .refine(
    (text) => ADDRESSES.safeParse(text).success,
    'must be % (everywhere), an address, an IPv4 network such as 10.0.0.0/8, or the beginning of one such as 10.0.%',
  )

const params = { serverId: ServerId }
const one = { serverId: ServerId, databaseId: DatabaseId }

export const listServerDatabases = defineEndpoint({
  id: 'databases.list',
  tag: 'Servers',
  summary: 'List the databases of a server with their passwords',
  method: 'GET',
  path: '/api/servers/:serverId/databases',
  access: { server: ['database.read'] },
  params,
  query: pageQuery(),
  response: z.array(ServerDatabase),
  paged: true,
  errors: ['SERVER_NOT_FOUND', 'SERVER_SUSPENDED'],
})

export const getServerDatabase = defineEndpoint({
  id: 'databases.get',
  tag: 'Servers',
  summary: 'Show a database of a server with its password',
  method: 'GET',
  path: '/api/servers/:serverId/databases/:databaseId',
  access: { server: ['database.read'] },
  params: one,
  response: ServerDatabase,
  errors: ['SERVER_NOT_FOUND', 'SERVER_SUSPENDED', 'DATABASE_NOT_FOUND'],
})

export const createServerDatabase = defineEndpoint({
  id: 'databases.create',
  tag: 'Servers',
  summary: 'Create a database for a server, with a user that may use this one alone',
  method: 'POST',
  path: '/api/servers/:serverId/databases',
  access: { server: ['database.create'] },
  params,
  body: z.object({
    /** Without it the host with the fewest databases that has room. */
    hostId: DatabaseHostId.optional(),
    /** Without it a name that cannot be guessed. */
    name: z
      .string()
      .trim()
      .toLowerCase()
      .regex(/^[a-z][a-z0-9_]{2,31}$/, 'must be a letter and 2 to 31 more letters, digits or _')
      .optional(),
    /** From where its user may connect; PostgreSQL leaves that to its pg_hba.conf. */
    remote: Remote.default('%'),
  }),
  response: ServerDatabase,
  status: 201,
  errors: [
    'SERVER_NOT_FOUND',
    'SERVER_SUSPENDED',
    'SERVER_INVALID_STATE',
    'ADMIN_DATABASE_HOST_NOT_FOUND',
    'DATABASE_DISABLED',
    'DATABASE_LIMIT_REACHED',
    'DATABASE_PROVISION_FAILED',
    'CONFLICT',
    'CREDENTIAL_ENCRYPTION_KEY_MISSING',
  ],
  audit: { action: 'database.create' },
})

const changeErrors = [
  'SERVER_NOT_FOUND',
  'SERVER_SUSPENDED',
  'DATABASE_NOT_FOUND',
  'DATABASE_PROVISION_FAILED',
  'CONFLICT',
  'CREDENTIAL_ENCRYPTION_KEY_MISSING',
] as const

export const rotateServerDatabase = defineEndpoint({
  id: 'databases.rotate',
  tag: 'Servers',
  summary: 'Give the user of a database a new password',
  method: 'POST',
  path: '/api/servers/:serverId/databases/:databaseId/rotate',
  access: { server: ['database.rotate'] },
  params: one,
  /** `force`: also of one that the panel does not manage, which whoever else uses it does not get into any more. */
  body: z.object({ force: z.boolean().default(false) }).prefault({}),
  response: ServerDatabase,
  errors: [...changeErrors, 'DATABASE_NOT_MANAGED'],
  audit: { action: 'database.rotate' },
})

export const deleteServerDatabase = defineEndpoint({
  id: 'databases.delete',
  tag: 'Servers',
  summary:
    'Delete a database of a server with all its data; on a host that is away, as soon as it is back. One that the panel does not manage is only forgotten',
  method: 'DELETE',
  path: '/api/servers/:serverId/databases/:databaseId',
  access: { server: ['database.delete'] },
  params: one,
  /** `drop`: from its host also where the panel does not manage it; that takes admin.write as well. */
  query: z.object({ drop: QueryBoolean.optional() }),
  /** `dropped`: it is gone from its host with all its data; `false`: it was forgotten here, and nothing was changed there. */
  response: z.object({ dropped: z.boolean() }),
  errors: [...changeErrors, 'PERMISSION_DENIED'],
  audit: { action: 'database.delete' },
})

export const adoptServerDatabase = defineEndpoint({
  id: 'databases.adopt',
  tag: 'Servers',
  summary: 'Take over a database that a migration has recorded: from then on the panel manages it as its own',
  method: 'POST',
  path: '/api/servers/:serverId/databases/:databaseId/adopt',
  access: { panel: 'admin.write' },
  params: one,
  response: ServerDatabase,
  errors: ['SERVER_NOT_FOUND', 'DATABASE_NOT_FOUND'],
  audit: { action: 'database.adopt' },
})
