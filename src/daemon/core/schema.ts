import type { Generated } from 'kysely'
import type { DesiredState, PowerState, RestartPolicy, ServerActivity } from '../../shared/server-life.ts'
import type { RuntimeName } from '../../shared/server-spec.ts'
import type { IsoTime } from '../../shared/time.ts'

/** A truth value as SQLite stores it. */
export type Flag = 0 | 1

/** A column of JSON text; `parseJson` of core/json.ts reads it. */
export type Json = string

interface Stamps {
  createdAt: IsoTime
  updatedAt: IsoTime
}

interface UserTable extends Stamps {
  id: string
  /** In lower case. */
  email: string
  username: string
  firstName: string | null
  lastName: string | null
  /** Argon2id in PHC form; `null`: no sign-in by password. */
  passwordHash: string | null
  emailVerified: Flag
  banned: Flag
  banReason: string | null
  banExpires: IsoTime | null
  lastSuccessfulLogin: IsoTime | null
}

interface RoleTable extends Stamps {
  id: string
  name: string
  description: string | null
  permissions: Json
  /** The built-in Administrator role. */
  protected: Flag
}

interface UserRoleTable {
  userId: string
  roleId: string
}

interface SessionTable extends Stamps {
  id: string
  userId: string
  /** SHA-256 of the token's secret, in hex. */
  secretHash: string
  ipAddress: string | null
  userAgent: string | null
  persistent: Flag
  expiresAt: IsoTime
}

interface ApiKeyTable extends Stamps {
  id: string
  userId: string
  name: string
  /** The first characters of the key, to recognise it by. */
  start: string
  secretHash: string
  enabled: Flag
  expiresAt: IsoTime | null
  lastRequest: IsoTime | null
  requestCount: number
  rateLimitEnabled: Flag
  rateLimitMax: number
  rateLimitTimeWindow: number
  allPermissions: Flag
  permissions: Json
  metadata: Json | null
}

/** Failed sign-ins by account and address; `lockedUntil` set: a lockout (api.md §6.4). */
interface AuthLockoutTable extends Stamps {
  id: string
  /** What was typed, in lower case; '' for the row of an address as a whole. */
  email: string
  ipAddress: string
  userAgent: string | null
  failureCount: number
  /** How often it was locked in a row; each doubles the duration. */
  lockCount: number
  firstFailedAt: IsoTime
  lastFailedAt: IsoTime
  lockedUntil: IsoTime | null
}

interface LocationTable extends Stamps {
  id: string
  name: string
  description: string | null
}

interface NodeTable extends Stamps {
  id: string
  name: string
  description: string | null
  locationId: string
  hostname: string
  publicAddress: string
  defaultIp: string
  maxMemoryMb: number
  maxCpuCores: number
  memoryOverallocatePercent: number
  cpuOverallocatePercent: number
  maintenance: Flag
  /** Written at the edges (agent came, agent gone); the living connection is the gateway's to tell. */
  isOnline: Flag
  lastSeenAt: IsoTime | null
  agentVersion: string | null
  os: string | null
  arch: string | null
  runtimes: Json
  addresses: Json
  /** The agent's journal and the last of its events that is stored here. */
  journalId: string | null
  eventAck: number
}

interface NodeKeyTable {
  id: string
  nodeId: string
  secretHash: string
  preview: string
  createdAt: IsoTime
  lastUsedAt: IsoTime | null
}

interface DeploymentTokenTable {
  id: string
  nodeId: string
  tokenHash: string
  expiresAt: IsoTime
  usedAt: IsoTime | null
  createdAt: IsoTime
}

interface NestTable extends Stamps {
  id: string
  name: string
  description: string | null
  icon: string | null
  author: string | null
}

/** A template; all that no query looks at stands as JSON in `definition` (the API's NewTemplate). */
interface TemplateTable extends Stamps {
  id: string
  name: string
  nestId: string | null
  definition: Json
}

interface AllocationTable extends Stamps {
  id: string
  nodeId: string
  serverId: string | null
  ip: string
  port: number
  alias: string | null
  notes: string | null
}

/** A server: what is wanted (written by requests) and what is observed (written by reports of its agent alone). */
interface ServerTable extends Stamps {
  id: string
  uuid: string
  name: string
  description: string | null
  templateId: string
  nodeId: string
  locationId: string
  ownerId: string
  allocationId: string
  runtime: RuntimeName
  memoryMb: number
  cpuCores: number
  diskMb: number
  swapMb: number
  environment: Json
  startupCommand: string | null
  restartPolicy: RestartPolicy
  maxCrashCount: number
  suspendedAt: IsoTime | null
  suspensionReason: string | null
  archivedAt: IsoTime | null
  deletingAt: IsoTime | null
  desired: DesiredState
  generation: number
  power: PowerState
  /** The power state before the node went away; set while `power` is `unknown`. */
  lastKnownPower: PowerState | null
  activity: ServerActivity | null
  installed: Flag
  failed: Flag
  crashed: Flag
  crashCount: number
  reason: string | null
  observedGeneration: number
  observedAt: IsoTime | null
  startedAt: IsoTime | null
  pid: number | null
  lastExitCode: number | null
  lastExitSignal: string | null
  lastCrashAt: IsoTime | null
  nextRestartAt: IsoTime | null
}

/** An order to an agent; it is sent until the agent has accepted it, and stays until the agent has told its end. */
interface CommandTable {
  id: string
  nodeId: string
  serverId: string
  generation: number
  op: string
  /** The frame's `command`, without the specification: that is made when it is sent. */
  args: Json
  state: 'queued' | 'accepted' | 'done' | 'failed'
  error: Json | null
  noop: Flag
  createdAt: IsoTime
  acceptedAt: IsoTime | null
  endedAt: IsoTime | null
}

interface EventTable {
  id: Generated<number>
  type: string
  serverId: string | null
  data: Json
  createdAt: IsoTime
}

interface AuditLogTable {
  id: string
  userId: string | null
  apiKeyId: string | null
  action: string
  resource: string
  resourceId: string | null
  details: Json | null
  ipAddress: string | null
  userAgent: string | null
  requestId: string | null
  createdAt: IsoTime
}

interface SettingTable {
  key: string
  value: Json
  updatedAt: IsoTime
}

interface IdempotencyTable {
  /** SHA-256 over caller, route and key. */
  id: string
  requestHash: string
  /** `null` until the answer is known. Sealed with a key that only the caller has. */
  response: string | null
  status: number | null
  createdAt: IsoTime
}

/** Every table, by its name in camel case; columns are snake case in SQL. */
export interface Schema {
  user: UserTable
  role: RoleTable
  userRole: UserRoleTable
  session: SessionTable
  apiKey: ApiKeyTable
  authLockout: AuthLockoutTable
  location: LocationTable
  node: NodeTable
  nodeKey: NodeKeyTable
  deploymentToken: DeploymentTokenTable
  nest: NestTable
  template: TemplateTable
  allocation: AllocationTable
  server: ServerTable
  command: CommandTable
  event: EventTable
  auditLog: AuditLogTable
  setting: SettingTable
  idempotency: IdempotencyTable
}
