import type { Clock } from '../../shared/kernel/time.ts'
import type {
  ConsoleLine,
  FetchResult,
  fetchConsole,
  LogBounds,
  subscribeConsole,
} from '../../shared/protocol/console.ts'
import type { InputOf } from '../../shared/protocol/define.ts'
import { type AgentFrame, type DaemonFrame, GATEWAY_LIMITS } from '../../shared/protocol/frames.ts'
import { type AgentLog, errorText } from '../logger.ts'
import type { ConsoleLog } from './console-log.ts'

const FETCH_BYTES = 512 * 1024
const LINES_PER_FRAME = 1000
/** How old the knowledge of the newest line may be that is sent to a daemon that is behind. */
const LOOK_MS = 250

/** The way to the daemon that console lines take. */
export interface ConsoleChannel {
  /** Sends a frame when the socket has room again; frames of several servers take turns. Rejects when the socket is gone. */
  send(frame: AgentFrame): Promise<void>
  /** Aborts when the connection ends; every subscription ends with it. */
  readonly closed: AbortSignal
}

interface Subscription {
  readonly stop: AbortController
  /** The one that lines are sent under; those of earlier epochs of the log as well. */
  epoch: string
  epochs: ReadonlySet<string>
  /** Frames under way, oldest first. */
  unacked: { readonly last: number; readonly bytes: number }[]
  unackedBytes: number
  /** From one frame to the next. */
  everyMs: number
  wake: () => void
}

type Acknowledgement = Extract<DaemonFrame, { type: 'console.ack' }>
type Subscribe = InputOf<typeof subscribeConsole>
type Fetch = InputOf<typeof fetchConsole>

/**
 * The console feeds of one connection. A feed is a reader of the log file: it sends what follows its number, waits while
 * 512 KiB are unacknowledged or the socket is full, and leaves nothing out; only what the log itself has dropped is sent as
 * a gap.
 */
export class ConsoleFeeds {
  readonly #channel: ConsoleChannel
  readonly #clock: Clock
  readonly #log: AgentLog
  readonly #feeds = new Map<string, Subscription>()

  constructor(channel: ConsoleChannel, clock: Clock, log: AgentLog) {
    this.#channel = channel
    this.#clock = clock
    this.#log = log
  }

  /** Begins a feed, in place of an earlier one of this server. */
  async subscribe(log: ConsoleLog, request: Subscribe): Promise<LogBounds> {
    this.unsubscribe(request.serverId)
    const feed: Subscription = {
      stop: new AbortController(),
      epoch: '',
      epochs: new Set(),
      unacked: [],
      unackedBytes: 0,
      everyMs: GATEWAY_LIMITS.consoleFlushMs,
      wake: () => {},
    }
    this.#feeds.set(request.serverId, feed)
    const bounds = await log.bounds()
    if (feed.stop.signal.aborted) return bounds // given up or begun anew while the log was looked at
    feed.epoch = bounds.epoch
    feed.epochs = epochsOf(bounds)
    const signal = AbortSignal.any([feed.stop.signal, this.#channel.closed])
    // The answer to the request goes out first, so that no line comes before it.
    setImmediate(() => {
      this.#run(request.serverId, log, { feed, signal, after: startOf(request, bounds) }).catch((error: unknown) => {
        if (signal.aborted) return
        this.#log.error({ serverId: request.serverId, err: errorText(error) }, 'console feed failed')
      })
    })
    return bounds
  }

  unsubscribe(serverId: string): void {
    this.#feeds.get(serverId)?.stop.abort()
    this.#feeds.delete(serverId)
  }

  /** The daemon has passed on every line up to `seq`. */
  acknowledge({ serverId, epoch, seq, everyMs = 0 }: Acknowledgement): void {
    const feed = this.#feeds.get(serverId)
    if (feed === undefined || feed.epoch !== epoch) return
    const { consoleFlushMs, consoleSlowFlushMs } = GATEWAY_LIMITS
    feed.everyMs = Math.min(consoleSlowFlushMs, Math.max(consoleFlushMs, everyMs))
    while (feed.unacked[0] !== undefined && feed.unacked[0].last <= seq) {
      feed.unackedBytes -= feed.unacked.shift()?.bytes ?? 0
    }
    feed.wake()
  }

