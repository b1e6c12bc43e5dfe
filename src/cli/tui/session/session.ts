import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { LevelRule } from '../../../shared/api/template-fields.ts'
import type { Client } from '../../../shared/client.ts'
import type { ServerId } from '../../../shared/kernel/ids.ts'
import type { Clock } from '../../../shared/kernel/time.ts'
import type { BatchOpener } from '../../net/stream.ts'
import type { Screen, ScreenOptions } from '../components/screen.tsx'
import type { Input } from '../keys/keys.ts'
import { press } from '../keys/press.ts'
import { layoutOf, type Size } from '../layout.ts'
import { levelsBy } from '../log/level.ts'
import { Lines } from '../log/lines.ts'
import { Ring } from '../log/ring.ts'
import { rowsFrom, tailRows } from '../log/viewport.ts'
import {
  type ConsoleState,
  type Effect,
  isFiltered,
  notify,
  type Send,
  type Surroundings,
  scrollBy,
} from '../model/model.ts'
import { settleSeek } from '../model/seek.ts'
import { createPainter } from '../terminal/painter.ts'
import type { Terminal } from '../terminal/terminal.ts'
import type { Theme } from '../terminal/theme.ts'
import { followConsole, followEvents, type Progress, readServer } from './feed.ts'
import { appendHistory } from './history.ts'
import { createOrders, type Orders } from './orders.ts'
import { createRateMeter, FLOOD_RATE, frameInterval } from './pace.ts'
import { sentenceOf } from './refusals.ts'
import { createStore, type Store } from './store.ts'
import { copyLines, entriesBetween, exportLines, exportName } from './take-out.ts'

/** The server whose console is shown; `logLevels` are the rules of its template. */
export interface ConsoleServer {
  readonly id: ServerId
  readonly name: string
  readonly nodeName: string
  /** Where players find it, with its further ports. */
  readonly address: string
  readonly logLevels: readonly LevelRule[]
}

export interface SessionOptions {
  readonly client: Client
  readonly openStream: BatchOpener
  readonly server: ConsoleServer
  readonly contextName: string
  readonly tail: number
  readonly afterCursor: string | undefined
  readonly historyPath: string
  readonly clock: Clock
  readonly terminal: Terminal
  readonly theme: Theme
  /** Where an export goes unless another path is typed. */
  readonly exportFolder: string
  readonly state: ConsoleState
  /** Mounts the screen; its keys go to `onInput`. */
  readonly mount: (to: Pick<ScreenOptions, 'onInput' | 'onError'>) => Screen
}

const RING_LINES = 20_000
const RESIZE_MS = 50
const SAMPLE_RATE = 2000
/** How soon a slow terminal is looked at again. */
const CREDIT_MS = 20
/** What of an answer to a key is sent at once, however slow the terminal. */
const ANSWER_BYTES = 600
const SETTLE_MS = 2000
/** A reason of its own: without one, each abort makes an error with a stack. */
const WOKEN = 'woken'
const SENT_SHOWN_MS = 3000
const FAILED_SHOWN_MS = 15_000

/** One attached console from the first connection to the end: streams in, keys in, frames out. */
export class ConsoleSession {
  readonly #options: SessionOptions
  readonly #clock: Clock
  readonly #end = new AbortController()
  readonly #progress: Progress = { lines: 0, epoch: '', seq: 0 }
  readonly #ring: Ring
  readonly #lines: Lines
  readonly #store: Store
  readonly #orders: Orders
  readonly #screen: Screen
  readonly #painter = createPainter()
  #size: Size
  #dirty = true
  #urgent = true
  #wake = new AbortController()
  #resizes = 0
  #failure: unknown
  /** Work with files that is under way. */
  readonly #reports = new Set<Promise<void>>()

