import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { MOST_CPU_SET, parseCpuSet } from '../kernel/cpu-set.ts'
import { ResourceStats } from '../kernel/events.ts'
import { AllocationId, CommandId, LocationId, NodeId, ServerId, TemplateId, UserId } from '../kernel/ids.ts'
import { pageQuery } from '../kernel/page.ts'
import { PortProtocol, PortRole } from '../kernel/ports.ts'
import { BootPolicy, DesiredState, ExitCause, PowerState, RestartPolicy, ServerStatus } from '../kernel/server-life.ts'
import { TimeZone } from '../kernel/setting-values.ts'
import { IsoTime } from '../kernel/time.ts'
import { Mounts } from '../protocol/mounts.ts'
import { DiskEnforced } from '../protocol/server.ts'
import { RuntimeName, ShellText, VariableName } from '../protocol/server-spec.ts'
import { TemplateLite } from './templates.ts'

const Name = z
  .string()
  .trim()
  .min(1)
  .max(100)
  .regex(/^(?:(?![/\\<>\ufffd])[\p{L}\p{M}\p{N}\p{P}\p{S} ])+$/u, 'must be one line without / \\ < >')
// YAML and JSON write numbers and booleans without quotes; a game gets the text.
const VariableValue = z
  .union([z.string().max(4096), z.number(), z.boolean()], 'must be a text of at most 4096 characters')
  .transform(String)
const Environment = z.record(VariableName, VariableValue)
const MemoryMb = z.int().min(16).max(1_048_576)
const CpuCores = z.number().min(0.1).max(1024)
const DiskMb = z.int().min(16).max(1_073_741_824)
const DatabaseAllocation = z.int().min(0).max(1000)
const CpuSet = z
  .string()
  .max(MOST_CPU_SET)
  .refine((text) => parseCpuSet(text) !== undefined, 'must be processors as the kernel writes them, such as 0-3,6')
const IoWeight = z.int().min(10).max(1000)
const Port = z.int().min(1).max(65_535)
const StartOrder = z.int().min(-1000).max(1000)
const StopTimeoutSeconds = z.int().min(0).max(600)
/** Empty, which is what a flag can say, is none. */
const StartupName = z
  .string()
  .max(100)
  .transform((name) => (name === '' ? null : name))
const Ip = z.union([z.ipv4(), z.ipv6()], 'must be an IP address')

/** An address and port of a server. */
export const ServerPort = z.object({
  /** `default`: the primary one. */
  name: z.string(),
  role: PortRole,
  protocol: PortProtocol,
  ip: z.string(),
  port: z.int(),
  /** Where it is reached from outside. */
  host: z.string(),
  isPrimary: z.boolean(),
  /** The variable that its number is in. */
  variable: z.string().nullable(),
})
export type ServerPort = z.infer<typeof ServerPort>

/** A mount as it is shown; it was looked at when it was written. */
const ShownMount = z.object({ source: z.string(), target: z.string(), readOnly: z.boolean() })