  async #run(serverId: string, log: ConsoleLog, state: FeedState): Promise<void> {
    const { feed, signal } = state
    let after = state.after
    let lookedMs = this.#clock.monotonicMs()
    while (!signal.aborted) {
      await windowOpen(feed, signal)
      if (signal.aborted) return
      const beganMs = this.#clock.monotonicMs()
      const lines = await log.after(after, { lines: LINES_PER_FRAME, bytes: GATEWAY_LIMITS.consoleFlushBytes })
      const first = lines[0]?.[0]
      const last = lines.at(-1)?.[0]
      if (first === undefined || last === undefined) {
        await log.waitAfter(after, feed.epoch, signal)
        // A log that holds nothing yet gets its epoch with its first line.
        if (!signal.aborted) after = await this.#renewEpoch(feed, log, after)
        continue
      }
      if (!feed.epochs.has(log.epochOf(first))) {
        after = await this.#renewEpoch(feed, log, after)
        continue
      }
      if (first > after + 1) {
        await this.#channel.send({ type: 'console.gap', serverId, epoch: feed.epoch, from: after + 1, to: first - 1 })
      }
      const bytes = lines.reduce((sum, [, , , text]) => sum + Buffer.byteLength(text) + 32, 0)
      feed.unacked.push({ last, bytes })
      feed.unackedBytes += bytes
      const full = lines.length >= LINES_PER_FRAME || bytes >= GATEWAY_LIMITS.consoleFlushBytes / 2
      if (full && beganMs - lookedMs >= LOOK_MS) {
        lookedMs = beganMs
        await log.bounds()
      }
      const more = full && log.newest > last ? { last: log.newest } : {}
      await this.#channel.send({ type: 'console', serverId, epoch: feed.epoch, lines: [...lines], ...more })
      after = last
      // The first line after a quiet time has gone out at once; what follows closely shares a frame.
      const leftMs = beganMs + feed.everyMs - this.#clock.monotonicMs()
      if (!full && leftMs > 0) await this.#clock.sleep(leftMs, signal)
    }
  }

  /** Notices a log that was made anew, whose numbers begin anew as well, or that goes on under another epoch. */
  async #renewEpoch(feed: Subscription, log: ConsoleLog, after: number): Promise<number> {
    const bounds = await log.bounds()
    if (bounds.epoch === feed.epoch) {
      feed.epochs = epochsOf(bounds)
      return after
    }
    const wasEmpty = feed.epoch === ''
    const from = wasEmpty ? after : (continuedAfter(bounds, feed.epoch, after) ?? bounds.first - 1)
    feed.epoch = bounds.epoch
    feed.epochs = epochsOf(bounds)
    // What is under way is of the old epoch, and is not waited for.
    feed.unacked = []
    feed.unackedBytes = 0
    return from
  }
}

/** How far somebody has the lines of this log who has those of `epoch` up to `seq`; `undefined`: the log has none of it. */
function continuedAfter({ epochs = [] }: LogBounds, epoch: string, seq: number): number | undefined {
  const index = epochs.findIndex((one) => one.epoch === epoch)
  if (index === -1) return undefined
  const next = epochs[index + 1]
  return next === undefined ? seq : Math.min(seq, next.first - 1)
}

interface FeedState {
  readonly feed: Subscription
  readonly signal: AbortSignal
  readonly after: number
}

/** A page of a log, for those who look back. */
export async function fetchLines(log: ConsoleLog, request: Fetch): Promise<FetchResult> {
  const max = { lines: request.max, bytes: FETCH_BYTES }
  const bounds = await log.bounds()
  const lines =
    request.after === undefined
      ? await log.before(request.before ?? bounds.last + 1, max)
      : await log.after(request.after, max)
  return { ...bounds, lines: fitting(lines, request.after === undefined) }
}

/** As many lines as one frame takes; escaping makes control characters six times as long. */
function fitting(lines: readonly ConsoleLine[], keepNewest: boolean): ConsoleLine[] {
  let room = GATEWAY_LIMITS.maxFrameBytes - 16 * 1024
  if (Buffer.byteLength(JSON.stringify(lines)) <= room) return [...lines]
  const kept: ConsoleLine[] = []
  for (const line of keepNewest ? lines.toReversed() : lines) {
    room -= Buffer.byteLength(JSON.stringify(line)) + 1
    if (room < 0) break
    kept.push(line)
  }
  return keepNewest ? kept.reverse() : kept
}

/** The epochs of which lines can be sent under the present one. */
function epochsOf({ epoch, epochs = [] }: LogBounds): Set<string> {
  return new Set([epoch, ...epochs.map((one) => one.epoch)])
}

/** The number that the feed begins after. An unknown epoch means that every line of this log is new to the viewer. */
function startOf(request: Subscribe, bounds: LogBounds): number {
  const { first, last } = bounds
  const tail = request.tail === undefined ? undefined : Math.max(first - 1, last - request.tail)
  if (request.after === undefined) return tail ?? last
  if (request.epoch !== undefined && request.epoch !== bounds.epoch) {
    return continuedAfter(bounds, request.epoch, request.after) ?? tail ?? first - 1
  }
  return Math.min(request.after, last)
}

async function windowOpen(feed: Subscription, signal: AbortSignal): Promise<void> {
  while (feed.unackedBytes >= GATEWAY_LIMITS.consoleWindowBytes && !signal.aborted) {
    await new Promise<void>((resolve) => {
      const done = (): void => {
        signal.removeEventListener('abort', done)
        resolve()
      }
      feed.wake = done
      signal.addEventListener('abort', done)
    })
  }
}
