import { PanelError } from '../../shared/kernel/errors.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import type { AgentEvent } from '../../shared/protocol/frames.ts'
import type { ServerReport } from '../../shared/protocol/server.ts'
import type { Log } from '../core/log.ts'
import { BriefTries } from '../db/brief.ts'
import type { Db, Tx } from '../db/db.ts'
import { statement } from '../db/statement.ts'
import { acceptCommands } from './command-pump.ts'
import type { GatewayHandlers, HappenedEvent, ReportedAt } from './handlers.ts'
import { Pace } from './pace.ts'

const BATCH = 256
/** More than this waits: the socket is not read until it is less. */
const PAUSE_AT = 400
/** How long the reports of an agent that does not say when it took its snapshot wait for the events of its hello. */
const REPLAY_MS = 3000
/** Between the transactions of a node that reports all the time, unless a whole batch waits. */
const PACE_MS = 30

/** Something that is stored in the order in which it came. */
type Item =
  | { readonly kind: 'accepted'; readonly id: string }
  /** `event` is undefined for one of a newer version: only its number is stored. */
  | { readonly kind: 'event'; readonly seq: number; readonly event: AgentEvent | undefined; readonly at: ReportedAt }

/** A snapshot, and the number of the last event that happened before it. */
export interface TakenSnapshot {
  readonly reports: readonly ServerReport[]
  readonly asOf: number
  /** It comes from one of two agents that both claim to be the node. */
  readonly contested: boolean
}

/** What an inbox needs. */
export interface InboxDeps {
  readonly nodeId: string
  readonly journalId: string
  readonly db: Db
  readonly clock: Clock
  readonly log: Log
  readonly handlers: Pick<GatewayHandlers, 'onEvents' | 'onReports'>
  /** Events up to this number are on the disk. */
  acknowledge(seq: number): void
  accepted(ids: readonly string[]): void
  /** Receives bugs, beside the log. */
  onError(error: unknown): void
  /** Stops and goes on with reading the socket. */
  pause(paused: boolean): void
  /** It cannot go on: the connection must end, so that the agent sends again what was not stored. */
  failed(error: unknown): void
}

/** The durable part of what an agent sends: one transaction per batch of what has arrived, strictly in order. */
export class Inbox {
  readonly #deps: InboxDeps
  readonly #queue: Item[] = []
  readonly #stop = new AbortController()
  readonly #pace: Pace
  readonly #brief = new BriefTries()
  #ack: number
  #working: Promise<void> | undefined
  #snapshot: (TakenSnapshot & { readonly at: ReportedAt }) | undefined
  #paused = false

  constructor(deps: InboxDeps, eventAck: number) {
    this.#deps = deps
    this.#pace = new Pace(deps.clock, PACE_MS)
    this.#ack = eventAck
  }