/** A game server. Sizes in MiB, CPU in cores. Fields with a default are those that daemons of before leave out. */
export const Server = z.object({
  id: ServerId,
  uuid: z.string(),
  name: z.string(),
  description: z.string().nullable(),
  templateId: TemplateId,
  nodeId: NodeId,
  locationId: LocationId,
  ownerId: UserId,
  status: ServerStatus,
  powerState: PowerState,
  desired: DesiredState,
  generation: z.int(),
  /** When the agent's last word on this server arrived. */
  observedAt: IsoTime.nullable(),
  /** The status before its node went away, while that is `unknown`. */
  lastKnownStatus: ServerStatus.nullable(),
  /**
   * Why it is not as desired: why the last start, install or run ended badly, what a starting server waits for, or that nothing of
   * a running one listens on its port.
   */
  reason: z.string().nullable(),
  installed: z.boolean(),
  startedAt: IsoTime.nullable(),
  pid: z.int().nullable(),
  suspendedAt: IsoTime.nullable(),
  suspendedByUserId: UserId.nullable(),
  suspensionReason: z.string().nullable(),
  allocatedMemoryMb: z.int(),
  allocatedCpuCores: z.number(),
  allocatedDiskMb: z.int(),
  allocatedSwapMb: z.int(),
  /** How many databases it may have. */
  databaseAllocation: z.int(),
  /** The processors that it may use, as `0-3,6`; `null`: all. */
  cpuSet: z.string().nullable().default(null),
  /** Its share of disk time from 10 to 1000; `null`: that of everybody. */
  ioWeight: z.int().nullable().default(null),
  /** The one of its template's images that it runs in; `null`: the template's default. */
  image: z.string().nullable().default(null),
  runtime: RuntimeName,
  allocationId: AllocationId,
  primaryPort: z.int(),
  primaryIp: z.string(),
  /** All of its ports, the primary one first. */
  ports: z.array(ServerPort).default([]),
  /** The network of the pool that `primaryIp` is from; `host`: it is an address of the node. */
  networkMode: z.string(),
  environment: z.record(z.string(), z.string()),
  startupCommand: z.string().nullable(),
  /** Which of the template's further startup lines it is started with; `null`: the template's own. */
  startupName: z.string().nullable().default(null),
  /** Since when it keeps its template as it was then; `null`: edits of the template reach it at its next start. */
  pinnedAt: IsoTime.nullable().default(null),
  /** Whether its template is another one now than the one that it keeps. */
  templateChanged: z.boolean().default(false),
  restartPolicy: RestartPolicy,
  crashCount: z.int(),
  maxCrashCount: z.int(),
  lastCrashAt: IsoTime.nullable(),
  lastExitCode: z.int().nullable(),
  lastExitSignal: z.string().nullable(),
  /** Why the last process ended, and the same as a sentence. */
  lastExitCause: ExitCause.nullable(),
  lastExitReason: z.string().nullable(),
  nextRestartAt: IsoTime.nullable(),
  /** Whether it starts when its machine does, and when among the others: lower orders first. */
  bootPolicy: BootPolicy.default('unless-stopped'),
  startOrder: z.int().default(0),
  /** How long a stop may take; `null`: as its template says. */
  stopTimeoutSeconds: z.int().nullable().default(null),
  /** `null`: that of its node. */
  timeZone: z.string().nullable().default(null),
  /** The agreement that its game waits for. */
  eula: z
    .object({ state: z.enum(['pending', 'declined']), file: z.string(), text: z.string(), requestedAt: IsoTime })
    .nullable()
    .default(null),
  template: TemplateLite,
  node: z.object({
    id: NodeId,
    name: z.string(),
    hostname: z.string(),
    publicAddress: z.string(),
    isOnline: z.boolean(),
  }),
  location: z.object({ id: LocationId, name: z.string() }),
  connection: z.object({ host: z.string(), port: z.int() }),
  effectivePermissions: z.array(z.string()),
  cpuPercent: z.number().nullable(),
  memoryUsageMb: z.number().nullable(),
  diskUsageMb: z.number().nullable(),
  /**
   * What holds it to its disk limit: the kernel, or the agent's own look at its files; `null` before its agent has said so. Daemons of
   * before have neither this nor mounts.
   */
  diskEnforced: DiskEnforced.nullable().optional(),
  /** Folders of the node that it is given beside its own and those of its template. */
  mounts: z.array(ShownMount).optional(),
  /** How many play and may play, by the game's own answer; `null`: not known. */
  playersOnline: z.int().nullable().default(null),
  playersMax: z.int().nullable().default(null),
  createdAt: IsoTime,
  updatedAt: IsoTime,
})
export type Server = z.infer<typeof Server>

type Bare<T> = T extends z.ZodDefault<infer I> | z.ZodOptional<infer I> ? I : T

/** The same fields, each of which a row may leave out: then nothing is said of it, whatever its default is. */
function mayBeLeftOut<S extends z.ZodRawShape>(shape: S): { [K in keyof S]: z.ZodOptional<Bare<S[K]>> } {
  const bare = (field: unknown) =>
    field instanceof z.ZodDefault || field instanceof z.ZodOptional ? field.unwrap() : field
  const fields = Object.entries(shape).map(([name, field]) => [name, z.optional(bare(field) as z.ZodType)]) // fields are schemas
  return Object.fromEntries(fields) as { [K in keyof S]: z.ZodOptional<Bare<S[K]>> } // the same names
}