  constructor(options: SessionOptions) {
    const { clock, client, server } = options
    this.#options = options
    this.#clock = clock
    this.#ring = new Ring({ lines: RING_LINES, levels: levelsBy(server.logLevels) })
    this.#lines = new Lines(this.#ring, clock, options.theme)
    this.#size = options.terminal.size()
    this.#screen = options.mount({ onInput: (input) => this.#press(input), onError: (error) => this.fail(error) })
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
    const { client } = this.#options
    const feed = { open, client, serverId: server.id, store: this.#store, clock: this.#clock, signal: this.#end.signal }
    const work = [
      followConsole({ ...feed, tail, afterCursor, ring: this.#ring }, this.#progress),
      followEvents(feed),
      readServer(feed),
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
    this.#wake.abort(WOKEN)
  }

  fail(error: unknown): void {
    this.#failure ??= error
    this.stop()
  }

  /** A key that did not come from the terminal, as Ctrl-C that came as a signal. */
  press(input: Input): void {
    this.#press(input)
  }

  /** The terminal has taken what was written. */
  drained(): void {
    this.#wake.abort(WOKEN)
  }

  /** Commands that were not sent before the end, as the rest of a paste. */
  get unsent(): readonly string[] {
    return this.#orders.unsent()
  }

  /** Gives the keys back. */
  unmount(): void {
    this.#screen.unmount()
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
    this.#size = this.#options.terminal.size()
    this.#options.terminal.write(this.#painter.restart())
    this.#request(true)
  }

  /** Asks for a frame; `urgent`: a key waits for its answer. */
  #request(urgent: boolean): void {
    if (this.#dirty && (!urgent || this.#urgent)) return
    this.#dirty = true
    this.#urgent ||= urgent
    this.#wake.abort(WOKEN)
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
      exportPath: join(this.#options.exportFolder, exportName(this.#options.server.name, this.#clock.nowMs())),
      columns: layoutOf(this.#size).columns,
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
      case 'answerEula':
        void this.#orders.answerEula(effect.accepted)
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
        this.#report(
          exportLines(
            this.#lines.kept(this.state),
            effect.path,
            isFiltered(this.state) ? 'all that match' : 'all kept here',
          ),
        )
        break
      case 'mouse':
        this.#options.terminal.mouse(effect.on)
        break
      case 'stopSending':
        this.#orders.stop()
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

  /** Says what came of work with files; a failure there is shown, not thrown. */
  #report(work: Promise<string | undefined>): void {
    const reported = work.then(
      (text) => (text === undefined ? undefined : this.#say(text)),
      (error: unknown) => this.#say(`✗ ${sentenceOf(error)}`),
    )
    this.#reports.add(reported)
    void reported.finally(() => this.#reports.delete(reported))
  }

  #say(text: string): void {
    this.#store.set(notify(this.state, text, this.#clock.nowMs()))
  }

  #shown(): ReturnType<typeof tailRows> {
    const pane = this.#lines.pane(this.state)
    return this.state.follow ? tailRows(pane) : rowsFrom(pane, this.state.anchor)
  }

  /** Draws a frame when something changed and its time has come; works on searches in between. */
  async #draw(): Promise<void> {
    const { terminal } = this.#options
    const painter = this.#painter
    const meter = createRateMeter(this.#clock.monotonicMs())
    let drawnAt = Number.NEGATIVE_INFINITY
    let costMs = 0
    while (!this.#end.signal.aborted) {
      const searching = this.#lines.advance(this.state)
      if (this.state.seek !== undefined) this.#store.set(settleSeek(this.state, this.#around(), !searching))
      const now = this.#clock.monotonicMs()
      this.#settle(meter.at(this.#progress.lines, now))
      const urgent = this.#urgent
      // A key is answered at once, unless answers alone would take more than half of a core.
      const due = drawnAt + (urgent ? costMs : frameInterval({ rate: this.state.facts.rate, costMs }))
      // While the terminal has not taken the last frame, a newer one could only wait; an answer to a key goes before its rest.
      const wanted = this.#dirty || now - drawnAt >= 1000 || searching
      if (wanted && now >= due && !terminal.busy() && (urgent || !painter.behind)) {
        this.#dirty = false
        this.#urgent = false
        this.#paint(searching)
        drawnAt = this.#clock.monotonicMs()
        costMs += (drawnAt - now - costMs) / 5
        this.#send(urgent)
      } else {
        this.#send(false)
      }
      if (searching) await nextTurn()
      else await this.#pause(terminal.busy() ? 1000 : painter.behind ? CREDIT_MS : this.#dirty ? due - now : 1000)
    }
  }

  /** Sends as much of the frame as the terminal is likely to take at once; more of it where a key waits for the answer. */
  #send(urgent: boolean): void {
    const { terminal } = this.#options
    if (terminal.busy() || !this.#painter.behind) return
    const room = terminal.room()
    const most = urgent ? Math.max(room, ANSWER_BYTES) : room
    if (most >= 1) terminal.write(this.#painter.take(most))
  }

  /** Waits until something happens, at most `ms`. */
  async #pause(ms: number): Promise<void> {
    this.#wake = new AbortController()
    if (!this.#end.signal.aborted) await this.#clock.sleep(Math.max(1, ms), this.#wake.signal)
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
    const { server, contextName } = this.#options
    const index = matches === undefined || state.matchAt === undefined ? -1 : matches.rank(state.matchAt)
    const view = {
      nowMs: Math.ceil(this.#clock.nowMs() / 1000) * 1000,
      end: state.follow ? 0 : this.#ring.end,
      match: matches === undefined ? undefined : { index, count: matches.length, searching },
      sampling: state.follow && state.facts.rate > SAMPLE_RATE && !isFiltered(state),
    }
    const chrome = this.#screen.render({
      state,
      view,
      nodeName: server.nodeName,
      address: server.address,
      contextName,
      size: this.#size,
    })
    this.#lines.resize({ width: chrome.logWidth, height: chrome.logHeight })
    const rows = chrome.logHeight === 0 ? [] : this.#shown().map(({ text }) => text)
    const blank = Array.from({ length: Math.max(0, chrome.logHeight - rows.length) }, () => '')
    // The newest line stands at the bottom while there are few.
    const log = state.follow ? [...blank, ...rows] : [...rows, ...blank]
    this.#painter.show({ above: chrome.above, log, below: chrome.below, cursor: chrome.cursor })
  }
}
