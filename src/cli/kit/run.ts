import type { Client } from '../../shared/client.ts'
import { systemClock } from '../../shared/kernel/clock.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import { type Connection, connect } from '../net/http.ts'
import type { StreamOpener } from '../net/stream.ts'
import type { Roles } from '../roles.ts'
import { VERSION } from '../version.ts'
import type { Args } from './args.ts'
import type { Command, Tree } from './command.ts'
import type { Environment } from './environment.ts'
import { CliFailure, usage } from './failure.ts'
import { FORMATS, type Format } from './flags.ts'
import { createPaint, wantsColour } from './output/colour.ts'
import { parseFields } from './output/fields.ts'
import { Output } from './output/output.ts'
import { type Reach, reachOf, resolveTarget, signInHint, type Target } from './profile/target.ts'
import { createPrompt, type Prompt } from './prompt.ts'
import type { Terminal } from './terminal.ts'

/** Node's timers end at once when they are given more. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

/** Everything that an action works with. */
export interface Run {
  readonly command: Command
  /** All commands. */
  readonly tree: () => Promise<Tree>
  readonly path: readonly string[]
  readonly args: Args
  readonly env: Environment
  readonly out: Output
  readonly terminal: Terminal
  readonly prompt: Prompt
  readonly clock: Clock
  readonly roles: Roles
  /** Aborts at SIGINT and SIGTERM. */
  readonly signal: AbortSignal
  /** A notice on stderr; silent with `--quiet`. */
  notice(text: string): void
  /** The panel in force; exit 4 when none is chosen. */
  target(): Promise<Target>
  /** The typed client of that panel; with `needsToken` (the default) exit 4 when there is no credential. */
  client(options?: { readonly needsToken?: boolean }): Promise<Client>
  streams(): Promise<StreamOpener>
  connection(): Promise<Connection>
  /** A connection to another panel or with another credential; what a context with this URL trusts is trusted. */
  connectTo(url: string, token: string | undefined): Promise<Connection>
  /** How `connectTo` reaches a URL. */
  reach(url: string): Promise<Reach>
  /** Trusts a panel on this machine that runs as this user, for the rest of this run. */
  acceptListener(uid: number): void
  /** The Idempotency-Key of this run; `part` distinguishes several requests of it. */
  idempotencyKey(part?: string): string
  close(): Promise<void>
}

/** What a run is made of. */
export interface RunParts {
  readonly command: Command
  readonly tree: () => Promise<Tree>
  readonly path: readonly string[]
  readonly args: Args
  readonly env: Environment
  readonly terminal: Terminal
  readonly roles: Roles
  readonly signal: AbortSignal
}

/** Sets up a run. Nothing is read or connected before it is asked for. */
export function createRun(parts: RunParts): Run {
  const { args, env, terminal, signal } = parts
  const clock = systemClock
  const opened: Promise<Connection>[] = []
  let accepted: number | undefined
  const flags = () => ({
    context: args.globalText('context'),
    url: args.globalText('url'),
    caFile: args.globalText('ca-file'),
    listenerUid: args.integer('listener-uid') ?? accepted,
    insecureHttp: args.flag('insecure-http'),
  })
  const target = once(async () => resolveTarget(env, flags()))
  const reach = async (url: string): Promise<Reach> => reachOf(env, flags(), url)
  const connectBy = async (way: Reach, token: string | undefined): Promise<Connection> => {
    const connection = connect({
      ...way,
      token,
      insecure: args.flag('insecure-skip-tls-verify'),
      requestTimeoutMs: requestTimeoutOf(args),
      retries: args.integer('retries') ?? 3,
      userAgent: `panel-cli/${VERSION} node/${process.versions.node}`,
      clock,
      signal,
      trace: tracer(parts),
    })
    opened.push(connection)
    return connection
  }
  const connection = once(async () => {
    const { token, ...way } = await target()
    return connectBy(way, token)
  })
  const pager = once(async () => {
    const { createPager } = await import('./pager.ts')
    return createPager(parts)
  })
  const paged =
    parts.command.paged === true &&
    terminal.stdout.isTTY === true &&
    args.choice('pager') !== false &&
    env.pager !== undefined
  // Made when it is needed: it looks at stdin, which most commands do without.
  const prompt = once(() => createPrompt(terminal, env, args))
  const key = once(() => args.text('idempotency-key') ?? crypto.randomUUID())
  return {
    ...parts,
    clock,
    out: createOutput(parts, clock, paged ? async (text) => (await pager()).write(text) : terminal.write),
    get prompt() {
      return prompt()
    },
    notice: (text) => {
      if (!args.flag('quiet')) terminal.say(text)
    },
    target,
    connection,
    reach,
    acceptListener: (uid) => {
      accepted = uid
    },
    connectTo: async (url, token) => connectBy(await reach(url), token),
    client: async (options) => {
      if (options?.needsToken !== false) requireToken(await target())
      return (await connection()).client
    },
    streams: async () => {
      requireToken(await target())
      return (await connection()).streams
    },
    idempotencyKey: (part) => (part === undefined ? key() : `${key()}.${part}`),
    close: async () => {
      if (paged) await (await pager()).close()
      const connections = await Promise.allSettled(opened)
      await Promise.all(connections.map((it) => (it.status === 'fulfilled' ? it.value.close() : undefined)))
    },
  }
}

function requestTimeoutOf(args: Args): number {
  const ms = args.duration('request-timeout') ?? 30_000
  if (ms === 0) throw usage('--request-timeout 0 leaves no time for an answer')
  return Math.min(ms, LONGEST_TIMER_MS)
}

/** `--debug` shows everything, `--verbose` only what came of each request. */
function tracer({ args, env, terminal }: RunParts): ((line: string) => void) | undefined {
  if (args.flag('debug') || env.debug) return terminal.say
  if (!args.flag('verbose')) return undefined
  return (line) => {
    if (!line.startsWith('>')) terminal.say(line)
  }
}

function requireToken(target: Target): void {
  if (target.token !== undefined) return
  throw new CliFailure('NOT_SIGNED_IN', `you are not signed in to ${target.url}`, { hint: signInHint(target) })
}

function createOutput({ args, env, terminal }: RunParts, clock: Clock, write: Terminal['write']): Output {
  const colour = wantsColour(env, terminal.stdout, {
    color: args.text('color'),
    noColor: args.choice('color') === false,
  })
  return new Output({
    format: chosenFormat(args, env),
    fields: parseFields(args.text('json') ?? ''),
    jq: args.text('jq'),
    header: args.choice('header') !== false,
    columns: args
      .text('columns')
      ?.split(',')
      .map((name) => name.trim()),
    terminal: terminal.stdout.isTTY === true,
    style: { nowMs: () => clock.nowMs(), utc: args.flag('utc'), paint: createPaint(colour) },
    write,
  })
}

/** The format by flag, else by PANEL_OUTPUT, else a table. */
export function chosenFormat(args: Args, env: Environment): Format {
  const wanted = args.text('output') ?? (args.flag('json') || args.text('jq') !== undefined ? 'json' : env.output)
  if (wanted === undefined) return 'table'
  const format = FORMATS.find((known) => known === wanted)
  if (format === undefined) throw usage(`unknown output format '${wanted}'`, `one of ${FORMATS.join(', ')}`)
  return format
}

function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}
