import { z } from 'zod'
import { AgentText, AgentId as Id, MOST_REASON } from '../kernel/agent-text.ts'
import { DesiredState, ExitCause, PowerState, ServerActivity } from '../kernel/server-life.ts'
import { ServerSpec } from './server-spec.ts'

/**
 * The gateway protocol between daemon and agent: JSON text frames over one WebSocket that the agent opens. Unknown fields are stripped, unknown types ignored, so that the next version can
 * add both.
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

/** Figures both ends rely on; bytes and milliseconds. */
export const GATEWAY_LIMITS = {
  maxFrameBytes: 1024 * 1024,
  pingMs: 10_000,
  deadMs: 30_000,
  helloMs: 5_000,
  /** A command that was not accepted by then is sent again. */
  acceptMs: 5_000,
  requestMs: 5_000,
  /** Console bytes of one server that may be under way without an acknowledgement. */
  consoleWindowBytes: 512 * 1024,
  consoleFlushBytes: 64 * 1024,
  consoleFlushMs: 10,
  /** The agent stops reading console logs while more than this waits in its socket. */
  socketPauseBytes: 1024 * 1024,
  outboxBytes: 64 * 1024 * 1024,
} as const

/** Why a daemon closed the socket; any other code means: try again with back-off. */
export const GATEWAY_CLOSE = { protocolError: 4400, keyRevoked: 4401, replaced: 4409, version: 4426 } as const

/** Where a console line came from: the game's two outputs, what was typed, and the panel's own remarks. */
export const LineStream = z.enum(['stdout', 'stderr', 'stdin', 'system'])
export type LineStream = z.infer<typeof LineStream>

/** Bits of a line's flags: the text had no end of line yet, or was longer than 16 KiB and cut. */
export const LINE_PARTIAL = 1
export const LINE_TRUNCATED = 2

/** One console line: number, milliseconds since the epoch (the node's clock), origin, text without its end, flags. */
export const ConsoleLine = z.tuple([z.int().min(1), z.number(), LineStream, z.string(), z.int().min(0)])
export type ConsoleLine = z.infer<typeof ConsoleLine>

/**
 * What a server's log holds: numbers run without a hole from `first` to `last`; `last` = `first` - 1 when it is empty.
 * `epochs` are those of the lines that it holds, oldest first, each with its first line: a log that may have lost its end
 * goes on under another epoch, whose numbers may have been given before.
 */
export const LogBounds = z.object({
  epoch: Id,
  first: z.int().min(1),
  last: z.int().min(0),
  epochs: z
    .array(z.object({ epoch: Id, first: z.int().min(1) }))
    .max(64)
    .optional(),
})
export type LogBounds = z.infer<typeof LogBounds>

/** How a process ended. `expected`: by an order, or by its own clean end where the policy does not call that a crash. */
export const ServerExit = z.object({
  code: z.int().nullable(),
  signal: AgentText(32).nullable(),
  oom: z.boolean(),
  expected: z.boolean(),
  uptimeMs: z.number(),
  /** Absent from an agent that does not say it; a cause that this program does not know is `unknown`. */
  cause: ExitCause.optional().catch('unknown'),
  /** The cause as a sentence for people. */
  message: AgentText(MOST_REASON).optional(),
})
export type ServerExit = z.infer<typeof ServerExit>

/** Codes of a failure on a node; `errors.ts` says which API code each becomes. */
export const AgentErrorCode = z.enum([
  'BAD_REQUEST', 'UNSUPPORTED', 'UNKNOWN_SERVER', 'STALE_GENERATION', 'SUSPENDED', 'CONFLICT_STATE', 'NOT_RUNNING',
  'PORT_IN_USE', 'ADDRESS_UNAVAILABLE', 'SPAWN_FAILED', 'EXITED_EARLY', 'INSTALL_FAILED', 'NO_SPACE', 'TIMEOUT', 'INTERRUPTED',
  'INTERNAL',
]) // biome-ignore format: a list
export type AgentErrorCode = z.infer<typeof AgentErrorCode>

/** A failure on a node: `message` is a sentence for people. */
export const AgentError = z.object({ code: AgentErrorCode, message: AgentText(2000) })
export type AgentError = z.infer<typeof AgentError>

