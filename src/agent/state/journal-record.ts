import { z } from 'zod'
import { DesiredState } from '../../shared/kernel/server-life.ts'
import { AgentError } from '../../shared/protocol/agent-error.ts'
import { AgentEvent } from '../../shared/protocol/frames.ts'
import { CommandOp, PendingEula, ServerExit } from '../../shared/protocol/server.ts'
import { ServerSpec } from '../../shared/protocol/server-spec.ts'
import { RconPlace, rconOf } from '../console/rcon/rcon-place.ts'

/** What of its specification a run goes by until it ends: an edit counts from the next start on. */
export const RunRules = ServerSpec.pick({ stop: true, done: true, stripAnsi: true, listens: true, ports: true }).extend(
  {
    /** Where its typed lines go; absent: into its input. */
    console: ServerSpec.shape.console.pick({ input: true }).optional(),
    /** Where its RCON is, by the values of its start. */
    rcon: RconPlace.optional(),
  },
)
export type RunRules = z.infer<typeof RunRules>

/** The run that was begun last. It is written down before its process starts, so that it is never started twice. */
export const LaunchFacts = z.object({
  id: z.string(),
  kind: z.enum(['game', 'install']),
  /** The machine's boot in which it began. */
  bootId: z.string(),
  /** It has ended, and its exit is taken note of. */
  ended: z.boolean(),
  /** How an installation ended, for an order that is taken up after its script has ended. */
  exit: ServerExit.nullable().default(null),
  /** When it was seen to be up; `null` until then. */
  readyAtMs: z.number().nullable(),
  /** When its stop was ordered; `null` without an order. */
  stopAtMs: z.number().nullable(),
  /** The last step that was taken to end it, and the time that its stop rule had; absent before any. */
  stopStep: z.enum(['rule', 'sigterm', 'sigkill', 'kill']).optional(),
  stopTimeoutMs: z.number().optional(),
  /** When the game had what its stop rule sends: from then on its time counts. Absent before. */
  askedAtMs: z.number().optional(),
  /** Why the game never had it. */
  unasked: z.string().max(500).optional(),
  /** Of a game; absent in journals of older agents. */
  rules: RunRules.optional(),
})
export type LaunchFacts = z.infer<typeof LaunchFacts>

/** What the agent stores of a server beside its specification. */
export const ServerFacts = z.object({
  generation: z.int(),
  desired: DesiredState,
  installed: z.boolean(),
  installError: z.string().nullable(),
  reason: z.string().nullable(),
  lastExit: ServerExit.nullable(),
  launch: LaunchFacts.nullable(),
  /** Instants of the crashes that count, in milliseconds since the epoch. */
  crashes: z.array(z.number()),
  /** Instants of clean ends after which the policy `always` starts it again: they lengthen the pause, and are no crashes. */
  finishes: z.array(z.number()).optional(),
  crashed: z.boolean(),
  nextRestartAtMs: z.number().nullable(),
  /** The machine's boot in which its boot policy was looked at last; absent in journals of older agents. */
  bootId: z.string().optional(),
  eula: PendingEula.nullable().optional(),
})
export type ServerFacts = z.infer<typeof ServerFacts>

/** How a command ended. */
export const CommandResult = z.object({
  ok: z.boolean(),
  noop: z.boolean(),
  error: AgentError.nullable(),
  result: z.unknown().optional(),
})
export type CommandResult = z.infer<typeof CommandResult>

/** A command that the agent has taken on; `command` is dropped once it is done. */
export const CommandRecord = z.object({
  id: z.string(),
  serverId: z.string(),
  generation: z.int(),
  command: CommandOp.nullable(),
  state: z.enum(['accepted', 'running', 'done']),
  result: CommandResult.nullable(),
  atMs: z.number(),
})
export type CommandRecord = z.infer<typeof CommandRecord>

/** One line of the journal. Each carries the whole new value, so that reading a line twice changes nothing. */
export const JournalRecord = z.discriminatedUnion('k', [
  z.object({
    k: z.literal('head'),
    journalId: z.string(),
    lastSeq: z.int(),
    ack: z.int(),
    atMs: z.number().optional(),
  }),
  z.object({ k: z.literal('spec'), spec: ServerSpec }),
  z.object({ k: z.literal('facts'), serverId: z.string(), facts: ServerFacts }),
  z.object({ k: z.literal('gone'), serverId: z.string(), generation: z.int(), atMs: z.number() }),
  z.object({ k: z.literal('command'), command: CommandRecord }),
  z.object({ k: z.literal('event'), seq: z.int(), atMs: z.number(), event: AgentEvent }),
  z.object({ k: z.literal('ack'), seq: z.int() }),
  z.object({ k: z.literal('renumber'), from: z.int() }),
])
export type JournalRecord = z.infer<typeof JournalRecord>

/** The server that a record speaks of; `undefined` for records of the journal itself. */
export function serverOf(record: JournalRecord): string | undefined {
  if (record.k === 'spec') return record.spec.serverId
  if (record.k === 'facts' || record.k === 'gone') return record.serverId
  if (record.k === 'command') return record.command.serverId
  if (record.k !== 'event') return undefined
  return record.event.type === 'server.state' ? record.event.report.serverId : record.event.serverId
}

/** The facts of a server that nothing has happened to yet. */
export function freshFacts(): ServerFacts {
  return {
    generation: 0,
    desired: 'stopped',
    installed: false,
    installError: null,
    reason: null,
    lastExit: null,
    launch: null,
    crashes: [],
    crashed: false,
    nextRestartAtMs: null,
  }
}

/** A run that is about to begin. */
export function newLaunch(id: string, kind: LaunchFacts['kind'], bootId: string): LaunchFacts {
  return { id, kind, bootId, ended: false, exit: null, readyAtMs: null, stopAtMs: null }
}

/** The rules of a run that begins now. */
export function rulesOf(spec: ServerSpec): RunRules {
  const { stop, done, stripAnsi, listens, ports, console } = spec
  const rcon = rconOf(spec)
  return {
    stop,
    done,
    stripAnsi,
    ports,
    ...(listens === undefined ? {} : { listens }),
    ...(console.input === undefined ? {} : { console: { input: console.input } }),
    ...(rcon === undefined ? {} : { rcon }),
  }
}
