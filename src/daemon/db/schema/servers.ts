import type { Generated } from 'kysely'
import type {
  BootPolicy,
  DesiredState,
  ExitCause,
  PowerState,
  RestartPolicy,
  ServerActivity,
} from '../../../shared/kernel/server-life.ts'
import type { IsoTime } from '../../../shared/kernel/time.ts'
import type { CommandName } from '../../../shared/protocol/server.ts'
import type { RuntimeName } from '../../../shared/protocol/server-spec.ts'
import type { Flag, Json, Stamps } from './columns.ts'

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
  /** How many databases it may have. */
  databaseAllocation: Generated<number>
  environment: Json
  startupCommand: string | null
  /** Whether it starts when its machine does. */
  bootPolicy: Generated<BootPolicy>
  /** Lower ones start first when a node starts its servers. */
  startOrder: Generated<number>
  /** `null`: that of the template. */
  stopTimeoutSeconds: number | null
  /** A name of the IANA database; `null`: that of the node. */
  timeZone: string | null
  /** The processors that it may use, as the kernel writes them: `0-3,6`. */
  cpuSet: string | null
  /** Its share of disk time, from 10 to 1000. */
  ioWeight: number | null
  /** The one of the template's images that it runs in; `null`: the default. */
  image: string | null
  /** The one of the template's startup lines that it runs by; `null`: the default. */
  startupName: string | null
  /** Folders of the node that it is given beside its own. */
  mounts: Generated<Json>
  /** The agreement that its game waits for, as the agent has reported it. */
  eula: Json | null
  /** The template as it was when the server was pinned to it; later versions do not reach the server. */
  pinnedTemplate: Json | null
  pinnedAt: IsoTime | null
  restartPolicy: RestartPolicy
  maxCrashCount: number
  suspendedAt: IsoTime | null
  /** `null` also where that account is gone. */
  suspendedByUserId: string | null
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
  lastExitCause: ExitCause | null
  lastExitReason: string | null
  lastCrashAt: IsoTime | null
  nextRestartAt: IsoTime | null
  /** Where its backups go; null: where its node, location or the settings say. */
  backupStoreId: string | null
}

/** An order to an agent; it is sent until the agent has accepted it, and stays until the agent has reported its end. */
interface CommandTable {
  id: string
  nodeId: string
  serverId: string
  generation: number
  op: CommandName
  /** The frame's `command`, without the specification: that is made when it is sent. */
  args: Json
  state: 'queued' | 'accepted' | 'done' | 'failed'
  error: Json | null
  noop: Flag
  createdAt: IsoTime
  acceptedAt: IsoTime | null
  endedAt: IsoTime | null
}

/** Servers and the orders to their agents. */
export interface ServersTables {
  server: ServerTable
  command: CommandTable
}
