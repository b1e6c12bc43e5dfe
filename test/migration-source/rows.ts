import type { SimTree } from './files.ts'
import type { WorldOptions } from './options.ts'

// What stands in the source's database. Plain rows, which a test may change before or while it runs.

export interface SimLocation {
  id: number
  short: string
  long: string
}
export interface SimNode {
  id: number
  uuid: string
  name: string
  description: string | null
  locationId: number
  memory: number
  disk: number
  tokenId: string
  /** Signs URLs, and is full control of the node. */
  token: string
  tags: string[]
  isInMaintenance: boolean
}
export interface SimNest {
  id: number
  uuid: string
  name: string
  description: string
}
export interface SimVariable {
  id: number
  eggId: number
  name: string
  description: string
  envVariable: string
  defaultValue: string
  userViewable: boolean
  userEditable: boolean
  rules: string[]
}
export interface SimEgg {
  id: number
  uuid: string
  nestId: number
  name: string
  author: string
  description: string
  dockerImages: Record<string, string>
  /** `null`: stored so that no list with it can be answered. */
  files: Record<string, unknown> | null
  startupDone: Record<string, unknown> | null
  stop: string | null
  logs: Record<string, unknown> | null
  fileDenylist: string[]
  configFrom: number | null
  scriptFrom: number | null
  startup: string
  install: string | null
  installEntry: string
  installImage: string
  features: string[]
  tags: string[]
  variables: SimVariable[]
}
export interface SimUser {
  id: number
  uuid: string
  username: string
  email: string
  firstName: string
  lastName: string
  rootAdmin: boolean
  has2fa: boolean
}
export interface SimAllocation {
  id: number
  nodeId: number
  ip: string
  alias: string | null
  port: number
  notes: string | null
  serverId: number | null
}
export interface SimSubuser {
  id: number
  userId: number
  permissions: string[]
}
export interface SimDatabase {
  id: number
  hostId: number
  database: string
  username: string
  remote: string
  password: string
  maxConnections: number
}
export interface SimDatabaseHost {
  id: number
  name: string
  host: string
  port: number
  username: string
  nodeId: number | null
}
export interface SimTask {
  id: number
  sequence: number
  action: 'command' | 'power' | 'backup'
  payload: string
  offset: number
  continueOnFailure: boolean
}
export interface SimSchedule {
  id: number
  name: string
  cron: { minute: string; hour: string; dayOfMonth: string; month: string; dayOfWeek: string }
  isActive: boolean
  onlyWhenOnline: boolean
  tasks: SimTask[]
}
export interface SimBackup {
  uuid: string
  name: string
  isSuccessful: boolean
  isLocked: boolean
  ignored: string[]
  checksum: string | null
  bytes: number
  createdMs: number
  completedMs: number | null
  /** Where its archive lies. */
  file: string | null
  /** Never ends. */
  isHanging: boolean
}
export interface SimServer {
  id: number
  uuid: string
  externalId: string | null
  name: string
  description: string
  status: 'installing' | 'install_failed' | 'suspended' | 'restoring_backup' | null
  nodeId: number
  ownerId: number
  allocationId: number
  eggId: number
  startup: string
  image: string
  limits: { memory: number; swap: number; disk: number; io: number; cpu: number; threads: string | null }
  oomDisabled: boolean
  featureLimits: { databases: number | null; allocations: number | null; backups: number | null }
  environment: Record<string, string | number | null>
  subusers: SimSubuser[]
  databases: SimDatabase[]
  schedules: SimSchedule[]
  backups: SimBackup[]
  mountIds: number[]
  tree: SimTree
  power: 'offline' | 'starting' | 'running' | 'stopping'
  updatedMs: number
}
export interface SimMount {
  id: number
  uuid: string
  name: string
  description: string
  source: string
  target: string
  readOnly: boolean
  userMountable: boolean
}
export interface SimWorld {
  readonly options: WorldOptions
  locations: SimLocation[]
  nodes: SimNode[]
  nests: SimNest[]
  eggs: SimEgg[]
  users: SimUser[]
  allocations: SimAllocation[]
  databaseHosts: SimDatabaseHost[]
  servers: SimServer[]
  mounts: SimMount[]
  sshKeys: { name: string; publicKey: string; fingerprint: string }[]
  /** Backups that were asked for, those that are deleted too: they count for the throttle. */
  asked: { readonly serverId: number; readonly backup: SimBackup }[]
}