/** What rows of lists have only when they are asked for it: most of the bytes of a list, and the same in most rows. */
export const SERVER_PARTS = ['template', 'effectivePermissions', 'settings'] as const

/** How a server is set up beside its size: the part `settings` of rows of lists. */
export const SERVER_SETTINGS = {
  ...({
    environment: true,
    startupCommand: true,
    startupName: true,
    image: true,
    mounts: true,
    timeZone: true,
  } as const),
  ...({ allocatedSwapMb: true, cpuSet: true, ioWeight: true, databaseAllocation: true, networkMode: true } as const),
  ...({ restartPolicy: true, maxCrashCount: true, bootPolicy: true, startOrder: true } as const),
  ...({ stopTimeoutSeconds: true, pinnedAt: true, templateChanged: true } as const),
} as const

/** A server as lists show it: of its template the name, without the caller's permissions and its settings, unless `include` names them. */
export const ListedServer = Server.extend({
  ...mayBeLeftOut(Server.pick(SERVER_SETTINGS).shape),
  template: z.object({
    id: TemplateId,
    name: z.string(),
    ...mayBeLeftOut(TemplateLite.omit({ id: true, name: true }).shape),
  }),
  effectivePermissions: Server.shape.effectivePermissions.optional(),
})
export type ListedServer = z.infer<typeof ListedServer>

// The address: `primaryPort` with an optional `primaryIp`, or `allocationId`; a port is chosen where none is named. With
// `networkMode` it is `primaryIp` out of that network, or the next one that is free there. The further ports of the template are
// claimed with it.
/** The body of a creation. */
export const NewServer = z
  .object({
    name: Name,
    description: z.string().max(500).nullish(),
    templateId: TemplateId,
    nodeId: NodeId,
    locationId: LocationId,
    ownerId: UserId.optional(),
    allocatedMemoryMb: MemoryMb,
    allocatedCpuCores: CpuCores,
    allocatedDiskMb: DiskMb,
    allocatedSwapMb: z.int().min(0).max(1_048_576).default(0),
    /** Without it the template's `features.databaseAllocation`, else 0. */
    databaseAllocation: DatabaseAllocation.optional(),
    cpuSet: CpuSet.nullish(),
    ioWeight: IoWeight.nullish(),
    /** One of the template's images, by its name or label or as it is. */
    image: z.string().min(1).max(300).nullish(),
    runtime: RuntimeName.optional(),
    primaryPort: Port.nullish(),
    primaryIp: Ip.nullish(),
    allocationId: AllocationId.nullish(),
    /** The network of one of the node's IP pools; `host` and `bridge`: an address of the node itself. */
    networkMode: z
      .string()
      .min(1)
      .max(63)
      .optional()
      .transform((name) => (name === 'host' || name === 'bridge' ? undefined : name)),
    environment: Environment.default({}),
    startupCommand: ShellText.min(1).max(4096).nullish(),
    startupName: StartupName.nullish(),
    restartPolicy: RestartPolicy.default('on-failure'),
    maxCrashCount: z.int().min(0).max(100).default(5),
    bootPolicy: BootPolicy.default('unless-stopped'),
    startOrder: StartOrder.default(0),
    stopTimeoutSeconds: StopTimeoutSeconds.nullish(),
    timeZone: TimeZone.nullish(),
    /** Folders of the node beside its own (needs admin.write); the node's own configuration has to allow them. */
    mounts: Mounts.default([]),
    /** Start it as soon as it is installed. */
    start: z.boolean().default(false),
  })
  .superRefine((body, context) => {
    const issue = (path: string, message: string): void => context.addIssue({ code: 'custom', path: [path], message })
    const { allocationId, primaryPort, primaryIp, networkMode } = body
    const isGiven = (value: unknown): boolean => value !== undefined && value !== null
    if (!isGiven(allocationId)) return
    if (isGiven(primaryPort)) issue('allocationId', 'and primaryPort exclude each other')
    if (isGiven(primaryIp)) issue('primaryIp', 'and allocationId exclude each other')
    if (isGiven(networkMode)) issue('networkMode', 'and allocationId exclude each other')
  })
