import type { Generated } from 'kysely'
import type { PortProtocol, PortRole } from '../../../shared/kernel/ports.ts'
import type { IsoTime } from '../../../shared/kernel/time.ts'
import type { Flag, Json, Stamps } from './columns.ts'

interface LocationTable extends Stamps {
  id: string
  name: string
  description: string | null
  /** Where backups of its nodes' servers go that say nothing else. */
  backupStoreId: string | null
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
  /** Written at the edges (agent came, agent gone); the gateway knows the living connection. */
  isOnline: Flag
  lastSeenAt: IsoTime | null
  agentVersion: string | null
  os: string | null
  arch: string | null
  runtimes: Json
  addresses: Json
  /** From which ports its servers are given theirs when none is asked for; empty: from those that the panel takes by itself. */
  portRanges: Generated<Json>
  /** The agent's journal and the last of its events that is stored here. */
  journalId: string | null
  eventAck: number
  /** The machine that the agent runs on; `null` until one has connected with the node's present key. */
  machineId: string | null
  machineBootId: string | null
  /** Where backups of its servers go that say nothing else. */
  backupStoreId: string | null
  /** What its agent says of its SFTP server; `null` for agents that have none. */
  sftp: Generated<Json | null>
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

/** The egg that a template was imported from. */
interface TemplateEggTable {
  templateId: string
  format: string
  uuid: string | null
  updateUrl: string | null
  document: Json
}

interface AllocationTable extends Stamps {
  id: string
  nodeId: string
  serverId: string | null
  ip: string
  port: number
  alias: string | null
  notes: string | null
  /** What the server that has it calls it; `null` for a primary one without a name. */
  name: string | null
  role: PortRole | null
  /** `null`: what the template's games listen on. */
  protocol: PortProtocol | null
}

/** What servers are made from and stand on. */
export interface InfrastructureTables {
  location: LocationTable
  node: NodeTable
  nodeKey: NodeKeyTable
  deploymentToken: DeploymentTokenTable
  nest: NestTable
  template: TemplateTable
  templateEgg: TemplateEggTable
  allocation: AllocationTable
}
