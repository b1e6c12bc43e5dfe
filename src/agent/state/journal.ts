import { join } from 'node:path'
import { newIdSuffix } from '../../shared/kernel/ids.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import { type AgentEvent, GATEWAY_LIMITS } from '../../shared/protocol/frames.ts'
import type { ServerSpec } from '../../shared/protocol/server-spec.ts'
import { Outbox, type OutboxEvent } from '../link/outbox.ts'
import type { AgentLog } from '../logger.ts'
import { EndingOrders } from './ending-orders.ts'
import { JournalFile, readJournal } from './journal-file.ts'
import { type CommandRecord, freshFacts, type JournalRecord, type ServerFacts, serverOf } from './journal-record.ts'

const KEEP_COMMANDS_MS = 7 * 24 * 3600 * 1000
const KEEP_COMMANDS = 50_000
const COMPACT_BYTES = 4 * 1024 * 1024

/** What the journal holds of one server. */
export interface JournaledServer {
  readonly spec: ServerSpec
  readonly facts: ServerFacts
}

interface JournalOptions {
  readonly folder: string
  readonly clock: Clock
  readonly log: AgentLog
  readonly outboxBytes?: number
}

/**
 * The agent's memory: specifications, facts, commands and the outbox of events. Values are in force at once; the promise
 * of a write resolves when they would survive a crash.
 */
export class Journal {
  readonly #clock: Clock
  readonly #file: JournalFile
  readonly #servers = new Map<string, { spec: ServerSpec | undefined; facts: ServerFacts | undefined }>()
  readonly #gone = new Map<string, { generation: number; atMs: number }>()
  readonly #commands = new Map<string, CommandRecord>()
  readonly #ending = new EndingOrders()
  readonly outbox: Outbox
  #journalId: string
  #hasLost = false
  #lastMs = 0

  /** Opens the journal of a folder, or begins one. */
  static async open(options: JournalOptions): Promise<Journal> {
    const path = join(options.folder, 'journal.jsonl')
    const found = await readJournal(path)
    const { records, damaged } = found
    if (damaged > 0) options.log.warn({ damaged }, 'skipped damaged journal lines')
    const journal = new Journal(options, path)
    journal.#hasLost = found.hasLost
    for (const record of records) journal.#apply(record)
    await journal.#file.open(found)
    journal.outbox.markDurable(journal.outbox.lastSeq)
    return journal
  }

