import type { Selectable } from 'kysely'
import type { AgentEvent, AgentFrame, DaemonFrame } from '../../shared/protocol/frames.ts'
import type { NodeHealth } from '../../shared/protocol/node.ts'
import type { CommandOp, ServerReport, ServerUsage } from '../../shared/protocol/server.ts'
import type { Tx } from '../db/db.ts'
import type { Schema } from '../db/schema.ts'

/** A frame of an agent by its type. */
export type FrameOf<T extends AgentFrame['type']> = Extract<AgentFrame, { type: T }>

/** A row of the command table. */
export type CommandRow = Selectable<Schema['command']>

/** A command as it waits for its node. */
export type QueuedCommand = Pick<CommandRow, 'id' | 'serverId' | 'generation' | 'op' | 'args'>

/** When a report was true: the time of receipt (milliseconds since the epoch) less the age that the agent states. */
export interface ReportedAt {
  readonly receivedMs: number
  readonly ageMs: number
}

/** An event of a node, and when it happened. */
export interface HappenedEvent {
  readonly event: AgentEvent
  readonly at: ReportedAt
  /** Of the end of a command: its acceptance came with it, and is not stored yet. */
  readonly isAccepted?: boolean
}

/** `other`: certainly not the node's machine. `unproved`: there is too little to compare. */
export type MachineClaim = 'same' | 'other' | 'unproved'

/** What an agent is answered when its snapshot was taken. */
export type SnapshotAnswer = Omit<Extract<DaemonFrame, { type: 'snapshot.ok' }>, 'type'>

/** When the reports of a snapshot were true. `contested`: another agent that claims to be the node was connected as well. */
export interface AboutReports {
  readonly at: ReportedAt
  readonly contested: boolean
}

/** A command as an agent gets it, and the same as JSON. */
export interface WireCommand {
  readonly command: CommandOp
  readonly json: string
}

/** Why a queued command does not go over the wire; see `commandFrames`. */
export type Unsendable = 'gone' | 'unknown' | { readonly failure: unknown }

/**
 * What the daemon does with what agents say. Everything about one node comes in order: a call begins when the one before has
 * resolved (also over reconnects), apart from console lines and usage reports, which are passed on at once. A rejection ends the
 * connection; the agent comes back and says again what was not stored.
 */
export interface GatewayHandlers {
  /** Whether the machine that an agent says it runs on is the node's; asked before anything else, and nothing is written. */
  onClaim(nodeId: string, hello: FrameOf<'hello'>): Promise<MachineClaim>
  /** An agent says who it is; answers the number of its last stored event. `undefined`: there is no such node any more. */
  onHello(nodeId: string, hello: FrameOf<'hello'>): Promise<{ readonly eventAck: number } | undefined>
  /** The state of a server as it comes, before it is stored; must not wait. */
  onLive(nodeId: string, report: ServerReport, at: ReportedAt): void
  /** The agent has a command in its journal; must not wait. */
  onAccepted(nodeId: string, commandId: string): void
  /** What the node reports cannot be stored. Nothing more of this connection is stored or acknowledged; it stays for the rest. */
  onUnstored(nodeId: string): void
  /** What the agent has; returns the answer to the agent. The reports of the servers follow by `onReports`. */
  onSnapshot(nodeId: string, snapshot: FrameOf<'snapshot'>): Promise<SnapshotAnswer>
  /** The state of all servers of the snapshot, reported when every event that is older has been reported. */
  onReports(nodeId: string, reports: readonly ServerReport[], about: AboutReports): Promise<void>
  /** States that changed and commands that ended, or were accepted and ended, in their order, inside the transaction that also stores the last one's number. */
  onEvents(tx: Tx, nodeId: string, events: readonly HappenedEvent[]): Promise<void>
  /** The handshake is over: commands and requests flow. Also called when a connection replaces another. */
  onOnline(nodeId: string): Promise<void>
  /** The node has no connection any more; also when the daemon itself ends it. */
  onOffline(nodeId: string): Promise<void>
  /** Console lines; must not wait. */
  onConsole(nodeId: string, frame: FrameOf<'console'>): void
  onConsoleGap(nodeId: string, frame: FrameOf<'console.gap'>): void
  onStats(nodeId: string, usage: readonly ServerUsage[]): void
  /** The usage of the machine itself; must not wait. */
  onHealth(nodeId: string, health: NodeHealth): void
  /** How far a command is; reports may be missing. Must not wait. */
  onCommandProgress(nodeId: string, frame: FrameOf<'command.progress'>): void
  /**
   * The commands as they go over the wire, with the present specification, in their order. `gone`: it has lost its server; `unknown`:
   * a newer daemon has written it; `failure`: it cannot be made of what is stored, which is a bug. All these fail.
   */
  commandFrames(rows: readonly QueuedCommand[]): Promise<(WireCommand | Unsendable)[]>
}
