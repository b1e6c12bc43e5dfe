import type { AgentError } from '../../shared/protocol/agent-error.ts'
import type { DaemonFrame, Operation } from '../../shared/protocol/frames.ts'
import { COMMANDS, CommandOp } from '../../shared/protocol/server.ts'
import { AgentFailure, asFailure } from '../failure.ts'
import { ProgressPace } from '../link/progress-pace.ts'
import { badRequest } from '../link/request-handler.ts'
import { errorText } from '../logger.ts'
import { type CommandRecord, type CommandResult, freshFacts } from '../state/journal-record.ts'
import { placeOf } from '../state/layout.ts'
import { carryOut, type Outcome } from './orders.ts'
import { removeUnknown } from './remove.ts'
import { GameServer } from './server.ts'
import type { ServerContext } from './server-context.ts'
import { recordStep } from './stop.ts'

/** A command as it comes over the wire. */
export type CommandFrame = Extract<DaemonFrame, { type: 'command' }>

/** What the daemon is sent of commands beside their ends; both may get lost. */
export interface CommandReports {
  accepted(id: string): void
  progress(id: string, serverId: string, progress: unknown): void
}

/** The servers of this node by id. */
export type ServerTable = Map<string, GameServer>

/**
 * The command table: every command is journaled before it is answered and before it is acted on, and is carried out at
 * most once per id. Orders of one server run in the order of their arrival, those of different servers side by side; a
 * kill or a deletion ends what is in its way.
 */
export class CommandTable {
  readonly #context: ServerContext
  readonly #servers: ServerTable
  readonly #reports: CommandReports
  /** Commands whose acceptance is on its way to the disk. */
  readonly #accepting = new Set<string>()
  /** Ends commands that wait or run, by their ids. */
  readonly #cancels = new Map<string, AbortController>()

  constructor(context: ServerContext, servers: ServerTable, reports: CommandReports) {
    this.#context = context
    this.#servers = servers
    this.#reports = reports
  }

  receive(frame: CommandFrame): void {
    const { journal, log } = this.#context
    if (!/^[A-Za-z0-9_-]{1,64}$/.test(frame.id)) {
      log.error({ serverId: frame.serverId }, 'ignoring command with invalid id')
      return
    }
    const known = journal.command(frame.id)
    if (known === undefined) this.#accept(frame)
    else if (!this.#accepting.has(frame.id)) this.#answerAgain(known)
  }

  /**
   * Ends a command whose definition says that it can be; any other one, and one that is over, goes on as it is. Not written
   * down: a command that an agent takes up again after its own end is carried out.
   */
  cancel(id: string): void {
    this.#cancels.get(id)?.abort(new AgentFailure('INTERRUPTED', 'The order was cancelled'))
  }

  /** Takes up the commands that were not done when the agent ended, apart from those of which the daemon says that they are. */
  resume(ended: ReadonlySet<string>): void {
    const { journal, log } = this.#context
    for (const command of journal.unfinished()) {
      if (!ended.has(command.id)) {
        this.#run(this.#servers.get(command.serverId), command, Promise.resolve())
        continue
      }
      log.warn({ commandId: command.id, serverId: command.serverId }, 'command already done, not repeating it')
      const error = { code: 'INTERRUPTED' as const, message: 'The daemon has the end of this order' }
      void journal.write({
        command: { ...command, command: null, state: 'done', result: { ok: false, noop: false, error } },
      })
    }
  }

  #answerAgain(known: CommandRecord): void {
    this.#reports.accepted(known.id)
    if (known.state === 'done' && known.result !== null) {
      void this.#context.journal.write({ events: [doneEvent(known, known.result)] })
    }
  }