  private constructor(options: JournalOptions, path: string) {
    this.#clock = options.clock
    this.#journalId = newIdSuffix(options.clock)
    this.outbox = new Outbox(options.outboxBytes ?? GATEWAY_LIMITS.outboxBytes)
    this.#file = new JournalFile({
      path,
      clock: options.clock,
      log: options.log,
      snapshot: () => this.#snapshot(),
      compactBytes: COMPACT_BYTES,
    })
  }

  /** A new one means that what an earlier one had accepted is not known here. */
  get journalId(): string {
    return this.#journalId
  }

  /** A part of what was written here is gone, and no daemon has said since what it was. */
  get hasLost(): boolean {
    return this.#hasLost
  }

  /** The instant of the newest record that has one (milliseconds since the epoch). */
  get lastMs(): number {
    return this.#lastMs
  }

  /** The daemon has said what it knows better: the journal is whole again. */
  madeUp(): void {
    this.#hasLost = false
  }

  /** Every server with a specification. */
  servers(): Map<string, JournaledServer> {
    const known = new Map<string, JournaledServer>()
    for (const [id, { spec, facts }] of this.#servers) {
      if (spec !== undefined) known.set(id, { spec, facts: facts ?? { ...freshFacts(), generation: spec.generation } })
    }
    return known
  }

  /** The facts of a server, also of one whose specification is lost. */
  facts(serverId: string): ServerFacts | undefined {
    return this.#servers.get(serverId)?.facts
  }

  /** The servers that were deleted here, with the generation of each. */
  gone(): { serverId: string; generation: number }[] {
    return [...this.#gone].map(([serverId, { generation }]) => ({ serverId, generation }))
  }

  command(id: string): CommandRecord | undefined {
    return this.#commands.get(id)
  }

  /** Commands that are not done, in the order in which they were accepted. */
  unfinished(): CommandRecord[] {
    return [...this.#commands.values()].filter((command) => command.state !== 'done')
  }

  /** The generation at which a server was deleted here, so that an older order does not bring it back. */
  goneGeneration(serverId: string): number | undefined {
    return this.#gone.get(serverId)?.generation
  }

  /**
   * Writes values and events together. What concerns a server that is to be ended gets through on a full disk as well:
   * ending servers is how room is made.
   */
  async write(change: {
    spec?: ServerSpec
    facts?: { serverId: string; facts: ServerFacts }
    command?: CommandRecord
    gone?: { serverId: string; generation: number }
    events?: readonly AgentEvent[]
  }): Promise<void> {
    const records: JournalRecord[] = []
    const atMs = this.#clock.nowMs()
    if (change.spec !== undefined) records.push({ k: 'spec', spec: change.spec })
    if (change.facts !== undefined) records.push({ k: 'facts', ...change.facts })
    if (change.gone !== undefined) records.push({ k: 'gone', ...change.gone, atMs })
    if (change.command !== undefined) records.push({ k: 'command', command: change.command })
    let seq = this.outbox.lastSeq
    for (const event of change.events ?? []) records.push({ k: 'event', seq: ++seq, atMs, event })
    // Asked on both sides, because the record that ends such an order still belongs to it.
    const isEnding = (): boolean => records.some((record) => this.#ending.concerns(serverOf(record)))
    const before = isEnding()
    for (const record of records) this.#apply(record)
    await this.#file.append(records, before || isEnding())
    this.outbox.markDurable(seq)
  }

  /** The daemon has stored every event up to `seq`. */
  acknowledge(seq: number): void {
    if (seq <= this.outbox.ack || seq > this.outbox.lastSeq) return
    this.outbox.acknowledge(seq)
    void this.#file.append([{ k: 'ack', seq }])
  }

  /**
   * The daemon has stored events of numbers that this journal never gave: it lost its end. What waits here is unknown to
   * the daemon, so it is numbered anew behind those.
   */
  async renumber(from: number): Promise<void> {
    const record: JournalRecord = { k: 'renumber', from }
    this.#apply(record)
    const seq = this.outbox.lastSeq
    await this.#file.append([record])
    this.outbox.markDurable(seq)
  }

  close(): Promise<void> {
    return this.#file.close()
  }

  #apply(record: JournalRecord): void {
    const atMs = record.k === 'command' ? record.command.atMs : 'atMs' in record ? record.atMs : undefined
    this.#lastMs = Math.max(this.#lastMs, atMs ?? 0)
    if (record.k === 'head') {
      this.#journalId = record.journalId
      this.outbox.restore(record.lastSeq, record.ack)
    } else if (record.k === 'spec') this.#entry(record.spec.serverId).spec = record.spec
    else if (record.k === 'facts') this.#entry(record.serverId).facts = record.facts
    else if (record.k === 'gone') {
      this.#servers.delete(record.serverId)
      this.#gone.set(record.serverId, { generation: record.generation, atMs: record.atMs })
    } else if (record.k === 'command') {
      this.#commands.set(record.command.id, record.command)
      this.#ending.note(record.command)
    } else if (record.k === 'event') this.outbox.add(record)
    else if (record.k === 'ack') this.outbox.acknowledge(record.seq)
    else this.outbox.renumber(record.from)
  }

  #entry(serverId: string): { spec: ServerSpec | undefined; facts: ServerFacts | undefined } {
    let entry = this.#servers.get(serverId)
    if (entry === undefined) {
      entry = { spec: undefined, facts: undefined }
      this.#servers.set(serverId, entry)
    }
    return entry
  }

  #snapshot(): JournalRecord[] {
    this.#forgetOld()
    const records: JournalRecord[] = [
      {
        k: 'head',
        journalId: this.#journalId,
        lastSeq: this.outbox.firstWaitingSeq - 1,
        ack: this.outbox.ack,
        atMs: this.#lastMs,
      },
    ]
    for (const [serverId, gone] of this.#gone) records.push({ k: 'gone', serverId, ...gone })
    for (const [serverId, { spec, facts }] of this.#servers) {
      if (spec !== undefined) records.push({ k: 'spec', spec })
      if (facts !== undefined) records.push({ k: 'facts', serverId, facts })
    }
    for (const command of this.#commands.values()) records.push({ k: 'command', command })
    for (const waiting of this.outbox.all()) records.push(eventRecord(waiting))
    return records
  }

  #forgetOld(): void {
    const oldest = this.#clock.nowMs() - KEEP_COMMANDS_MS
    let surplus = this.#commands.size - KEEP_COMMANDS
    for (const [id, command] of this.#commands) {
      if (command.state !== 'done' || (command.atMs >= oldest && surplus <= 0)) continue
      this.#commands.delete(id)
      surplus--
    }
    for (const [serverId, gone] of this.#gone) if (gone.atMs < oldest) this.#gone.delete(serverId)
  }
}

function eventRecord(waiting: OutboxEvent): JournalRecord {
  return { k: 'event', seq: waiting.seq, atMs: waiting.atMs, event: waiting.event }
}
