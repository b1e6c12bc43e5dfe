import { z } from 'zod'
import { AgentText, AgentId as Id } from '../kernel/agent-text.ts'
import { PowerState } from '../kernel/server-life.ts'
import { AgentError } from './agent-error.ts'
import { ConsoleLine } from './console.ts'
import { NodeHealth, NodeMachine, RuntimeReport } from './node.ts'
import { ServerReport, ServerUsage, SettledServer } from './server.ts'
import { SftpReport } from './sftp.ts'

/**
 * The envelope of the gateway protocol between daemon and agent: JSON text frames over one WebSocket that the agent opens. What
 * requests and commands carry is declared beside it, one file per area. Unknown fields are stripped, unknown types ignored and
 * unknown requests and commands refused, so that the next version can add all of them.
 *
 * Order: hello → welcome → snapshot → snapshot.ok; then commands and requests flow down, events and console lines up.
 */
export const GATEWAY_PROTOCOL = 1

/** The WebSocket subprotocol that an agent offers and the daemon takes. */
export const SUBPROTOCOL = `panel-agent.v${GATEWAY_PROTOCOL}`
/** The route of the upgrade; node credentials are checked before the 101. */
export const GATEWAY_PATH = '/api/gateway/v1'
/** Headers that carry a node's credentials. */
export const NODE_ID_HEADER = 'x-node-id'
export const NODE_KEY_HEADER = 'x-node-api-key'

/** Limits both ends rely on; bytes and milliseconds. */
export const GATEWAY_LIMITS = {
  maxFrameBytes: 1024 * 1024,
  pingMs: 10_000,
  deadMs: 30_000,
  helloMs: 5_000,
  /** A command that was not accepted by then is sent again. */
  acceptMs: 5_000,
  /** Reports on the way of one request or command come at most this often. */
  progressMs: 500,
  /** Console bytes of one server that may be under way without an acknowledgement. */
  consoleWindowBytes: 512 * 1024,
  consoleFlushBytes: 64 * 1024,
  /** The time from one frame of lines to the next, unless the daemon wants them less often (at least every second). */
  consoleFlushMs: 10,
  consoleSlowFlushMs: 1000,
  /** The agent stops reading console logs while more than this waits in its socket. */
  socketPauseBytes: 1024 * 1024,
  outboxBytes: 64 * 1024 * 1024,
} as const

/** Why a daemon closed the socket; any other code means: try again with back-off. */
export const GATEWAY_CLOSE = { protocolError: 4400, keyRevoked: 4401, replaced: 4409, version: 4426 } as const

/** A durable fact, kept by the agent until the daemon has acknowledged it. */
export const AgentEvent = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('server.state'),
    report: ServerReport,
    previous: PowerState,
    commandId: Id.nullable(),
  }),
  z.object({
    type: z.literal('command.done'),
    commandId: Id,
    serverId: Id,
    ok: z.boolean(),
    /** The goal already held; nothing was done. */
    noop: z.boolean(),
    error: AgentError.nullable(),
    /** As the command's definition says; absent from agents that answer none, and of a failure. */
    result: z.unknown().optional(),
  }),
])
export type AgentEvent = z.infer<typeof AgentEvent>