  #accept(frame: CommandFrame): void {
    const { journal, clock } = this.#context
    const { id, serverId, generation } = frame
    const read = readCommand(frame.command)
    const command: CommandRecord = {
      id,
      serverId,
      generation,
      command: 'op' in read ? read : null,
      state: 'accepted',
      result: null,
      atMs: clock.nowMs(),
    }
    const refusal = 'op' in read ? this.#refusal(frame, read) : read
    this.#accepting.add(id)
    if (refusal !== undefined) {
      const result = { ok: false, noop: false, error: refusal }
      const done: CommandRecord = { ...command, command: null, state: 'done', result }
      this.#accepted(id, journal.write({ command: done, events: [doneEvent(done, result)] }))
      return
    }
    const known = this.#servers.get(serverId)
    const server = known ?? this.#create(command)
    const writes = [journal.write({ command })]
    if (server !== undefined && generation > server.facts.generation) {
      writes.push(server.change({ facts: { generation }, commandId: id }))
    }
    const durable = Promise.all(writes)
    this.#accepted(id, durable)
    this.#run(server, command, durable)
  }

  #accepted(id: string, durable: Promise<unknown>): void {
    void durable.then(() => {
      this.#accepting.delete(id)
      this.#reports.accepted(id)
    })
  }

  #refusal({ serverId, generation }: CommandFrame, command: CommandOp): AgentError | undefined {
    const server = this.#servers.get(serverId)
    const newest = server?.facts.generation ?? this.#context.journal.goneGeneration(serverId) ?? 0
    if (generation < newest) {
      return {
        code: 'STALE_GENERATION',
        message: `The order is of generation ${generation}, the server is at ${newest}`,
      }
    }
    if ('spec' in command && command.spec.serverId !== serverId) {
      return { code: 'BAD_REQUEST', message: 'The specification is of another server' }
    }
    try {
      placeOf(this.#context.layout, serverId)
    } catch (error) {
      if (error instanceof AgentFailure) return error.toFrame()
      throw error
    }
    if (server === undefined && (command.op === 'stop' || command.op === 'kill' || command.op === 'reset-crashes')) {
      return { code: 'UNKNOWN_SERVER', message: 'This node does not know the server' }
    }
    return undefined
  }

  /** A server that an order brings to this node. What the node may have of it already is adopted first. */
  #create({ command }: CommandRecord): GameServer | undefined {
    if (command === null || !('spec' in command)) return undefined
    const { spec } = command
    const server = new GameServer(this.#context, spec, freshFacts())
    this.#servers.set(spec.serverId, server)
    void this.#context.journal.write({ spec, facts: { serverId: spec.serverId, facts: server.facts } })
    this.#context.adoptNew(server)
    return server
  }

  #run(server: GameServer | undefined, command: CommandRecord, durable: Promise<unknown>): void {
    const op = command.command?.op
    const cancel = new AbortController()
    if (op !== undefined && CANCELLED.has(op)) this.#cancels.set(command.id, cancel)
    const task = async (replaced: AbortSignal): Promise<void> => {
      const signal = AbortSignal.any([replaced, cancel.signal])
      await durable
      // Not worth a wait: after a crash an order is looked at again in either state.
      void this.#context.journal.write({ command: { ...command, state: 'running' } })
      await this.#finish(command, () => this.#perform(server, command, signal))
      this.#cancels.delete(command.id)
    }
    // Nothing is lost on a failure here: #finish has journaled it, or the agent ends and takes the order up again.
    const failed = (error: unknown): void => {
      const fields = { commandId: command.id, serverId: command.serverId, err: errorText(error) }
      this.#context.log.error(fields, 'cannot finish command')
    }
    if (server === undefined) {
      task(new AbortController().signal).catch(failed)
      return
    }
    if (op === 'kill' || op === 'delete') this.#preempt(server, op, durable, failed)
    // A start that waits for its port or its image has begun nothing yet, and gives way to what comes after it.
    const replaces = op === 'stop' || op === 'restart'
    if (replaces) {
      server.waitingStops += 1
      server.callOff?.()
    }
    const inTurn = (signal: AbortSignal): Promise<void> => {
      if (replaces) server.waitingStops -= 1
      return task(signal)
    }
    server.order(inTurn).catch(failed)
  }

  /** Ends what is in the way of a kill or a deletion; the order itself waits for its turn behind it. */
  #preempt(
    server: GameServer,
    op: 'kill' | 'delete',
    durable: Promise<unknown>,
    failed: (error: unknown) => void,
  ): void {
    const inTheWay = server.preemption()
    const now = async (): Promise<void> => {
      await durable
      inTheWay()
      const { live } = server
      if (live === undefined || op === 'delete') return
      await recordStep(server, live, 'kill')
      // What fails here, killRun does again when it is the order's turn.
      await live.run.expectExit().catch(() => {})
      await live.run.signal('SIGKILL').catch(() => {})
    }
    now().catch(failed)
  }

  async #perform(server: GameServer | undefined, command: CommandRecord, signal: AbortSignal): Promise<Outcome> {
    if (server !== undefined && !server.deleted) {
      const { id, serverId } = command
      const pace = new ProgressPace(this.#context.clock, (report) => this.#reports.progress(id, serverId, report))
      try {
        return await carryOut(server, command, { signal, progress: (report) => pace.report(report) })
      } finally {
        pace.end()
      }
    }
    const op = command.command
    if (op?.op !== 'delete') throw new AgentFailure('UNKNOWN_SERVER', 'The server has been deleted on this node')
    const place = placeOf(this.#context.layout, command.serverId)
    const order = { keepFiles: op.keepFiles, generation: command.generation }
    return { noop: true, result: await removeUnknown(this.#context, place, order) }
  }

  /** Journals how a command ended, together with the event that notifies the daemon. */
  async #finish(command: CommandRecord, perform: () => Promise<Outcome>): Promise<void> {
    const { journal, log, ending } = this.#context
    let result: CommandResult
    try {
      const outcome = await perform()
      const answered = outcome.result === undefined ? {} : { result: outcome.result }
      result = { ok: true, noop: outcome.noop, error: null, ...answered }
    } catch (error) {
      // An order that the end of the agent cut off stays unfinished, and is taken up again.
      if (ending.aborted) return
      if (!(error instanceof AgentFailure)) {
        const fields = { commandId: command.id, serverId: command.serverId, err: errorText(error) }
        log.error(fields, 'command failed unexpectedly')
      }
      result = { ok: false, noop: false, error: failureOf(error) }
    }
    const done: CommandRecord = { ...command, command: null, state: 'done', result }
    if (command.command?.op === 'delete' && result.ok) this.#servers.delete(command.serverId)
    await journal.write({ command: done, events: [doneEvent(done, result)] })
  }
}

function failureOf(error: unknown): AgentError {
  return asFailure(error, `The agent failed: ${errorText(error)}`).toFrame()
}

function doneEvent(command: CommandRecord, result: CommandResult) {
  const { id, serverId } = command
  return {
    type: 'command.done' as const,
    commandId: id,
    serverId,
    ok: result.ok,
    noop: result.noop,
    error: result.error,
    ...(result.result === undefined ? {} : { result: result.result }),
  }
}

const CANCELLED: ReadonlySet<string> = new Set(COMMANDS.flatMap(({ op, cancels }) => (cancels ? [op] : [])))
const KNOWN: ReadonlySet<string> = new Set(COMMANDS.map(({ op }) => op))

/** A command of a newer daemon is refused like any other that cannot be carried out: its sender hears of it and sends it no more. */
function readCommand(sent: Operation): CommandOp | AgentError {
  const parsed = CommandOp.safeParse(sent)
  if (parsed.success) return parsed.data
  if (KNOWN.has(sent.op)) return badRequest(sent.op, parsed.error).toFrame()
  return { code: 'UNSUPPORTED', message: `This agent does not know the order ${sent.op}; update it` }
}
