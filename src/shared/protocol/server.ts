import { z } from 'zod'
import { AgentText, AgentId as Id, MOST_REASON } from '../kernel/agent-text.ts'
import { DesiredState, ExitCause, PowerState, ServerActivity } from '../kernel/server-life.ts'
import { LogBounds } from './console.ts'
import { defineCommand, defineRequest, type OrderOf } from './define.ts'
import { GamePlayers } from './game-query.ts'

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

/** The usage of one server; bytes as numbers of MiB, CPU in cores used, counters as decimal text. `null`: not known here. */
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
  /** Who plays, by the game's own answer; `null` or absent: not known. What is no such answer is as none. */
  players: GamePlayers.nullish().catch(null),
})
export type ServerUsage = z.infer<typeof ServerUsage>

/** What was wanted of a server last, for an agent that has forgotten it. */
export const SettledServer = z.object({ serverId: z.string(), generation: z.int(), desired: DesiredState })
export type SettledServer = z.infer<typeof SettledServer>

/** The new specification counts from the next start on. */
export const applySpec = defineCommand({ op: 'apply', capability: 'servers@1', withSpec: true })

export const startServer = defineCommand({ op: 'start', capability: 'servers@1', withSpec: true })

/** `timeoutMs` replaces the time of the stop rule. */
export const restartServer = defineCommand({
  op: 'restart',
  capability: 'servers@1',
  withSpec: true,
  args: { timeoutMs: z.int().optional() },
})

export const stopServer = defineCommand({
  op: 'stop',
  capability: 'servers@1',
  withSpec: false,
  args: { timeoutMs: z.int().optional() },
})

export const killServer = defineCommand({ op: 'kill', capability: 'servers@1', withSpec: false })

/** `thenStart`: start when the installation has succeeded. Cancelled, its script is ended and the installation has failed. */
export const installServer = defineCommand({
  op: 'install',
  capability: 'servers@1',
  withSpec: true,
  args: { wipe: z.boolean().default(false), thenStart: z.boolean().default(false) },
  progress: z.object({ step: z.enum(['emptying', 'script', 'starting']) }),
  cancels: true,
})

/** Also of a server that the node knows nothing of any more. */
export const deleteServer = defineCommand({
  op: 'delete',
  capability: 'servers@1',
  withSpec: false,
  args: { keepFiles: z.boolean() },
  /** How many files and folders were removed. */
  result: z.object({ entries: z.int().min(0) }),
})

/** Every command that the daemon knows. */
export const COMMANDS = [
  applySpec,
  startServer,
  restartServer,
  stopServer,
  killServer,
  installServer,
  deleteServer,
] as const

/** A command as it stands on the wire. */
export const CommandOp = z.discriminatedUnion('op', [
  applySpec.wire,
  startServer.wire,
  restartServer.wire,
  stopServer.wire,
  killServer.wire,
  installServer.wire,
  deleteServer.wire,
])
export type CommandOp = z.infer<typeof CommandOp>

/** The names of commands. */
export type CommandName = CommandOp['op']

/** What the daemon keeps of a command until it is sent: all but the specification. */
export type CommandOrder = OrderOf<(typeof COMMANDS)[number]>

/** These servers' usage comes every 2 s instead of every 15 s. */
export const watchStats = defineRequest({
  op: 'stats.watch',
  capability: 'servers@1',
  input: { serverIds: z.array(z.string()).max(1000) },
})
