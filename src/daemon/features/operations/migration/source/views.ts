import { z } from 'zod'
import type {
  SourceAllocation,
  SourceBackup,
  SourceDatabase,
  SourceDatabaseHost,
  SourceNode,
  SourceSchedule,
  SourceServer,
  SourceServerState,
  SourceSubuser,
  SourceUser,
} from './model.ts'
import {
  type Attributes,
  Exact,
  Flag,
  Id,
  included,
  includedOne,
  Line,
  Lines,
  OptionalId,
  OptionalLine,
  Port,
  readRows,
  Texts,
  Uuid,
  Values,
  Whole,
} from './rows.ts'
import type { SourceBuild } from './source.ts'

// Rows of both flavours as the model has them. Each throws a ZodError for a row that is broken.

const Node = z.looseObject({
  id: Id,
  uuid: Uuid,
  name: Line(),
  description: Lines(),
  location_id: OptionalId,
  fqdn: z.string().min(1).max(253),
  scheme: z.enum(['http', 'https']),
  daemon_listen: Port,
  daemon_connect: Port.nullish(),
  daemon_sftp: Port.catch(2022),
  memory: Whole(),
  disk: Whole(),
  maintenance_mode: Flag,
  tags: Texts,
})

/** As a URL writes it, so that it can be compared with that of a download; a name with more in it than a host is refused. */
const Origin = z
  .url()
  .transform((text) => new URL(text))
  .refine(({ href, origin }) => href === `${origin}/`, 'must be the name of a host')
  .transform(({ origin }) => origin)

export function nodeOf(attributes: Attributes): SourceNode {
  const row = Node.parse(attributes)
  const host = row.fqdn.includes(':') && !row.fqdn.startsWith('[') ? `[${row.fqdn}]` : row.fqdn
  return {
    id: row.id,
    uuid: row.uuid,
    name: row.name,
    description: row.description,
    locationId: row.location_id,
    fqdn: row.fqdn,
    origin: Origin.parse(`${row.scheme}://${host}:${row.daemon_connect ?? row.daemon_listen}`),
    sftpPort: row.daemon_sftp,
    memoryMb: row.memory,
    diskMb: row.disk,
    isInMaintenance: row.maintenance_mode,
    tags: row.tags,
  }
}

/** Anything that mail can be sent to, by a name that needs no quotes: nothing that ends a line or begins another address. */
const Email = z
  .string()
  .trim()
  .toLowerCase()
  .max(254)
  .regex(/^[^\p{C}\p{Z}@<>()[\]\\,;:"]+@[^\p{C}\p{Z}@<>()[\]\\,;:"]+$/u, 'must be an e-mail address')

const User = z.looseObject({
  id: Id,
  uuid: Uuid,
  external_id: OptionalLine(),
  username: Line(),
  email: Email,
  first_name: OptionalLine(),
  last_name: OptionalLine(),
  language: OptionalLine(20),
  root_admin: Flag,
  '2fa': Flag,
  '2fa_enabled': Flag,
})

export function userOf(attributes: Attributes): SourceUser {
  const row = User.parse(attributes)
  return {
    id: row.id,
    uuid: row.uuid,
    externalId: row.external_id,
    username: row.username,
    email: row.email,
    firstName: row.first_name,
    lastName: row.last_name,
    language: row.language,
    isAdmin: row.root_admin,
    hasTwoFactor: row['2fa'] || row['2fa_enabled'],
    mustExist: false,
  }
}

const Allocation = z.looseObject({
  id: Id,
  ip: z.string().trim().min(1).max(64),
  port: Port,
  alias: OptionalLine(),
  ip_alias: OptionalLine(),
  notes: OptionalLine(1000),
  is_default: Flag,
})

/** `primaryId`: the one that its server is reached by. */
export function allocationOf(attributes: Attributes, primaryId: string | null): SourceAllocation {
  const row = Allocation.parse(attributes)
  return {
    id: row.id,
    ip: row.ip,
    port: row.port,
    alias: row.alias ?? row.ip_alias,
    notes: row.notes,
    isPrimary: row.is_default || row.id === primaryId,
  }
}

