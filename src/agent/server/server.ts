import type { PowerState, ServerActivity } from '../../shared/kernel/server-life.ts'
import type { LogBounds } from '../../shared/protocol/console.ts'
import type { ServerExit, ServerReport } from '../../shared/protocol/server.ts'
import type { ServerSpec } from '../../shared/protocol/server-spec.ts'
import type { ConsoleLog } from '../console/console-log.ts'
import { errorText } from '../logger.ts'
import type { Run, ServerPlace } from '../runtime/runtime.ts'
import { freshFacts, type RunRules, type ServerFacts } from '../state/journal-record.ts'
import { placeOf } from '../state/layout.ts'
import { crashCount, untilRestart } from './crash.ts'
import { SerialQueue } from './serial-queue.ts'
import type { ServerContext } from './server-context.ts'
import type { StartPlace } from './start-places.ts'

type Power = Exclude<PowerState, 'unknown'>

/** A living run as its server holds it. */
export interface LiveRun {
  readonly run: Run
  /** Resolves with the exit when it is journaled and the state after it is in force. */
  readonly ended: Promise<ServerExit>
}

/** Parts of a server's state that change together and are reported together. */
export interface StateChange {
  readonly power?: Power
  readonly activity?: ServerActivity | null
  readonly facts?: Partial<ServerFacts>
  readonly commandId?: string | null
}

/**
 * One server on this node: its specification, what is wanted of it, and what its process does. Orders run one after the
 * other through `queue`; what the process does by itself is taken note of at once.
 */
export class GameServer {
  readonly context: ServerContext
  readonly place: ServerPlace
  readonly queue = new SerialQueue()
  readonly console: ConsoleLog
  /** Aborts what waits on this server's behalf (ready rules, a coming restart) when the server is deleted. */
  readonly gone = new AbortController()
  /** Aborts before its files are removed: what is copied from then on is not all of them. Another one once that has failed. */
  emptied = new AbortController()
  /** Ends the wait for the next restart after a crash. */
  restartWait: AbortController | undefined
  /** A stop command was typed: settles when its time is over and the game has not heeded it. */
  typedStop: Promise<void> | undefined
  /** How many stop commands are being typed. */
  typingStops = 0
  /** A start waits for its port. */
  waitsForPort = false
  /** Its place among the starts of this node, from the start's beginning until it runs or has failed. */
  startPlace: StartPlace | undefined
  /** Gives up what is being fetched for a start, an installation or a rebuild. */
  callOff: (() => void) | undefined
  /** How many orders wait for their turn that stop what the one before them starts. */
  waitingStops = 0
  readonly #orders = new Set<AbortController>()
  #spec: ServerSpec
  #facts: ServerFacts
  #power: Power = 'offline'
  #activity: ServerActivity | null = null
  #live: LiveRun | undefined
  #exit: Promise<unknown> = Promise.resolve()
  #bounds: LogBounds = { epoch: '', first: 1, last: 0 }
  #deleted = false

  constructor(context: ServerContext, spec: ServerSpec, facts: ServerFacts = freshFacts()) {
    this.context = context
    this.place = placeOf(context.layout, spec.serverId)
    this.console = context.openLog(this.place)
    this.#spec = spec
    this.#facts = facts
  }

  get id(): string {
    return this.place.serverId
  }

  get spec(): ServerSpec {
    return this.#spec
  }

  /** What the living run goes by, and the next one as long as there is none. */
  get rules(): RunRules {
    const { launch } = this.#facts
    return launch === null || launch.ended ? this.#spec : (launch.rules ?? this.#spec)
  }

  get facts(): ServerFacts {
    return this.#facts
  }

  get power(): Power {
    return this.#power
  }

  get activity(): ServerActivity | null {
    return this.#activity
  }

  get live(): LiveRun | undefined {
    return this.#live
  }

  /** The living game; `undefined` while there is none, or while the living run is an installation. */
  get game(): LiveRun | undefined {
    return this.#live?.run.record.kind === 'game' ? this.#live : undefined
  }

  get deleted(): boolean {
    return this.#deleted
  }

  setLive(live: LiveRun | undefined): void {
    this.#live = live
  }

  /** The run has ended: there is none any more, and `handled` settles when its exit has been taken note of. */
  runEnded(handled: Promise<unknown>): void {
    this.#live = undefined
    this.#exit = handled.catch(() => {}) // whoever handles it reports the failure
  }

