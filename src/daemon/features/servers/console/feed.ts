import type { Clock } from '../../../../shared/kernel/time.ts'
import type { ConsoleLine, FetchResult, LogBounds } from '../../../../shared/protocol/console.ts'
import { fetchConsole, subscribeConsole, unsubscribeConsole } from '../../../../shared/protocol/console.ts'
import type { Log } from '../../../core/log.ts'
import { agentCodeOf } from '../../../gateway/agent-errors.ts'
import type { Gateway } from '../../../gateway/gateway.ts'
import type { FrameOf } from '../../../gateway/handlers.ts'
import { type Batch, batches, PAGE_BYTES } from './batches.ts'
import { frameMaker } from './frames.ts'
import type { Pace } from './pace.ts'
import { type Page, Ring } from './ring.ts'

/** The part of the gateway that consoles need. */
export type ConsoleGateway = Pick<Gateway, 'request' | 'isOnline' | 'acknowledgeConsole' | 'can'>

/** What a feed needs. */
export interface FeedDeps {
  readonly gateway: ConsoleGateway
  readonly clock: Clock
  readonly log: Log
  /** What all viewers are sent live; the agent waits where that is less than the game says. */
  readonly pace: Pace
  /** The ring has grown: the hub keeps all rings together within its bound. */
  grown(feed: Feed): void
}

/** Who gets each batch while they are at the newest line. */
export interface LiveViewer {
  /** Takes the batch, or says that it has no room for it; then it gets no more and reads for itself. `nowMs`: the monotonic clock. */
  offer(batch: Batch, nowMs: number): boolean
  /** Something else has changed: read for yourself from where you are. */
  leave(): void
}

/** The time between two flushes is this and the root of the number of viewers: 9 ms for one, 15 for 50, 30 for 500. */
const FLUSH_MS = 8
/** Passing on takes at most a fifth of a processor, however many viewers there are. */
const MOST_SHARE = 5
/** How much the newest flush counts in what one is said to cost. */
const NEWEST_COUNTS = 0.2
/** Unless that would take longer: what waits makes the next flush longer in its turn. */
const LONGEST_FLUSH_MS = 80
/**
 * Lines that come this much of the time after a flush are passed on as they come: an agent sends them at that pace, and if they waited for the clock
 * here as well, they would wait for nearly twice the time.
 */
const SOON = 0.7
/** The agent hears how far lines have been passed on after so many bytes of frames, an eighth of what may be under way, or after a while. */
const ACK_BYTES = 64 * 1024
const ACK_MS = 200
/** Lines that a feed begins with, so that the usual first page needs no further request. */
const TAIL = 200
/** So many bytes are passed on where no viewer takes them at once: the ring holds a multiple of it. Then more lines wait a moment. */
const MOST_AHEAD = 4 * 1024 * 1024
const HOLD_MS = 250
const RETRY_MS = 1000
const MOST_EPOCHS = 64
/** The most that one request for a page asks for, so that slow viewers cost little. */
export const FETCH_LINES = 500

/**
 * The console of one watched server: one subscription at its agent, the newest lines in a ring, each line made into bytes
 * once. Numbers only rise within an epoch; whatever is not in the ring is read from the node's own log.
 */