const Limits = z
  .looseObject({
    memory: Whole(),
    swap: Whole(-1),
    disk: Whole(),
    io: Whole(),
    cpu: Whole(),
    threads: OptionalLine(200),
    oom_disabled: Flag,
    oom_killer: z.unknown().optional(),
  })
  .transform((row) => ({
    memoryMb: row.memory,
    swapMb: row.swap,
    diskMb: row.disk,
    ioWeight: row.io,
    cpuPercent: row.cpu,
    threads: row.threads,
    isOomKillerOff: row.oom_killer === undefined ? row.oom_disabled : !Flag.parse(row.oom_killer),
  }))
const most = Whole().nullish()
const FeatureLimits = z.looseObject({
  databases: most.transform((value) => value ?? null),
  allocations: most.transform((value) => value ?? null),
  backups: most.transform((value) => value ?? null),
})

const Server = z.looseObject({
  id: Id,
  uuid: z.uuid(),
  identifier: z.string().min(1).max(64),
  external_id: OptionalLine(),
  name: Line(),
  description: Lines(),
  status: z.string().max(50).nullish(),
  suspended: Flag,
  user: Id,
  node: Id,
  nest: OptionalId,
  egg: Id,
  allocation: OptionalId,
  limits: Limits,
  feature_limits: FeatureLimits,
  container: z.looseObject({
    startup_command: Exact(16_384),
    image: Exact(500),
    installed: Flag,
    environment: Values,
  }),
  updated_at: OptionalLine(50),
})

/** Variables that the source adds to those of the egg. */
const ADDED = new Set(['STARTUP', 'P_SERVER_LOCATION', 'P_SERVER_UUID', 'P_SERVER_ALLOCATION_LIMIT'])
const MOST_VARIABLES = 500

/** A server, with what was included of it. */
export function serverOf(attributes: Attributes): SourceServer {
  const row = Server.parse(attributes)
  const allocations = included(attributes, 'allocations')
  const subusers = included(attributes, 'subusers')
  const isSuspended = row.suspended || row.status === 'suspended'
  const variables = Object.entries(row.container.environment).filter(([name]) => !ADDED.has(name))
  return {
    id: row.id,
    uuid: row.uuid.toLowerCase(),
    identifier: row.identifier,
    externalId: row.external_id,
    name: row.name,
    description: row.description,
    state: isSuspended ? 'suspended' : stateOf(row.status ?? null),
    isSuspended,
    ownerId: row.user,
    nodeId: row.node,
    nestId: row.nest,
    eggId: row.egg,
    limits: row.limits,
    featureLimits: row.feature_limits,
    startup: row.container.startup_command,
    image: row.container.image,
    isInstalled: row.container.installed,
    environment: Environment.parse(Object.fromEntries(variables)),
    primaryAllocationId: row.allocation,
    allocations:
      allocations === null ? null : allocations.map((one) => allocationOf(attributesOf(one), row.allocation)),
    subusers: subusers === null ? null : subusers.map((one) => subuserOf(attributesOf(one))),
    updatedAt: row.updated_at,
    filesFingerprint: null,
  }
}

const Environment = z
  .record(z.string().min(1).max(191), Exact(65_536))
  .refine((values) => Object.keys(values).length <= MOST_VARIABLES, `has more than ${MOST_VARIABLES} variables`)
const AnyItem = z.looseObject({ attributes: z.record(z.string(), z.unknown()) })
const attributesOf = (row: unknown): Attributes => AnyItem.parse(row).attributes

function stateOf(status: string | null): SourceServerState {
  switch (status) {
    case null:
    case '':
      return 'ready'
    case 'installing':
    case 'restoring_backup':
      return status
    case 'install_failed':
    case 'reinstall_failed':
      return 'install_failed'
    default:
      return 'other'
  }
}

/** What a server is allowed to have. */
export function buildOf(attributes: Attributes): SourceBuild {
  const row = Server.pick({ limits: true, feature_limits: true }).extend({ allocation: Id }).parse(attributes)
  return { allocationId: row.allocation, limits: row.limits, featureLimits: row.feature_limits }
}

