import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Client } from '../../shared/client.ts'
import type { ServerId } from '../../shared/kernel/ids.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import type { StreamOpener } from '../net/stream.ts'
import { followConsole, followEvents, type Progress, readServer } from './feed.ts'
import { buildFrame } from './frame.ts'
import { appendHistory } from './history.ts'
import { createKeyReader, type Input } from './keys.ts'
import { Lines } from './lines.ts'
import { type ConsoleState, type Effect, isFiltered, type Send, type Surroundings, scrollBy, tell } from './model.ts'
import { createOrders, type Orders } from './orders.ts'
import { createRateMeter, FLOOD_RATE, frameInterval } from './pace.ts'
import type { Painter } from './painter.ts'
import { press } from './press.ts'
import { type Entry, Ring } from './ring.ts'
import { settleSeek } from './seek.ts'
import { createStore, type Store } from './store.ts'
import { copyLines, entriesBetween, exportLines } from './take-out.ts'
import type { Terminal } from './terminal.ts'
import { rowsFrom, tailRows } from './viewport.ts'

export interface SessionOptions {
  readonly client: Client
  readonly openStream: StreamOpener
  readonly server: { readonly id: ServerId; readonly name: string; readonly nodeName: string }
  readonly contextName: string
  readonly tail: number
  readonly afterCursor: string | undefined
  readonly historyPath: string
  readonly clock: Clock
  readonly terminal: Terminal
  readonly painter: Painter
  readonly state: ConsoleState
}

const RING_LINES = 20_000
const ESCAPE_MS = 30
const RESIZE_MS = 50
const URGENT_MS = 16
const SAMPLE_RATE = 2000
const SETTLE_MS = 2000
const SENT_SHOWN_MS = 3000
const FAILED_SHOWN_MS = 15_000

/** One attached console from the first connection to the end: streams in, keys in, frames out. */
export class ConsoleSession {
  readonly #options: SessionOptions
  readonly #clock: Clock
  readonly #end = new AbortController()
  readonly #keys = createKeyReader()
  readonly #progress: Progress = { lines: 0, epoch: '', seq: 0 }
  readonly #ring = new Ring({ lines: RING_LINES })
  readonly #lines: Lines
  readonly #store: Store
  readonly #orders: Orders
  #dirty = true
  #urgent = true
  #wake = new AbortController()
  #inputs = 0
  #resizes = 0
  #failure: unknown
  /** Work with files that is under way. */
  readonly #reports = new Set<Promise<void>>()

