import { sql } from 'kysely'
import type { Clock, IsoTime } from '../../shared/kernel/time.ts'
import type { AgentError } from '../../shared/protocol/agent-error.ts'
import { type DaemonFrame, GATEWAY_LIMITS } from '../../shared/protocol/frames.ts'
import type { CommandOp } from '../../shared/protocol/server.ts'
import type { Log } from '../core/log.ts'
import type { Db, Tx } from '../db/db.ts'
import { jsonStatement, statement } from '../db/statement.ts'
import type { GatewayHandlers, QueuedCommand, Unsendable, WireCommand } from './handlers.ts'
import { Pace } from './pace.ts'

type CommandFrame = Extract<DaemonFrame, { type: 'command' }>

/** Commands that may be under way without having been accepted. */
const WINDOW = 600
/** Specifications that are made in one go. */
const FRAMES = 50
/** The longest time between two sendings of a command: an agent that answers nothing is not made to work, nor are we. */
const MAX_WAIT_MS = 60_000
/** Between two looks at the queue of a node that is given orders all the time. */
const PACE_MS = 30

/** A reason of its own: without one Node makes an error with a stack each time. */
const OVER = 'over'

/** When a command went out last, and how long its acceptance is waited for. */
interface Sending {
  readonly atMs: number
  readonly waitMs: number
}

/** What a pump needs. */
export interface PumpDeps {
  readonly nodeId: string
  readonly db: Db
  readonly clock: Clock
  readonly log: Log
  readonly handlers: Pick<GatewayHandlers, 'commandFrames' | 'onEvents'>
  /** Sends a frame, which is JSON already. */
  send(frame: string): void
  /** Resolves when little of what was sent waits for the agent to read it, or when `signal` aborts. */
  room(signal: AbortSignal): Promise<void> | undefined
  /** A command went out: for the first time on this connection, or again. */
  count(kind: 'sent' | 'resent'): void
  /** Why the agent cannot be sent this command; `undefined`: it can. */
  refusal(command: CommandOp): string | undefined
  /** Receives bugs, beside the log. */
  onError(error: unknown): void
}

/**
 * Sends the queued commands of one node over one connection, in order, each again after 5 s, then after twice as long each
 * time up to a minute, until the agent has accepted it.
 * The rows are the queue: nothing is lost when the connection or the daemon goes.
 */
export class CommandPump {
  readonly #deps: PumpDeps
  readonly #sendings = new Map<string, Sending>()
  #wake = (): void => {}
  #woken = false
  /** Whether more may be queued than was read last. */
  #hasMore = true

  constructor(deps: PumpDeps) {
    this.#deps = deps
  }

  /** There may be something new to send. */
  wake(): void {
    this.#woken = true
    this.#wake()
  }

