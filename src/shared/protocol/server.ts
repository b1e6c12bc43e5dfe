import { z } from 'zod'
import { AgentLines, AgentText, AgentId as Id, MOST_REASON } from '../kernel/agent-text.ts'
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

/** An agreement that a game waits for. `asked` counts how often it was asked for: once more with each start that was refused. */
export const PendingEula = z.object({
  state: z.enum(['pending', 'declined']),
  file: AgentText(300),
  /** What the file says. */
  text: AgentLines(8192),
  asked: z.int().min(0),
})
export type PendingEula = z.infer<typeof PendingEula>

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
  /** Absent from an agent that knows no agreements. */
  eula: PendingEula.nullable().optional(),
})
export type ServerReport = z.infer<typeof ServerReport>

/** What holds a server to its disk limit: the kernel by a quota, or the agent's own look at its files. */
export const DiskEnforced = z.enum(['kernel', 'watch'])
export type DiskEnforced = z.infer<typeof DiskEnforced>

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
  /** Absent from an agent that does not say it, and before its first look. */
  diskEnforced: DiskEnforced.optional().catch(undefined),
  /** Who plays, by the game's own answer; `null` or absent: not known. What is no such answer is as none. */
  players: GamePlayers.nullish().catch(null),
})
export type ServerUsage = z.infer<typeof ServerUsage>

/** What was wanted of a server last, for an agent that has forgotten it. */
export const SettledServer = z.object({ serverId: z.string(), generation: z.int(), desired: DesiredState })
export type SettledServer = z.infer<typeof SettledServer>

/**
 * The new specification counts from the next start on; memory, processors and processes of a living game at once, where its runtime
 * can. Older agents answer nothing: with them everything waits.
 */
export const applySpec = defineCommand({
  op: 'apply',
  capability: 'servers@1',
  withSpec: true,
  result: z
    .object({ appliesAt: z.enum(['now', 'next-start']), reason: AgentText(MOST_REASON).nullable() })
    .optional()
    .catch(undefined),
})

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

/**
 * Fetches what the next run is made of anew (the image of a container) and removes what stopped runs have left; the files stay.
 * `thenStart`: start when that has succeeded. Cancelled, nothing has changed but what was fetched.
 */
export const rebuildServer = defineCommand({
  op: 'rebuild',
  capability: 'servers.rebuild@1',
  withSpec: true,
  args: { thenStart: z.boolean().default(false) },
  progress: z.discriminatedUnion('step', [
    z.object({ step: z.literal('pulling'), doneBytes: z.number(), totalBytes: z.number() }),
    z.object({ step: z.literal('starting') }),
  ]),
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

/** The crashes so far are forgiven: they neither count nor lengthen a pause any more. */
export const resetCrashes = defineCommand({ op: 'reset-crashes', capability: 'server-life@1', withSpec: false })

/** Every command that the daemon knows. */
export const COMMANDS = [
  applySpec,
  startServer,
  restartServer,
  stopServer,
  killServer,
  installServer,
  rebuildServer,
  deleteServer,
  resetCrashes,
] as const

/** A command as it stands on the wire. */
export const CommandOp = z.discriminatedUnion('op', [
  applySpec.wire,
  startServer.wire,
  restartServer.wire,
  stopServer.wire,
  killServer.wire,
  installServer.wire,
  rebuildServer.wire,
  deleteServer.wire,
  resetCrashes.wire,
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

/** Somebody agrees, and the line is written into the game's file, or declines. CONFLICT_STATE where nothing is asked. */
export const answerEula = defineRequest({
  op: 'server.eula',
  capability: 'server-life@1',
  input: { serverId: z.string(), accepted: z.boolean() },
})
