import type { Selectable } from 'kysely'
import type {
  AgentEvent,
  AgentFrame,
  CommandOp,
  NodeHealth,
  ServerFigures,
  ServerReport,
} from '../../../shared/frames.ts'
import type { Tx } from '../db.ts'
import type { Schema } from '../schema.ts'

/** A frame of an agent by its type. */
export type FrameOf<T extends AgentFrame['type']> = Extract<AgentFrame, { type: T }>

/** A row of the command table. */
export type CommandRow = Selectable<Schema['command']>

/** When a report was true: the time of receipt (milliseconds since the epoch) less the age that the agent states. */
export interface ReportedAt {
  readonly receivedMs: number
  readonly ageMs: number
}

/**
 * What the daemon does with what agents say. Everything about one node comes in order: a call begins when the one before has
 * resolved (also over reconnects), apart from console lines and figures, which are told at once. A rejection ends the
 * connection; the agent comes back and says again what was not stored.
 */
export interface GatewayHandlers {
  /** An agent says who it is; answers the number of its last stored event. `undefined`: there is no such node any more. */
  onHello(nodeId: string, hello: FrameOf<'hello'>): Promise<{ readonly eventAck: number } | undefined>
  /** What the agent has; answers the servers that are not known here. The reports of the servers follow by `onReports`. */
  onSnapshot(nodeId: string, snapshot: FrameOf<'snapshot'>): Promise<{ readonly unknown: readonly string[] }>
  /** The state of all servers of the snapshot, told when every event that is older has been told. */
  onReports(nodeId: string, reports: readonly ServerReport[], at: ReportedAt): Promise<void>
  /** A state that changed or a command that ended, inside the transaction that also stores the event's number. */
  onEvent(tx: Tx, nodeId: string, event: AgentEvent, at: ReportedAt): Promise<void>
  /** The handshake is over: commands and requests flow. Also told when a connection replaces another. */
  onOnline(nodeId: string): Promise<void>
  /** The node has no connection any more; also when the daemon itself ends it. */
  onOffline(nodeId: string): Promise<void>
  /** Console lines; must not wait. */
  onConsole(nodeId: string, frame: FrameOf<'console'>): void
  onConsoleGap(nodeId: string, frame: FrameOf<'console.gap'>): void
  onStats(nodeId: string, figures: readonly ServerFigures[]): void
  /** The figures of the machine itself; must not wait. */
  onHealth(nodeId: string, health: NodeHealth): void
  /** The order as it goes over the wire, with the present specification; `undefined`: it has lost its object and fails. */
  commandFrame(row: CommandRow): Promise<CommandOp | undefined>
}