export class Feed {
  readonly serverId: string
  readonly nodeId: string
  readonly ring = new Ring()
  readonly #deps: FeedDeps
  readonly #end = new AbortController()
  readonly #live = new Set<LiveViewer>()
  readonly #fetching = new Map<string, Promise<FetchResult>>()
  #waiting: (() => void)[] = []
  #state: 'idle' | 'subscribing' | 'live' = 'idle'
  /** Counts the subscriptions, so that the answer of an older one is not taken for that of the newest. */
  #turn = 0
  /** What came before the answer to the subscription was looked at. */
  #early: (() => void)[] = []
  #pending: ConsoleLine[] = []
  #flushing = false
  #nextFlushAt = 0
  #received = 0
  /** `undefined`: nothing is known of the log yet. '' is a log without a line. */
  epoch: string | undefined
  /** The epochs of the log, oldest first, each with its first line; the last one is the present. */
  #epochs: { readonly epoch: string; readonly first: number }[] = []
  /** The first line that the log had when it was last asked. */
  first = 1
  /** The newest line that viewers can have. */
  head = 0
  /** The newest line of the log when it was last asked, or the head. */
  last = 0
  /** The newest line that the agent has said that the log has; behind the head where lines come faster than they are passed on. */
  #newest = 0
  #flushCostMs = 0
  #acknowledging = false
  /** Passed on since the agent has heard of it, and what it has heard last of the time between two flushes. */
  #unsaidBytes = 0
  #saidEveryMs = 0
  #sayingLater = false
  /** Passed on since a viewer has had everything. */
  #aheadBytes = 0
  #joined = (): void => {}
  /** How often the log was found shorter than what had been passed on (a machine that lost its power). */
  rewinds = 0

  constructor(serverId: string, nodeId: string, deps: FeedDeps) {
    this.serverId = serverId
    this.nodeId = nodeId
    this.#deps = deps
  }

  get online(): boolean {
    return this.#deps.gateway.isOnline(this.nodeId)
  }

  get closed(): boolean {
    return this.#end.signal.aborted
  }