  constructor(options: SessionOptions) {
    const { clock, client, server } = options
    this.#options = options
    this.#clock = clock
    this.#lines = new Lines(this.#ring, clock, options.terminal.size())
    this.#store = createStore(options.state, () => this.#request(false))
    const shared = { client, serverId: server.id, clock, signal: this.#end.signal }
    this.#orders = createOrders({ ...shared, store: this.#store, ring: this.#ring, progress: this.#progress })
  }

  /** The last line seen as a resume needs it; `undefined` before the first. */
  get cursor(): string | undefined {
    return this.#progress.epoch === '' ? undefined : `${this.#progress.epoch}-${this.#progress.seq}`
  }

  get state(): ConsoleState {
    return this.#store.get()
  }

  /** Runs until `stop`. Throws the daemon's refusal when the first connection is refused, and what `fail` was given. */
  async run(): Promise<void> {
    const { openStream: open, server, tail, afterCursor } = this.#options
    const feed = { open, serverId: server.id, store: this.#store, clock: this.#clock, signal: this.#end.signal }
    const work = [
      followConsole({ ...feed, tail, afterCursor, ring: this.#ring }, this.#progress),
      followEvents(feed),
      readServer({ ...feed, client: this.#options.client }),
      this.#draw(),
    ]
    for (const task of work) task.catch((error: unknown) => this.fail(error))
    await Promise.allSettled(work)
    if (this.#failure !== undefined) throw this.#failure
  }

  /** Waits a moment for the command on its way and for files being written; the commands not confirmed by then. */
  async settle(): Promise<readonly Send[]> {
    const pending = new Set(this.state.sends.filter(({ state }) => state === 'pending').map(({ id }) => id))
    const over = new AbortController()
    const work = Promise.allSettled([this.#orders.settled(), ...this.#reports])
    await Promise.race([work, this.#clock.sleep(SETTLE_MS, over.signal)])
    over.abort()
    return this.state.sends.filter((send) => pending.has(send.id) && send.state !== 'sent')
  }

  stop(): void {
    this.#end.abort()
    this.#wake.abort()
  }

  fail(error: unknown): void {
    this.#failure ??= error
    this.stop()
  }

  /** Bytes from the terminal. An Escape that nothing follows for a moment is the key. */
  type(chunk: string): void {
    this.#inputs += 1
    const mine = this.#inputs
    for (const input of this.#keys.push(chunk)) this.#press(input)
    if (!this.#keys.waiting) return
    void this.#clock.sleep(ESCAPE_MS, this.#end.signal).then(() => {
      if (mine === this.#inputs) for (const input of this.#keys.flush()) this.#press(input)
    })
  }

  /** The terminal has another size; the last of several in a row counts. */
  resized(): void {
    this.#resizes += 1
    const mine = this.#resizes
    void this.#clock.sleep(RESIZE_MS, this.#end.signal).then(() => {
      if (mine === this.#resizes && !this.#end.signal.aborted) this.#redraw()
    })
  }

  #redraw(): void {
    this.#lines.resize(this.#options.terminal.size())
    this.#options.painter.restart(this.#lines.size)
    this.#request(true)
  }

  /** Asks for a frame; `urgent`: a key waits for its answer. */
  #request(urgent: boolean): void {
    if (this.#dirty && (!urgent || this.#urgent)) return
    this.#dirty = true
    this.#urgent ||= urgent
    this.#wake.abort()
  }

  #press(input: Input): void {
    try {
      const { state, effects } = press(this.state, input, this.#around())
      this.#store.set(state)
      for (const effect of effects) this.#carryOut(effect)
      this.#request(true)
    } catch (error) {
      this.fail(error)
    }
  }

  #around(): Surroundings {
    return {
      ring: this.#ring,
      pane: (state) => this.#lines.pane(state),
      matches: this.#lines.matches,
      nowMs: this.#clock.nowMs(),
    }
  }

  #carryOut(effect: Effect): void {
    switch (effect.do) {
      case 'detach':
        this.stop()
        break
      case 'redraw':
        this.#redraw()
        break
      case 'send':
        this.#orders.send(effect.lines)
        break
      case 'power':
        void this.#orders.power(effect.action)
        break
      case 'remember':
        this.#report(appendHistory(this.#options.historyPath, effect.text).then(() => undefined))
        break
      case 'copy':
        this.#report(
          copyLines(entriesBetween(this.#ring, this.#lines.pane(this.state).view, effect), this.#options.terminal),
        )
        break
      case 'export':
        this.#report(exportLines(this.#options.server.name, this.#shownEntries(), this.#clock.nowMs()))
        break
      case 'loadOlder':
        void this.#orders.loadOlder().then((loaded) => {
          const rows = this.#lines.pane(this.state).height - 1
          if (loaded && !this.state.follow) this.#store.set(scrollBy(this.state, -rows, this.#around()).state)
        })
        break
      case 'loadGap':
        void this.#orders.loadGap(effect.at).then((changed) => {
          if (changed) this.#lines.forget()
          this.#request(true)
        })
        break
    }
  }

  /** Says what came of work with files; a failure there is told, not thrown. */
  #report(work: Promise<string | undefined>): void {
    const told = work.then(
      (text) => (text === undefined ? undefined : this.#say(text)),
      (error: unknown) => this.#say(`✗ ${error instanceof Error ? error.message : String(error)}`),
    )
    this.#reports.add(told)
    void told.finally(() => this.#reports.delete(told))
  }

  #say(text: string): void {
    this.#store.set(tell(this.state, text, this.#clock.nowMs()))
  }

  #shownEntries(): Entry[] {
    return [...new Set(this.#shown().map((row) => row.at))].flatMap((at) => this.#ring.get(at) ?? [])
  }

  #shown(): ReturnType<typeof tailRows> {
    const pane = this.#lines.pane(this.state)
    return this.state.follow ? tailRows(pane) : rowsFrom(pane, this.state.anchor)
  }

  /** Draws a frame when something changed and its time has come; works on searches in between. */
  async #draw(): Promise<void> {
    const meter = createRateMeter(this.#clock.monotonicMs())
    let drawnAt = Number.NEGATIVE_INFINITY
    let costMs = 0
    while (!this.#end.signal.aborted) {
      const busy = this.#lines.advance(this.state)
      if (this.state.seek !== undefined) this.#store.set(settleSeek(this.state, this.#around(), !busy))
      const now = this.#clock.monotonicMs()
      const congested = this.#options.terminal.congested()
      this.#settle(meter.at(this.#progress.lines, now))
      const rate = this.state.facts.rate
      const due = drawnAt + (this.#urgent && !congested ? URGENT_MS : frameInterval({ rate, congested, costMs }))
      const old = now - drawnAt >= 1000
      if ((this.#dirty || old || busy) && now >= due && !congested) {
        this.#dirty = false
        this.#urgent = false
        this.#paint(busy)
        drawnAt = this.#clock.monotonicMs()
        costMs = drawnAt - now
      } else if (busy) {
        await nextTurn()
      } else {
        this.#wake = new AbortController()
        if (this.#end.signal.aborted) return
        await this.#clock.sleep(this.#dirty ? Math.max(1, due - now) : 1000, this.#wake.signal)
      }
    }
  }

  /** Takes over what the streams counted, and lets what has been read disappear. */
  #settle(rate: number): void {
    const { state } = this
    const now = this.#clock.nowMs()
    // A number that runs away cannot be read: it stands for a second, and Ink need not lay the bars out for each frame.
    const seq = rate >= FLOOD_RATE && rate === state.facts.rate ? state.facts.seq : this.#progress.seq
    const sends = state.sends.filter((send) => {
      return now - (send.endedMs ?? now) < (send.state === 'failed' ? FAILED_SHOWN_MS : SENT_SHOWN_MS)
    })
    this.#ring.limit = state.follow ? RING_LINES : 2 * RING_LINES
    const { facts } = state
    if (facts.rate === rate && facts.seq === seq && sends.length === state.sends.length) return
    this.#store.set({ ...state, sends, facts: { ...facts, rate, seq } })
  }

  #paint(searching: boolean): void {
    const { state } = this
    const { matches } = this.#lines
    const { server, contextName, painter } = this.#options
    const index = matches === undefined || state.matchAt === undefined ? -1 : matches.rank(state.matchAt)
    const bar = {
      nodeName: server.nodeName,
      contextName,
      nowMs: this.#clock.nowMs(),
      end: this.#ring.end,
      match: matches === undefined ? undefined : { index, count: matches.length, searching },
      sampling: state.follow && state.facts.rate > SAMPLE_RATE && !isFiltered(state),
    }
    const { size, layout } = this.#lines
    painter.paint(buildFrame({ state, size, layout, rows: layout.kind === 'notice' ? [] : this.#shown(), bar }))
  }
}