export type NewServer = z.infer<typeof NewServer>

/**
 * What may be edited. Sizes, quotas and address need `admin.write` or an assignment of the node, a startup line
 * and mounts `admin.write`; a new address needs a stopped server. `primaryIp: null` is the address that the node gives by default.
 */
export const ServerPatch = z.object({
  name: Name.optional(),
  description: z.string().max(500).nullish(),
  environment: Environment.optional(),
  startupCommand: ShellText.min(1).max(4096).nullish(),
  /** One of the template's further startup lines; `null`: the template's own. Excludes a line of the server's own. */
  startupName: StartupName.nullish(),
  allocatedMemoryMb: MemoryMb.optional(),
  allocatedCpuCores: CpuCores.optional(),
  allocatedDiskMb: DiskMb.optional(),
  allocatedSwapMb: z.int().min(0).max(1_048_576).optional(),
  databaseAllocation: DatabaseAllocation.optional(),
  cpuSet: CpuSet.nullish(),
  ioWeight: IoWeight.nullish(),
  image: z.string().min(1).max(300).nullish(),
  primaryPort: Port.optional(),
  primaryIp: Ip.nullish(),
  allocationId: AllocationId.optional(),
  restartPolicy: RestartPolicy.optional(),
  maxCrashCount: z.int().min(0).max(100).optional(),
  bootPolicy: BootPolicy.optional(),
  startOrder: StartOrder.optional(),
  stopTimeoutSeconds: StopTimeoutSeconds.nullish(),
  timeZone: TimeZone.nullish(),
  mounts: Mounts.optional(),
})
export type ServerPatch = z.infer<typeof ServerPatch>

const params = { serverId: ServerId }

/** What lists of servers are asked for. */
export const serverQuery = pageQuery().extend({
  /** Contained in the name, or the beginning of the id or uuid. */
  search: z.string().max(200).optional(),
  status: ServerStatus.optional(),
  nodeId: NodeId.optional(),
  ownerId: UserId.optional(),
  templateId: TemplateId.optional(),
  locationId: LocationId.optional(),
  sort: z.enum(['name', 'createdAt', 'status']).default('createdAt'),
  order: z.enum(['asc', 'desc']).default('desc'),
  /** What rows show beside what they have, with commas: `template` (all of it), `effectivePermissions`, `settings`. */
  include: z
    .string()
    .max(100)
    .transform((text) => text.split(','))
    .pipe(z.array(z.enum(SERVER_PARTS)))
    .optional(),
})

export const listServers = defineEndpoint({
  id: 'servers.list',
  tag: 'Servers',
  summary: 'List the servers that you may see',
  method: 'GET',
  path: '/api/servers',
  access: 'session',
  query: serverQuery,
  response: z.array(ListedServer),
  paged: true,
  cached: true,
})

/** What may be wrong with the fields of a creation and of an edit. */
const REFUSED_FIELDS = [
  'ALLOCATION_NOT_FOUND',
  'ALLOCATION_IN_USE',
  'PORT_IN_USE',
  'SERVER_NAME_TAKEN',
  'INSUFFICIENT_RESOURCES',
  'PERMISSION_DENIED',
] as const

export const createServer = defineEndpoint({
  id: 'servers.create',
  tag: 'Servers',
  summary: 'Create a server and install it',
  method: 'POST',
  path: '/api/servers',
  access: { anyOf: ['server.create', 'admin.write'], orOnNode: 'server.create' },
  body: NewServer,
  /** `commandId` names the order that makes it ready; its end is reported as `server_command_done`. */
  ignores: ['portBindings', 'subdomain', 'backupAllocationMb'],
  response: Server.extend({ commandId: CommandId }),
  status: 201,
  errors: [
    'TEMPLATE_NOT_FOUND',
    'NODE_NOT_FOUND',
    'NODE_IN_MAINTENANCE',
    'LOCATION_NOT_FOUND',
    'ADMIN_IP_POOL_NOT_FOUND',
    'USER_NOT_FOUND',
    'CONFLICT',
    ...REFUSED_FIELDS,
  ],
  audit: { action: 'server.create' },
})