  add(item: Item): void {
    if (this.#stop.signal.aborted) return
    this.#queue.push(item)
    if (this.#queue.length > PAUSE_AT && !this.#paused) this.#setPaused(true)
    this.#working ??= this.#work()
  }

  /**
   * Applies the reports of a snapshot exactly where it was taken: behind the event `asOf`, before the next one. What comes
   * earlier would be overwritten by older events, what comes later would overwrite newer ones.
   */
  async addReports(snapshot: TakenSnapshot, isExact: boolean): Promise<void> {
    const at = { receivedMs: this.#deps.clock.nowMs(), ageMs: 0 }
    this.#snapshot = { ...snapshot, at }
    if (snapshot.asOf <= this.#ack) await this.#applyReports()
    if (this.#snapshot === undefined || isExact) return
    void this.#deps.clock.sleep(REPLAY_MS, this.#stop.signal).then(() => {
      if (this.#snapshot === undefined || this.#stop.signal.aborted) return
      // The agent has less to send than it thought, such as after it lost its numbers.
      this.#snapshot = { ...snapshot, at, asOf: 0 }
      this.#working ??= this.#work()
    })
  }

  /** Takes nothing more, and resolves when what is being stored is stored. */
  async close(): Promise<void> {
    this.#stop.abort()
    this.#queue.length = 0
    await this.#working
  }

  async #work(): Promise<void> {
    await Promise.resolve() // so that frames of the same turn share a transaction
    try {
      while (!this.#stop.signal.aborted) {
        if (this.#queue.length > 0 && this.#queue.length < BATCH) await this.#pace.next(this.#stop.signal)
        if (this.#stop.signal.aborted) break
        const older = this.#olderThanSnapshot()
        if (this.#snapshot !== undefined && (older === 0 || this.#snapshot.asOf <= this.#ack))
          await this.#applyReports()
        const batch = this.#queue.splice(0, Math.min(BATCH, older || BATCH))
        if (batch.length === 0) break
        await this.#store(batch)
        if (this.#paused && this.#queue.length < PAUSE_AT / 2) this.#setPaused(false)
      }
    } catch (error) {
      this.#stop.abort()
      this.#deps.failed(error)
    } finally {
      this.#working = undefined
    }
    if (this.#queue.length > 0 && !this.#stop.signal.aborted) this.#working ??= this.#work()
  }

  /** How many of those that wait were sent before the snapshot was taken; all of them when none is newer. */
  #olderThanSnapshot(): number {
    const { asOf } = this.#snapshot ?? { asOf: Number.POSITIVE_INFINITY }
    const newer = this.#queue.findIndex((item) => item.kind === 'event' && item.seq > asOf)
    return newer === -1 ? Number.POSITIVE_INFINITY : newer
  }

  async #applyReports(): Promise<void> {
    const snapshot = this.#snapshot
    if (snapshot === undefined) return
    this.#snapshot = undefined
    await this.#deps.handlers.onReports(this.#deps.nodeId, snapshot.reports, {
      at: snapshot.at,
      contested: snapshot.contested,
    })
  }

  async #store(batch: readonly Item[]): Promise<void> {
    const { db, log, nodeId } = this.#deps
    try {
      await db.write((tx) => this.#apply(tx, batch), { brief: batch.some(saysMore) ? undefined : this.#brief })
    } catch (error) {
      if (isPassing(error)) throw error
      // One of them cannot be stored: the others must not stay behind for its sake.
      log.error({ err: error, nodeId, count: batch.length }, 'cannot store event batch, storing events one by one')
      for (const item of batch) await this.#storeAlone(item)
    }
    const ids = batch.flatMap((item) => (item.kind === 'accepted' ? [item.id] : []))
    const last = batch.reduce((most, item) => (item.kind === 'event' ? Math.max(most, item.seq) : most), this.#ack)
    this.#deps.accepted(ids)
    const grown = last > this.#ack
    this.#ack = last
    if (grown || batch.some((item) => item.kind === 'event')) this.#deps.acknowledge(last)
  }

  async #storeAlone(item: Item): Promise<void> {
    const { db, log, nodeId } = this.#deps
    try {
      await db.write((tx) => this.#apply(tx, [item]))
    } catch (error) {
      if (isPassing(error) || item.kind !== 'event') throw error
      const about = { err: error, nodeId, seq: item.seq, type: item.event?.type }
      log.error(about, 'cannot store event, skipping it until the next server report')
      this.#deps.onError(error)
      await db.write((tx) => this.#apply(tx, [{ ...item, event: undefined }]))
    }
  }

  async #apply(tx: Tx, batch: readonly Item[]): Promise<void> {
    const { nodeId, journalId, handlers } = this.#deps
    let ack = this.#ack
    const accepted = new Set(batch.flatMap((item) => (item.kind === 'accepted' ? [item.id] : [])))
    const events: HappenedEvent[] = []
    for (const item of batch) {
      if (item.kind !== 'event' || item.seq <= ack) continue
      ack = item.seq
      const { event, at } = item
      // The acceptance of what has ended already is written with its end.
      const isAccepted = event?.type === 'command.done' && accepted.delete(event.commandId)
      if (event !== undefined) events.push({ event, at, isAccepted })
    }
    if (events.length > 0) await handlers.onEvents(tx, nodeId, events)
    await acceptCommands(tx, nodeId, [...accepted])
    if (ack !== this.#ack) await raiseEventAck(tx.q, { nodeId, journalId, ack })
  }

  #setPaused(paused: boolean): void {
    this.#paused = paused
    this.#deps.pause(paused)
  }
}

const raiseEventAck = statement((q, of: { nodeId: string; journalId: string; ack: number }) =>
  q
    .updateTable('node')
    .set({ eventAck: of.ack })
    .where('id', '=', of.nodeId)
    .where('journalId', '=', of.journalId)
    .where('eventAck', '<', of.ack),
)

/** Whether more is read and written for it than for acceptances and ends of commands, which are many. */
function saysMore(item: Item): boolean {
  return item.kind === 'event' && item.event !== undefined && item.event.type !== 'command.done'
}

/** Whether it is the database that cannot be written now, so that the same event will be storable later. */
function isPassing(error: unknown): boolean {
  const codes: readonly string[] = ['INSUFFICIENT_SPACE', 'DATABASE_UNAVAILABLE', 'SHUTTING_DOWN']
  return error instanceof PanelError && codes.includes(error.code)
}