const Subuser = z.looseObject({
  user_id: OptionalId,
  uuid: Uuid,
  email: z.string().trim().toLowerCase().max(320).nullish(),
  permissions: Texts,
})

export function subuserOf(attributes: Attributes): SourceSubuser {
  const row = Subuser.parse(attributes)
  return { userId: row.user_id, userUuid: row.uuid, email: row.email ?? null, permissions: row.permissions }
}

const Host = z.looseObject({ id: Id, name: Line(), host: z.string().min(1).max(253), port: Port, username: Line() })
const Database = z.looseObject({
  id: Id,
  database: z.string().min(1).max(255),
  username: Exact(255),
  remote: Exact(255),
  max_connections: most.transform((value) => value ?? 0),
})

export function databaseOf(attributes: Attributes): SourceDatabase {
  const row = Database.parse(attributes)
  const password = includedOne(attributes, 'password')?.['password']
  const host = includedOne(attributes, 'host')
  return {
    id: row.id,
    name: row.database,
    username: row.username,
    password: typeof password === 'string' ? Exact(1024).parse(password) : null,
    remote: row.remote === '' ? '%' : row.remote,
    maxConnections: row.max_connections,
    host: host === null ? null : hostOf(host),
  }
}

function hostOf(attributes: Attributes): SourceDatabaseHost {
  const { id, name, host, port, username } = Host.parse(attributes)
  return { id, name, host, port, username }
}

const Task = z.looseObject({
  id: Id,
  sequence_id: Whole().catch(0),
  action: Exact(50),
  payload: Exact(65_536),
  time_offset: Whole().catch(0),
  continue_on_failure: Flag,
})
const Schedule = z.looseObject({
  id: Id,
  name: Line(),
  cron: z.looseObject({
    minute: Exact(200),
    hour: Exact(200),
    day_of_month: Exact(200),
    month: Exact(200),
    day_of_week: Exact(200),
  }),
  is_active: Flag,
  only_when_online: Flag,
})

export function scheduleOf(attributes: Attributes): SourceSchedule {
  const row = Schedule.parse(attributes)
  const tasks = (included(attributes, 'tasks') ?? []).map((one) => Task.parse(attributesOf(one)))
  const { minute, hour, day_of_month: dayOfMonth, month, day_of_week: dayOfWeek } = row.cron
  return {
    id: row.id,
    name: row.name,
    cron: { minute, hour, dayOfMonth, month, dayOfWeek },
    isActive: row.is_active,
    onlyWhenOnline: row.only_when_online,
    tasks: tasks
      .toSorted((a, b) => a.sequence_id - b.sequence_id)
      .map((task) => ({
        id: task.id,
        action: task.action,
        payload: task.payload,
        offsetSeconds: task.time_offset,
        continueOnFailure: task.continue_on_failure,
      })),
  }
}

const Backup = z.looseObject({
  uuid: z.uuid(),
  name: Line(),
  is_successful: Flag,
  is_locked: Flag,
  ignored_files: Texts,
  checksum: z.string().max(200).nullish(),
  bytes: Whole().catch(0),
  created_at: OptionalLine(50),
  completed_at: OptionalLine(50),
})

/** A failed backup is complete as well: good is what is successful and has a checksum. */
export function backupOf(attributes: Attributes): SourceBackup {
  const row = Backup.parse(attributes)
  const sha1 = /^sha1:([0-9a-f]{40})$/i.exec(row.checksum ?? '')?.[1]?.toLowerCase() ?? null
  const isDone = row.completed_at !== null
  return {
    uuid: row.uuid.toLowerCase(),
    name: row.name,
    state: !isDone ? 'pending' : row.is_successful && row.checksum ? 'good' : 'failed',
    isLocked: row.is_locked,
    ignored: row.ignored_files,
    sha1,
    bytes: row.bytes,
    createdAt: row.created_at,
  }
}

/** Rows of schedules, each with its tasks. */
export const schedulesOf = (rows: readonly unknown[]) => readRows('schedule', rows, scheduleOf)
