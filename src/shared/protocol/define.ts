import { z } from 'zod'
import { ServerSpec } from './server-spec.ts'

/**
 * What an agent can do beyond the envelope, as it says it in its `hello`: an area of definitions with its version. A definition
 * that older agents do not know gets a new one, so that the daemon can refuse it before anything is sent.
 */
export const CAPABILITIES = [
  'servers@1',
  'console@1',
  'node@1',
  'files@1',
  'files@2',
  'files-bytes@1',
  'console-export@1',
  'server-life@1',
  'startup@1',
  'servers.rebuild@1',
  'console-kinds@1',
  'mounts@1',
  'backups@1',
  'backups-whole@1',
  'sftp@1',
  'file-paths@1',
  'migration@1',
] as const
export type Capability = (typeof CAPABILITIES)[number]

/** What every agent of this protocol version can do, also one whose `hello` says nothing of capabilities. */
export const BASE_CAPABILITIES: readonly Capability[] = ['servers@1', 'console@1', 'node@1']

const REQUEST_MS = 5_000

/** The result of what answers nothing: whatever comes is dropped. */
export const Nothing = z.unknown().transform((): void => undefined)

interface Common<Op extends string> {
  /** `<area>.<verb>`, or for commands the verb alone; unique among its kind, and what stands on the wire. */
  readonly op: Op
  /** The capability that an agent needs to know it. */
  readonly capability: Capability
  /** Its end can be asked for: by the caller's signal for a request, by `gateway.cancelCommand` for a command. */
  readonly cancels: boolean
}

type InputShape = z.core.$ZodLooseShape
type OpShape<Op extends string> = { op: z.ZodLiteral<Op> }

/** What the daemon asks an agent and waits for. On the wire its input lies beside `op`. */
export interface RequestDefinition<
  Op extends string = string,
  Shape extends InputShape = InputShape,
  Result extends z.ZodType = z.ZodType,
  Progress extends z.ZodType = z.ZodType,
> extends Common<Op> {
  readonly kind: 'request'
  readonly input: z.ZodObject<Shape>
  readonly result: Result
  /** What it reports on its way; lossy, newer reports replace older ones. */
  readonly progress: Progress
  /** How long it may take without an answer or a report. */
  readonly timeoutMs: number
  /** Input and `op`, as they stand on the wire. */
  readonly wire: z.ZodObject<OpShape<Op> & Shape>
}

/** Declares a request. Defaults: no input, no result, no progress, 5 s, no cancel. */
export function defineRequest<
  const Op extends string,
  Shape extends InputShape = Record<never, never>,
  Result extends z.ZodType = typeof Nothing,
  Progress extends z.ZodType = z.ZodNever,
>(def: {
  readonly op: Op
  readonly capability: Capability
  readonly input?: Shape
  readonly result?: Result
  readonly progress?: Progress
  readonly timeoutMs?: number
  readonly cancels?: boolean
}): RequestDefinition<Op, Shape, Result, Progress> {
  const { input = {}, result = Nothing, progress = z.never(), timeoutMs = REQUEST_MS, cancels = false } = def
  const { op, capability } = def
  const schemas = { input: z.object(input), result, progress, wire: z.object({ op: z.literal(op), ...input }) }
  return { kind: 'request', op, capability, cancels, timeoutMs, ...schemas } as never // the defaults stand where the type parameters have theirs
}

/**
 * An order to an agent that is carried out at most once per id, also over restarts of the agent. `args` is what the daemon keeps
 * of it; the specification of its server, where it needs one, is added when it is sent.
 */
export interface CommandDefinition<
  Op extends string = string,
  Args extends InputShape = InputShape,
  WithSpec extends boolean = boolean,
  Result extends z.ZodType = z.ZodType,
  Progress extends z.ZodType = z.ZodType,
> extends Common<Op> {
  readonly kind: 'command'
  readonly args: z.ZodObject<Args>
  readonly withSpec: WithSpec
  readonly result: Result
  readonly progress: Progress
  readonly wire: z.ZodObject<OpShape<Op> & Args & (WithSpec extends true ? { spec: typeof ServerSpec } : unknown)>
}

/** Declares a command. Defaults: no arguments, no result, no progress, no cancel. */
export function defineCommand<
  const Op extends string,
  const WithSpec extends boolean,
  Args extends InputShape = Record<never, never>,
  Result extends z.ZodType = typeof Nothing,
  Progress extends z.ZodType = z.ZodNever,
>(def: {
  readonly op: Op
  readonly capability: Capability
  readonly withSpec: WithSpec
  readonly args?: Args
  readonly result?: Result
  readonly progress?: Progress
  readonly cancels?: boolean
}): CommandDefinition<Op, Args, WithSpec, Result, Progress> {
  const { args = {}, result = Nothing, progress = z.never(), cancels = false } = def
  const { op, capability, withSpec } = def
  const spec = withSpec ? { spec: ServerSpec } : {}
  const schemas = { args: z.object(args), result, progress, wire: z.object({ op: z.literal(op), ...args, ...spec }) }
  return { kind: 'command', op, capability, cancels, withSpec, ...schemas } as never // as in defineRequest
}

/** What a caller gives, and a handler gets. */
export type InputOf<D extends RequestDefinition> = z.output<D['input']>

/** What a handler answers, and a caller gets. */
export type ResultOf<D extends RequestDefinition | CommandDefinition> = z.output<D['result']>

/** What is reported on the way. */
export type ProgressOf<D extends RequestDefinition | CommandDefinition> = z.output<D['progress']>

/** A definition's input as it stands on the wire. */
export type WireOf<D extends RequestDefinition | CommandDefinition> = z.output<D['wire']>

/** What the daemon keeps of an order. */
export type OrderOf<D extends CommandDefinition> = D extends CommandDefinition
  ? { readonly op: D['op']; readonly args: z.output<D['args']> }
  : never