  /** Resolves when no exit is being taken note of: an order that acted before would meet half of it. */
  exitHandled(): Promise<unknown> {
    return this.#exit
  }

  /** Queues an order. Its signal aborts when a kill or a deletion came in between; the order looks at it itself. */
  order<T>(task: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const controller = new AbortController()
    this.#orders.add(controller)
    return this.queue.add(() => task(controller.signal)).finally(() => this.#orders.delete(controller))
  }

  /** Ends, when called, every order that ran or waited at the moment in which this was asked for. */
  preemption(): () => void {
    const orders = [...this.#orders]
    return () => {
      for (const order of orders) order.abort()
      this.restartWait?.abort()
    }
  }

  /** Takes a newer specification; an older one is left aside. Resolves when it would survive a crash. */
  async applySpec(spec: ServerSpec): Promise<void> {
    if (spec.generation < this.#spec.generation) return
    this.#spec = spec
    await this.context.journal.write({ spec, facts: { serverId: this.id, facts: this.#facts } })
  }

  /** Changes the state, writes it down and reports it in one step. Resolves when it would survive a crash. */
  async change(change: StateChange): Promise<void> {
    if (this.#deleted) return
    const previous = this.#power
    this.#power = change.power ?? this.#power
    if (change.power !== undefined && change.power !== 'starting') this.startPlace?.release()
    if (change.activity !== undefined) this.#activity = change.activity
    this.#facts = { ...this.#facts, ...change.facts }
    await this.context.journal.write({
      facts: { serverId: this.id, facts: this.#facts },
      events: [{ type: 'server.state', report: this.report(), previous, commandId: change.commandId ?? null }],
    })
  }

  /** Changes facts that are of no interest to the daemon. Resolves when they would survive a crash. */
  async record(facts: Partial<ServerFacts>): Promise<void> {
    if (this.#deleted) return
    this.#facts = { ...this.#facts, ...facts }
    await this.context.journal.write({ facts: { serverId: this.id, facts: this.#facts } })
  }

  /** Puts a found state in force without reporting it: the snapshot does that. */
  adoptState(power: Power, activity: ServerActivity | null): void {
    this.#power = power
    this.#activity = activity
  }

  markDeleted(): void {
    this.#deleted = true
    this.startPlace?.release()
    this.restartWait?.abort()
    this.gone.abort()
  }

  /** All that is known now, for snapshots and events. */
  report(): ServerReport {
    const { clock } = this.context
    const record = this.#live?.run.record
    const game = record?.kind === 'game' ? record : undefined
    return {
      serverId: this.id,
      generation: this.#facts.generation,
      power: this.#power,
      uptimeMs: game === undefined ? null : Math.max(0, clock.nowMs() - game.startedAtMs),
      pid: game === undefined ? null : (this.#live?.run.pid ?? null),
      activity: this.#activity,
      installed: this.#facts.installed,
      installError: this.#facts.installError?.slice(0, 500) ?? null,
      reason: this.#facts.reason?.slice(0, 500) ?? null,
      lastExit: this.#facts.lastExit,
      crash: {
        count: crashCount(this.#facts, this.#power, clock.nowMs()),
        crashed: this.#facts.crashed,
        // A start that waits for its port is due, and no more to come.
        nextRestartMs: this.waitsForPort ? null : untilRestart(this.#facts, clock.nowMs()),
      },
      console: this.#bounds,
      eula: this.#facts.eula ?? null,
    }
  }

  /** Reads the log's bounds for the next report; a log that cannot be read keeps the last known ones. */
  async refreshBounds(): Promise<LogBounds> {
    try {
      const { epoch, first, last } = await this.console.bounds()
      this.#bounds = { epoch, first, last }
    } catch (error) {
      this.context.log.warn({ serverId: this.id, err: errorText(error) }, 'cannot read console log bounds')
    }
    return this.#bounds
  }

  /** Writes a remark into the console. A console that cannot be written to must not stop an order. */
  async note(text: string): Promise<void> {
    try {
      await this.context.runs.note(this.place, text)
    } catch (error) {
      this.context.log.warn({ serverId: this.id, err: errorText(error) }, 'cannot write notice to console')
    }
  }
}