export const getServer = defineEndpoint({
  id: 'servers.get',
  tag: 'Servers',
  summary: 'Show a server',
  method: 'GET',
  path: '/api/servers/:serverId',
  access: { server: ['server.read'] },
  params,
  response: Server,
  errors: ['SERVER_NOT_FOUND'],
  cached: true,
})

/** What a server is shown with beside what can be edited: clients send back the whole server that they were shown. */
const SHOWN_ONLY = Object.keys(Server.shape).filter((field) => !Object.hasOwn(ServerPatch.shape, field))

const serverEdit = {
  tag: 'Servers',
  path: '/api/servers/:serverId',
  access: { server: ['server.update'] },
  params,
  body: ServerPatch,
  ignores: [...SHOWN_ONLY, 'commandId', 'appliesAt', 'portBindings', 'subdomain', 'backupAllocationMb'],
  /** `next-start`: something of the change waits until the server is started again, as everything does with older daemons. */
  response: Server.extend({ appliesAt: z.enum(['now', 'next-start']).default('next-start') }),
  /** CONFLICT: less disk than the server uses. */
  errors: [
    'SERVER_NOT_FOUND',
    'SERVER_SUSPENDED',
    'SERVER_MUST_BE_STOPPED',
    'SERVER_INVALID_STATE',
    'CONFLICT',
    ...REFUSED_FIELDS,
  ],
  audit: { action: 'server.update' },
} as const

export const updateServer = defineEndpoint({
  ...serverEdit,
  id: 'servers.update',
  summary: 'Edit a server',
  method: 'PUT',
})

export const patchServer = defineEndpoint({
  ...serverEdit,
  id: 'servers.patch',
  summary: 'Edit a server (the same as PUT)',
  method: 'PATCH',
})

export const resizeStorage = defineEndpoint({
  id: 'servers.resize_storage',
  tag: 'Servers',
  summary: 'Change the disk limit of a server, also while it runs; never to less than it uses',
  method: 'POST',
  path: '/api/servers/:serverId/storage/resize',
  access: { server: ['server.update'] },
  params,
  body: z.object({ allocatedDiskMb: DiskMb }),
  /** `commandId` names the order that puts it in force, whose end is `server_command_done`; `null`: it is the limit already. */
  response: z.object({ allocatedDiskMb: z.int(), previousDiskMb: z.int(), commandId: CommandId.nullable() }),
  status: 202,
  errors: [
    'SERVER_NOT_FOUND', 'SERVER_SUSPENDED', 'SERVER_INVALID_STATE', 'PERMISSION_DENIED', 'CONFLICT', 'NODE_OFFLINE',
  ], // biome-ignore format: a list
  audit: { action: 'server.resize_storage' },
})

export const deleteServer = defineEndpoint({
  id: 'servers.delete',
  tag: 'Servers',
  summary: 'Delete a server and its files; on a node that is away, as soon as it is back',
  method: 'DELETE',
  path: '/api/servers/:serverId',
  access: { server: ['server.delete'] },
  params,
  /** `force`: forget it at once, even if its node will never come back. */
  query: z.object({ force: z.enum(['true', 'false']).optional(), keepFiles: z.enum(['true', 'false']).optional() }),
  response: NoData,
  errors: ['SERVER_NOT_FOUND', 'SERVER_INVALID_STATE', 'SERVER_SUSPENDED'],
  audit: { action: 'server.delete' },
})

export const getServerStats = defineEndpoint({
  id: 'servers.stats',
  tag: 'Servers',
  summary: 'Show what a server uses now',
  method: 'GET',
  path: '/api/servers/:serverId/stats',
  access: { server: ['server.read'] },
  params,
  response: ResourceStats.extend({
    memoryPercentage: z.number().nullable(),
    memoryAllocatedMb: z.int(),
    timestamp: IsoTime.nullable(),
    server: z.object({ id: ServerId, name: z.string(), status: ServerStatus }),
  }),
  errors: ['SERVER_NOT_FOUND', 'SERVER_SUSPENDED'],
})