/** All that an agent knows of one server; the same in snapshots and state events. Ages and durations, no instants. */
export const ServerReport = z.object({
  serverId: Id,
  generation: z.int(),
  power: PowerState.exclude(['unknown']),
  /** How long the process has been alive; `null` without one. */
  uptimeMs: z.number().nullable(),
  pid: z.int().nullable(),
  activity: ServerActivity.nullable(),
  installed: z.boolean(),
  /** The last install failed, with the reason. */
  installError: AgentText(MOST_REASON).nullable(),
  /**
   * Why it is not as desired: why the last start failed, why the last process ended badly, what a starting server waits for,
   * or that nothing of a running one listens on its port.
   */
  reason: AgentText(MOST_REASON).nullable(),
  lastExit: ServerExit.nullable(),
  crash: z.object({ count: z.int(), crashed: z.boolean(), nextRestartMs: z.number().nullable() }),
  console: LogBounds,
})
export type ServerReport = z.infer<typeof ServerReport>

/** What an agent is told to do. Each is carried out at most once per id, also over restarts of the agent. */
export const CommandOp = z.discriminatedUnion('op', [
  z.object({ op: z.literal('apply'), spec: ServerSpec }),
  z.object({ op: z.literal('start'), spec: ServerSpec }),
  z.object({ op: z.literal('restart'), spec: ServerSpec, timeoutMs: z.int().optional() }),
  z.object({ op: z.literal('stop'), timeoutMs: z.int().optional() }),
  z.object({ op: z.literal('kill') }),
  /** `thenStart`: start when the installation has succeeded. */
  z.object({ op: z.literal('install'), spec: ServerSpec, wipe: z.boolean(), thenStart: z.boolean() }),
  z.object({ op: z.literal('delete'), keepFiles: z.boolean() }),
])
export type CommandOp = z.infer<typeof CommandOp>

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
  }),
])
export type AgentEvent = z.infer<typeof AgentEvent>

/** The figures of one server; bytes as numbers of MiB, CPU in cores used, counters as decimal text. `null`: not known here. */
export const ServerUsage = z.object({
  serverId: Id,
  cpuCores: z.number().nullable(),
  memoryMb: z.number().nullable(),
  diskMb: z.number().nullable(),
  ioReadBytes: z.string().nullable(),
  ioWriteBytes: z.string().nullable(),
  networkRxBytes: z.string().nullable(),
  networkTxBytes: z.string().nullable(),
  processes: z.int().nullable(),
  uptimeMs: z.number().nullable(),
})
export type ServerUsage = z.infer<typeof ServerUsage>

/** The figures of a node, every 10 s. */
export const NodeHealth = z.object({
  cpuPercent: z.number(),
  load1: z.number(),
  memoryUsageMb: z.number(),
  memoryTotalMb: z.number(),
  diskUsageMb: z.number(),
  diskTotalMb: z.number(),
  networkRxBytes: z.string(),
  networkTxBytes: z.string(),
  uptimeSeconds: z.number(),
  runningServers: z.int(),
})
export type NodeHealth = z.infer<typeof NodeHealth>

/** A runtime that a node offers, or why it does not. `isolation: none` stands among the capabilities where servers share a user. */
export const RuntimeReport = z.object({
  name: z.enum(['process', 'docker']),
  version: AgentText(64),
  ok: z.boolean(),
  reason: AgentText(MOST_REASON).nullable(),
  capabilities: z.array(AgentText(64)).max(32),
})
export type RuntimeReport = z.infer<typeof RuntimeReport>