  /** The newest line that the log is known to have, or the head. */
  get newest(): number {
    return Math.max(this.#newest, this.head)
  }

  /** The last line of an earlier epoch that the log still has; `undefined`: it has none of that epoch. */
  endOf(epoch: string): number | undefined {
    const index = this.#epochs.findIndex((one) => one.epoch === epoch)
    const next = this.#epochs[index + 1]
    return index === -1 || next === undefined ? undefined : next.first - 1
  }

  /** Subscribes at the agent, from the newest known line on; also after the node has come back. */
  async subscribe(): Promise<void> {
    const turn = ++this.#turn
    this.#state = 'subscribing'
    while (turn === this.#turn && !this.closed && this.online) {
      const failure = await this.#trySubscribe(turn)
      if (failure === undefined || turn !== this.#turn) return
      // A server that its agent does not know yet gets its log with the first order.
      if (agentCodeOf(failure) === 'UNKNOWN_SERVER') this.#noLogYet()
      else this.#deps.log.debug({ serverId: this.serverId, err: failure }, 'cannot subscribe to console')
      await this.#deps.clock.sleep(RETRY_MS, this.#end.signal)
    }
    if (turn === this.#turn) this.#state = 'idle'
  }

  /** The node has gone: the subscription went with it. */
  offline(): void {
    this.#turn += 1
    this.#state = 'idle'
    this.#early = []
    this.#changed()
  }

  /** Ends the feed; an agent that is there is notified. */
  close(): void {
    if (this.closed) return // a second word would end the subscription of the feed that has followed this one
    this.#end.abort()
    this.#joined()
    this.#changed()
    if (!this.online) return
    const { serverId } = this
    this.#deps.gateway.request(this.nodeId, unsubscribeConsole, { serverId }).catch((err: unknown) => {
      this.#deps.log.debug({ serverId, err }, 'cannot unsubscribe from console, it ends with the connection')
    })
  }

  /** Takes lines of the agent. */
  take(frame: FrameOf<'console'>): void {
    if (this.#state === 'subscribing') return void this.#early.push(() => this.take(frame))
    if (this.#state !== 'live') return
    if (frame.epoch !== this.epoch) this.#beginWith(frame)
    for (const line of frame.lines) {
      if (line[0] <= this.#received) continue
      if (line[0] !== this.#received + 1) this.#skipTo(line[0] - 1)
      this.#pending.push(line)
      this.#received = line[0]
    }
    this.#newest = frame.last ?? this.#received
    if (this.#pending.length > 0) void this.#flushInTime()
    else this.#acknowledgeInTime()
  }

  /** The log has lost lines before they were read; viewers find out at the log itself. */
  takeGap(frame: FrameOf<'console.gap'>): void {
    if (this.#state === 'subscribing') return void this.#early.push(() => this.takeGap(frame))
    if (this.#state !== 'live' || frame.epoch !== this.epoch || frame.to <= this.#received) return
    this.#skipTo(frame.to)
    this.first = Math.max(this.first, frame.to + 1)
    this.#changed()
  }

  /** The frames after `seq` that the ring holds. */
  page(seq: number): Page | undefined {
    return this.ring.after(seq, PAGE_BYTES)
  }

  /** A page of the node's log; those who ask for the same at the same time share the answer. */
  fetch(after: number, max: number): Promise<FetchResult> {
    const key = `${after} ${max}`
    const known = this.#fetching.get(key)
    if (known !== undefined) return known
    const { serverId } = this
    const asked = this.#deps.gateway
      .request(this.nodeId, fetchConsole, { serverId, after, max })
      .finally(() => this.#fetching.delete(key))
    this.#fetching.set(key, asked)
    return asked
  }

  /** From now on the viewer, who is at the head, is handed each batch. */
  join(viewer: LiveViewer): void {
    this.#live.add(viewer)
    this.#aheadBytes = 0
    this.#joined()
  }

  part(viewer: LiveViewer): void {
    this.#live.delete(viewer)
  }

  /** Resolves at the next change of anything but the passing on of a batch to those at the head, or when `signal` aborts. */
  change(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted) return resolve()
      const done = (): void => {
        signal.removeEventListener('abort', done)
        resolve()
      }
      signal.addEventListener('abort', done)
      this.#waiting.push(done)
    })
  }

  async #trySubscribe(turn: number): Promise<unknown> {
    const { serverId, epoch } = this
    const from = epoch === undefined ? { tail: TAIL } : { epoch, after: this.#received }
    this.#early = []
    try {
      const bounds = await this.#deps.gateway.request(this.nodeId, subscribeConsole, { serverId, ...from })
      if (turn !== this.#turn) return undefined // the connection is another one by now
      this.#known(bounds)
      this.#state = 'live'
      const early = this.#early
      this.#early = []
      for (const take of early) take()
      this.#changed()
      return undefined
    } catch (error) {
      return error
    }
  }

  #known(bounds: LogBounds): void {
    const { epoch, first, last } = bounds
    const known = this.epoch
    this.#epochs = bounds.epochs === undefined ? [{ epoch, first }] : [...bounds.epochs]
    if (known === undefined) {
      this.epoch = epoch
      this.#received = Math.max(first - 1, last - TAIL)
      this.head = this.#received
    } else if (epoch !== known) {
      const end = this.endOf(known)
      this.#begin(epoch, end === undefined ? first : Math.min(this.#received, end) + 1)
    } else if (last < this.#received) {
      this.#flush()
      this.rewinds += 1
      this.#skipTo(last)
    }
    this.first = first
    this.last = Math.max(last, this.head)
  }

  /** The agent has no log of this server: the same as an empty one. */
  #noLogYet(): void {
    if (this.epoch !== undefined) return
    this.epoch = ''
    this.#changed()
  }

  /** The first lines of another epoch: of a new log, or of one that goes on behind an end that it may have lost. */
  #beginWith({ epoch, lines }: FrameOf<'console'>): void {
    const start = lines[0]?.[0] ?? 1
    const { first } = this
    const goesOn = start > first
    this.#epochs = goesOn ? [...this.#epochs, { epoch, first: start }].slice(-MOST_EPOCHS) : [{ epoch, first: start }]
    this.#begin(epoch, start)
    if (goesOn) this.first = first
  }

  /** Another log takes the place of the known one. */
  #begin(epoch: string, first: number): void {
    this.#flush()
    this.epoch = epoch
    this.first = first
    this.last = first - 1
    this.#skipTo(first - 1)
    this.#changed()
  }

  /** The ring begins anew behind `seq`; what lies before can only be read from the node. */
  #skipTo(seq: number): void {
    this.#flush()
    this.ring.clear()
    this.#received = seq
    this.#newest = 0
    this.head = seq
    this.last = Math.max(this.last, seq)
    this.#changed()
  }

  /** The first line after a quiet time goes out at once, what follows closely shares a batch. */
  async #flushInTime(): Promise<void> {
    if (this.#flushing) return
    this.#flushing = true
    const { clock } = this.#deps
    const waitMs = this.#nextFlushAt - clock.monotonicMs()
    if (waitMs > 0) await clock.sleep(waitMs, this.#end.signal)
    this.#flushing = false
    const began = clock.monotonicMs()
    const usedMs = cpuMs()
    this.#flush()
    this.#flushCostMs += (cpuMs() - usedMs - this.#flushCostMs) * NEWEST_COUNTS
    this.#nextFlushAt = began + this.#everyMs() * SOON
    this.#acknowledgeInTime()
  }

  /** The time from one flush to the next. */
  #everyMs(): number {
    const wanted = Math.max(FLUSH_MS + Math.sqrt(this.#live.size), this.#flushCostMs * MOST_SHARE)
    return Math.min(LONGEST_FLUSH_MS, wanted)
  }

  #flush(): void {
    if (this.#pending.length === 0) return
    const lines = this.#pending
    this.#pending = []
    const { serverId, epoch = '' } = this
    const { clock, pace } = this.#deps
    const nowMs = clock.monotonicMs()
    for (const batch of batches(lines, frameMaker(serverId, epoch))) {
      this.ring.append(batch, nowMs)
      pace.spend(batch.to - batch.from + 1, batch.bytes.length, nowMs)
      this.#unsaidBytes += batch.bytes.length
      this.#aheadBytes = this.#live.size > 0 ? 0 : this.#aheadBytes + batch.bytes.length
      this.head = batch.to
      this.last = Math.max(this.last, batch.to)
      for (const viewer of this.#live) if (!viewer.offer(batch, nowMs)) this.#live.delete(viewer)
    }
    this.#deps.grown(this)
    this.#wakeWaiting()
  }

  /** A word for each flush would cost the agent as much as the lines do. */
  #acknowledgeInTime(): void {
    const said = this.#saidEveryMs
    const everyMs = this.#everyMs()
    if (this.#unsaidBytes >= ACK_BYTES || everyMs > said * 1.2 || everyMs < said * 0.8) void this.#acknowledge()
    else void this.#acknowledgeLater()
  }

  async #acknowledgeLater(): Promise<void> {
    if (this.#sayingLater) return
    this.#sayingLater = true
    await this.#deps.clock.sleep(ACK_MS, this.#end.signal)
    this.#sayingLater = false
    if (!this.closed) void this.#acknowledge()
  }

  /**
   * Says to the agent how far lines have been passed on, and how often more of them are wanted. A game that says more than may be
   * passed on, or than any viewer takes, waits in its log: what is not acknowledged keeps the agent from sending.
   */
  async #acknowledge(): Promise<void> {
    const { gateway, pace } = this.#deps
    if (this.#acknowledging) return
    this.#acknowledging = true
    await pace.wait(this.#end.signal)
    await this.#keptUp()
    this.#acknowledging = false
    const { serverId, epoch, nodeId } = this
    if (epoch === undefined || this.#state !== 'live' || this.head === 0) return
    this.#unsaidBytes = 0
    this.#saidEveryMs = this.#everyMs()
    gateway.acknowledgeConsole(nodeId, { serverId, epoch, seq: this.head, everyMs: Math.ceil(this.#saidEveryMs) })
  }

  /**
   * Resolves when one viewer at least has about all that was passed on, or after a moment: more lines would only push those that
   * viewers read next out of the ring.
   */
  async #keptUp(): Promise<void> {
    if (this.#live.size > 0 || this.#aheadBytes < MOST_AHEAD || this.closed) return
    const kept = new AbortController()
    this.#joined = () => kept.abort()
    await this.#deps.clock.sleep(HOLD_MS, kept.signal)
  }

  #changed(): void {
    for (const viewer of [...this.#live]) viewer.leave()
    this.#live.clear()
    this.#wakeWaiting()
  }

  #wakeWaiting(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const resolve of waiting) resolve()
  }
}

/** What this process has used of processors. A flush that other work of the machine holds up costs no more for that. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