  /** The agent has these; their place is free. */
  accepted(ids: readonly string[]): void {
    for (const id of ids) this.#sendings.delete(id)
    if (ids.length > 0 && this.#hasMore) this.wake()
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, log, nodeId, onError } = this.#deps
    const pace = new Pace(clock, PACE_MS)
    while (!signal.aborted) {
      await pace.next(signal)
      if (signal.aborted) return
      this.#woken = false
      try {
        await this.#sendDue(signal)
      } catch (err) {
        this.#hasMore = true
        if (!signal.aborted) {
          log.error({ err, nodeId }, 'cannot send commands, retrying in 5 s')
          onError(err)
        }
      }
      if (this.#woken) continue
      const turn = new AbortController()
      this.#wake = () => turn.abort(OVER)
      await clock.sleep(this.#untilDueMs(), either(turn, signal))
      turn.abort(OVER)
    }
  }

  /** How long nothing is to be sent again; without anything under way, how long to trust that every order wakes this. */
  #untilDueMs(): number {
    const dueMs = [...this.#sendings.values()].map(({ atMs, waitMs }) => atMs + waitMs)
    if (dueMs.length === 0) return GATEWAY_LIMITS.acceptMs
    return Math.max(0, Math.min(...dueMs) - this.#deps.clock.monotonicMs())
  }

  async #sendDue(signal: AbortSignal): Promise<void> {
    const { db, clock, nodeId } = this.#deps
    this.#hasMore = true
    const rows = await queuedCommands(db.read, { nodeId })
    this.#hasMore = rows.length === WINDOW
    const queued = new Set(rows.map((row) => row.id))
    for (const id of this.#sendings.keys()) if (!queued.has(id)) this.#sendings.delete(id)
    const due = rows.filter((row) => {
      const last = this.#sendings.get(row.id)
      return last === undefined || clock.monotonicMs() - last.atMs >= last.waitMs
    })
    for (let from = 0; from < due.length && !signal.aborted; from += FRAMES) {
      await this.#sendAll(due.slice(from, from + FRAMES), signal)
    }
  }

  async #sendAll(rows: readonly QueuedCommand[], signal: AbortSignal): Promise<void> {
    const commands = await this.#deps.handlers.commandFrames(rows)
    for (const [place, row] of rows.entries()) {
      if (signal.aborted) return
      await this.#send(row, commands[place] ?? 'gone')
      await this.#deps.room(signal)
    }
  }

  async #send(row: QueuedCommand, made: WireCommand | Unsendable): Promise<void> {
    const { clock, log, nodeId, onError } = this.#deps
    const last = this.#sendings.get(row.id)
    if (typeof made === 'object' && 'failure' in made) {
      const { failure: err } = made
      log.error({ err, nodeId, commandId: row.id, serverId: row.serverId }, 'cannot make command, giving up')
      onError(err)
      await this.#fail(row, UNMADE)
      return
    }
    if (made === 'gone' || made === 'unknown') {
      log.warn({ nodeId, commandId: row.id, serverId: row.serverId, why: made }, 'cannot send command, giving up')
      await this.#fail(row, UNSENDABLE[made])
      return
    }
    const refusal = this.#deps.refusal(made.command)
    if (refusal !== undefined) {
      await this.#fail(row, { code: 'UNSUPPORTED', message: refusal })
      return
    }
    const { id, serverId, generation } = row
    const waitMs = last === undefined ? GATEWAY_LIMITS.acceptMs : Math.min(last.waitMs * 2, MAX_WAIT_MS)
    this.#sendings.set(id, { atMs: clock.monotonicMs(), waitMs })
    this.#deps.count(last === undefined ? 'sent' : 'resent')
    const about = JSON.stringify({ type: 'command', id, serverId, generation } satisfies Omit<CommandFrame, 'command'>)
    this.#deps.send(`${about.slice(0, -1)},"command":${made.json}}`)
  }

  /** The end of a command that cannot be sent, as an agent would report it. */
  async #fail({ id: commandId, serverId }: QueuedCommand, error: AgentError): Promise<void> {
    const { db, clock, handlers, nodeId } = this.#deps
    const done = { type: 'command.done' as const, commandId, serverId, ok: false, noop: false, error }
    const at = { receivedMs: clock.nowMs(), ageMs: 0 }
    await db.write((tx) => handlers.onEvents(tx, nodeId, [{ event: done, at }]))
  }
}

const UNSENDABLE = {
  gone: { code: 'UNKNOWN_SERVER', message: 'The server of this command is gone' },
  unknown: {
    code: 'UNSUPPORTED',
    message: 'This version of the daemon does not know the order; a newer one has accepted it',
  },
} as const satisfies Record<string, AgentError>

const UNMADE: AgentError = {
  code: 'INTERNAL',
  message: 'The daemon could not make this order of what it has stored; its log says why',
}

const queuedCommands = jsonStatement((q, { nodeId }: { nodeId: string }) =>
  q
    .selectFrom('command')
    .select(['id', 'serverId', 'generation', 'op', 'args'])
    .where('nodeId', '=', nodeId)
    .where('state', '=', 'queued')
    .where('endedAt', 'is', null)
    .orderBy('generation') // the order within a server, whatever the clock did
    .orderBy('id')
    .limit(WINDOW),
)

/** The agent has written these commands down and will carry them out. */
export async function acceptCommands(tx: Tx, nodeId: string, ids: readonly string[]): Promise<void> {
  if (ids.length > 0) await writeAccepted(tx.q, { nodeId, ids: JSON.stringify(ids), now: tx.now })
}

const writeAccepted = statement((q, { nodeId, ids, now }: { nodeId: string; ids: string; now: IsoTime }) =>
  q
    .updateTable('command')
    .set({ state: 'accepted', acceptedAt: now })
    .where('nodeId', '=', nodeId)
    .where('state', '=', 'queued')
    .where('id', 'in', sql<string>`(select value from json_each(${ids}))`),
)

/** Aborts with either; `turn` is aborted by its owner afterwards, which takes the listener off. */
function either(turn: AbortController, signal: AbortSignal): AbortSignal {
  signal.addEventListener('abort', () => turn.abort(OVER), { once: true, signal: turn.signal })
  return turn.signal
}