/** Frames from agent to daemon. */
export const AgentFrame = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('hello'),
    protocol: z.int(),
    agentVersion: AgentText(64),
    bootId: z.string().max(64),
    /** Changes when the agent's journal was lost: what was accepted before is then unknown to it. */
    journalId: z.string().max(64),
    hostname: AgentText(255),
    os: AgentText(200),
    arch: AgentText(32),
    cpus: z.int(),
    memoryMb: z.int(),
    diskMb: z.int(),
    addresses: z.array(AgentText(64)).max(256),
    runtimes: z.array(RuntimeReport).max(8),
    /** The number of the last event written; 0 when there never was one. */
    lastEvent: z.int().min(0),
    /** The number of the last event that a daemon has acknowledged: those up to it are not sent again. */
    acknowledged: z.int().min(0).optional(),
    /** The journal is there and has lost a part: something that was promised may be unknown. */
    journalDamaged: z.boolean().optional(),
    /** Distinguishes this machine from another one that has a copy of the node's key. */
    machine: NodeMachine.optional(),
    /** What it can do, beyond what every agent of this protocol can: {@link Capability} and those of newer agents. */
    capabilities: z.array(AgentText(64)).max(64).optional(),
    /** Where it takes SSH connections; absent from agents that take none. */
    sftp: SftpReport.optional().catch(undefined),
  }),
  z.object({
    type: z.literal('snapshot'),
    servers: z.array(ServerReport).max(10_000),
    /** Commands that were accepted and are not done yet. */
    commands: z.array(Id).max(10_000),
    /** Folders of servers that no specification belongs to. */
    orphans: z.array(z.string().max(200)).max(10_000),
    /** Servers that were deleted here, and the generation below which no order brings them back. */
    gone: z
      .array(z.object({ serverId: Id, generation: z.int() }))
      .max(10_000)
      .optional(),
    /** The number of the last event that happened before this snapshot was taken; what it says is true right behind that one. */
    asOf: z.int().min(0).optional(),
    /** Another part follows: the snapshot of a node with many servers does not fit into one frame. */
    more: z.literal(true).optional(),
  }),
  z.object({ type: z.literal('event'), seq: z.int().min(1), ageMs: z.number().min(0), event: AgentEvent }),
  z.object({ type: z.literal('command.accepted'), id: Id }),
  z.object({
    type: z.literal('reply'),
    id: Id,
    error: AgentError.nullable(),
    result: z.unknown(),
  }),
  /** How far a request is; newer ones replace older ones, and any may be missing. */
  z.object({ type: z.literal('request.progress'), id: Id, progress: z.unknown() }),
  /** The same of a command. */
  z.object({ type: z.literal('command.progress'), id: Id, serverId: Id, progress: z.unknown() }),
  z.object({
    type: z.literal('console'),
    serverId: Id,
    epoch: Id,
    lines: z.array(ConsoleLine).max(5000),
    /** The newest line of the log, where these are not up to it. */
    last: z.int().min(1).optional(),
  }),
  z.object({
    type: z.literal('console.gap'),
    serverId: Id,
    epoch: Id,
    from: z.int().min(1),
    to: z.int().min(1),
  }),
  z.object({ type: z.literal('stats'), servers: z.array(ServerUsage).max(1000) }),
  z.object({ type: z.literal('health'), health: NodeHealth }),
])
export type AgentFrame = z.infer<typeof AgentFrame>

/** The name of a request or command with its input beside it; its definition says what else is there. */
export const Operation = z.looseObject({ op: z.string().max(64) })
export type Operation = z.infer<typeof Operation>

/** Frames from daemon to agent. */
export const DaemonFrame = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('welcome'),
    protocol: z.int(),
    daemonVersion: z.string(),
    /** The number of the last event that the daemon has stored; the agent sends those after it. */
    eventAck: z.int().min(0),
  }),
  /**
   * The snapshot is taken; `unknown` are servers that this daemon has no record of (they run on and are listed). `ended` are
   * those of the snapshot's commands that are over. `settled` is what the daemon knows better of servers whose agent has
   * forgotten something: what is wanted of them, and at which generation.
   */
  z.object({
    type: z.literal('snapshot.ok'),
    unknown: z.array(z.string()),
    ended: z.array(z.string()).optional(),
    settled: z.array(SettledServer).optional(),
  }),
  z.object({ type: z.literal('event.ack'), seq: z.int().min(0) }),
  z.object({
    type: z.literal('command'),
    id: z.string(),
    serverId: z.string(),
    generation: z.int(),
    command: Operation,
  }),
  /** Ends a command whose definition says that it can be. One that is over, or unknown, stays as it is. */
  z.object({ type: z.literal('command.cancel'), id: z.string(), serverId: z.string() }),
  z.object({ type: z.literal('request'), id: z.string(), request: Operation }),
  /** Nobody waits for the answer any more. */
  z.object({ type: z.literal('request.cancel'), id: z.string() }),
  z.object({
    type: z.literal('console.ack'),
    serverId: z.string(),
    epoch: z.string(),
    seq: z.int(),
    /** How often lines are wanted: as often as they are passed on. */
    everyMs: z.int().min(0).optional(),
  }),
  z.object({
    type: z.literal('error'),
    error: z.string(),
    message: z.string(),
    retryAfterSeconds: z.number().optional(),
  }),
])
export type DaemonFrame = z.infer<typeof DaemonFrame>
