import type { Clock } from '../../shared/kernel/time.ts'
import type { ConsoleLog } from '../console/console-log.ts'
import type { DiskLimits } from '../disk/disk-limits.ts'
import type { DiskRooms } from '../disk/disk-rooms.ts'
import type { DiskUsage } from '../disk/disk-usage.ts'
import type { PullConfig } from '../files/pull-ports.ts'
import type { AgentLog } from '../logger.ts'
import type { Rounds } from '../rounds.ts'
import type { MountRules } from '../runtime/mounts.ts'
import type { RunTable, ServerPlace } from '../runtime/runtime.ts'
import type { Runtimes } from '../runtime/runtimes.ts'
import type { SocketTable } from '../runtime/sockets.ts'
import type { Journal } from '../state/journal.ts'
import type { AgentLayout } from '../state/layout.ts'
import type { ReadyThread } from './ready-matcher.ts'
import type { SerialQueue } from './serial-queue.ts'
import type { GameServer } from './server.ts'
import type { StartPlaces } from './start-places.ts'

/** What every server of an agent shares. */
export interface ServerContext {
  readonly clock: Clock
  readonly log: AgentLog
  readonly journal: Journal
  readonly layout: AgentLayout
  /** What starts runs, and the runs that there are. */
  readonly runtimes: Runtimes
  readonly runs: RunTable
  /** The open sockets of this machine, read once for all that look at the same time. */
  readonly sockets: SocketTable
  /** When looks that come again and again are due. */
  readonly rounds: Rounds
  readonly disk: DiskUsage
  /** What servers may still have, shared by all that the agent writes for them. */
  readonly rooms: DiskRooms
  /** The threads that change large configuration files, one after the other. */
  readonly configThreads: SerialQueue
  /** Which folders of this node servers may have beside their own. */
  readonly mountRules: MountRules
  /** Where files may be fetched from beside public addresses at the ports of the web. */
  readonly pull: PullConfig
  /** Holds servers to their disk limits, where the kernel can. */
  readonly limits: DiskLimits
  /** Matches lines of games with ready rules, off the event loop. */
  readonly readyThread: ReadyThread
  readonly openLog: (place: ServerPlace) => ConsoleLog
  /** How many servers start at the same time. */
  readonly starts: StartPlaces
  /** The machine's present boot. */
  readonly bootId: string
  /** A number from 0 to below 1, for the jitter of restarts. */
  readonly random: () => number
  /** Queues the adoption of a server that has just become known, before any of its orders. */
  readonly adoptNew: (server: GameServer) => void
  /** Called when a server is to be started again at its `nextRestartAtMs`. */
  readonly onRestartDue: (server: GameServer) => void
  /** Aborts when the agent ends; games are left alone then. */
  readonly ending: AbortSignal
}