/** A machine by what a copy of its data folder does not take along. `id`: of this installation, `null` where it has none. */
export const NodeMachine = z.object({ id: z.string().max(64).nullable(), bootId: z.string().max(64) })
export type NodeMachine = z.infer<typeof NodeMachine>

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
    /** Tells this machine from another one that was given a copy of the node's key. */
    machine: NodeMachine.optional(),
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
  z.object({
    type: z.literal('console'),
    serverId: Id,
    epoch: Id,
    lines: z.array(ConsoleLine).max(5000),
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

/** What the daemon asks an agent and waits for; the answer is a `reply` with the same id. */
export const AgentRequest = z.discriminatedUnion('op', [
  /** Typed lines; answered when the holder has them in the game's stdin. */
  z.object({
    op: z.literal('console.input'),
    serverId: z.string(),
    lines: z.array(z.string().max(4096)).min(1).max(20),
  }),
  /** Lines after `after` (of `epoch`) from now on, or the last `tail` ones and all that follow. Result: {@link LogBounds}. */
  z.object({
    op: z.literal('console.subscribe'),
    serverId: z.string(),
    epoch: z.string().optional(),
    after: z.int().min(0).optional(),
    tail: z.int().min(0).max(5000).optional(),
  }),
  z.object({ op: z.literal('console.unsubscribe'), serverId: z.string() }),
  /** At most `max` lines and 512 KiB after `after` (oldest first) or before `before` (the newest of those, oldest first). */
  z.object({
    op: z.literal('console.fetch'),
    serverId: z.string(),
    after: z.int().min(0).optional(),
    before: z.int().min(1).optional(),
    max: z.int().min(1).max(5000),
  }),
  /** Whether TCP and UDP of each address can be bound now. Result: {@link PortsResult}. */
  z.object({ op: z.literal('ports.check'), ports: z.array(z.object({ ip: z.string(), port: z.int() })).max(200) }),
  /** What the node has beside these: servers of the daemon, and those of earlier answers. Result: {@link OrphansResult}. */
  z.object({ op: z.literal('orphans.list'), known: z.array(z.string().max(64)).max(20_000) }),
  /** All that the node knows of one server. Result: {@link OrphanResult}. */
  z.object({ op: z.literal('orphans.describe'), serverId: z.string().max(64) }),
  /** These servers' figures come every 2 s instead of every 15 s. */
  z.object({ op: z.literal('stats.watch'), serverIds: z.array(z.string()).max(1000) }),
])
export type AgentRequest = z.infer<typeof AgentRequest>

/** Answer of `console.fetch`. */
export const FetchResult = LogBounds.extend({ lines: z.array(ConsoleLine) })
export type FetchResult = z.infer<typeof FetchResult>

/** A server, or what is left of one, that a node has. */
export const OrphanReport = z.object({
  serverId: Id,
  /** `null`: nothing but folders is left. */
  name: AgentText(200).nullable(),
  power: PowerState.exclude(['unknown']),
  pid: z.int().nullable(),
  /** Orders must be newer to be carried out. */
  generation: z.int(),
  hasFiles: z.boolean(),
})
export type OrphanReport = z.infer<typeof OrphanReport>

/** Answer of `orphans.list`; `more`: there are others. */
export const OrphansResult = z.object({ orphans: z.array(OrphanReport).max(500), more: z.boolean() })
export type OrphansResult = z.infer<typeof OrphansResult>

/** Answer of `orphans.describe`; `spec` and `report` are `null` where nothing but folders is there, `orphan` where nothing is. */
export const OrphanResult = z.object({
  spec: ServerSpec.nullable(),
  report: ServerReport.nullable(),
  orphan: OrphanReport.nullable(),
})
export type OrphanResult = z.infer<typeof OrphanResult>

/** Answer of `ports.check`: the taken ones with the reason. */
export const PortsResult = z.object({
  taken: z.array(z.object({ ip: AgentText(64), port: z.int(), code: AgentErrorCode, message: AgentText(500) })),
})
export type PortsResult = z.infer<typeof PortsResult>

/** What was wanted of a server last, for an agent that has forgotten it. */
export const SettledServer = z.object({ serverId: z.string(), generation: z.int(), desired: DesiredState })
export type SettledServer = z.infer<typeof SettledServer>

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
    command: CommandOp,
  }),
  z.object({ type: z.literal('request'), id: z.string(), request: AgentRequest }),
  z.object({ type: z.literal('console.ack'), serverId: z.string(), epoch: z.string(), seq: z.int() }),
  z.object({
    type: z.literal('error'),
    error: z.string(),
    message: z.string(),
    retryAfterSeconds: z.number().optional(),
  }),
])
export type DaemonFrame = z.infer<typeof DaemonFrame>
