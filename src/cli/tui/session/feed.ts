import { setImmediate as nextTurn } from 'node:timers/promises'
import { z } from 'zod'
import { ConsoleFrame, EulaFrame, ResumeFrame, streamConsole } from '../../../shared/api/console.ts'
import { streamServerEvents } from '../../../shared/api/server-events.ts'
import { getServer } from '../../../shared/api/servers.ts'
import type { Client } from '../../../shared/client.ts'
import { PanelError } from '../../../shared/kernel/errors.ts'
import { EVENTS, ResourceStats, StreamError } from '../../../shared/kernel/events.ts'
import type { ServerId } from '../../../shared/kernel/ids.ts'
import type { Clock } from '../../../shared/kernel/time.ts'
import type { BatchOpener, Frame, StreamItem } from '../../net/stream.ts'
import type { Ring } from '../log/ring.ts'
import { askedForEula, eulaFacts, withEula } from '../model/eula.ts'
import { grouped, withStats, withStatus, withStreamError } from '../model/facts.ts'
import { notify } from '../model/model.ts'
import type { Store } from './store.ts'

export interface FeedOptions {
  readonly open: BatchOpener
  readonly serverId: ServerId
  /** How many lines before the first live one. */
  readonly tail: number
  /** Resume behind this line instead. */
  readonly afterCursor: string | undefined
  readonly ring: Ring
  readonly store: Store
  readonly clock: Clock
  readonly signal: AbortSignal
}

/** How far the console has been read; read by the ticker, because a change of state for every line would be too dear. */
export interface Progress {
  /** Lines that the game has written since the stream was opened; those that were there before are no rate. */
  lines: number
  epoch: string
  seq: number
}

const TURN_MS = 4

/**
 * Reads the console stream into the ring until it is stopped or ends. Throws the refusal when the very first connection is
 * refused; a later one is shown and ends it. The event loop gets its turn every 4 ms, so that keys are answered in a burst.
 */
export async function followConsole(options: FeedOptions, progress: Progress): Promise<void> {
  const { store, clock } = options
  let opened = false
  let turnEnds = clock.monotonicMs() + TURN_MS
  const input = { params: { serverId: options.serverId }, query: { lines: options.tail } }
  const overrides = {
    signal: options.signal,
    ...(options.afterCursor === undefined ? {} : { lastEventId: options.afterCursor }),
  }
  try {
    for await (const items of options.open(streamConsole, input, overrides)) {
      for (const item of items) {
        if (item.kind === 'open') opened = true
        if (item.kind === 'frame') takeConsoleFrame(item, options, progress)
        else takeLink(item, options)
      }
      if (clock.monotonicMs() < turnEnds) continue
      await nextTurn()
      turnEnds = clock.monotonicMs() + TURN_MS
    }
    if (!options.signal.aborted) store.facts((facts) => ({ ...facts, link: { kind: 'ended' } }))
  } catch (error) {
    if (!opened || !(error instanceof PanelError)) throw error
    const { code, message } = error
    store.facts((facts) => ({ ...facts, link: { kind: 'refused', code, message } }))
  }
}

type ReadOptions = Pick<FeedOptions, 'serverId' | 'store' | 'clock' | 'signal'> & { readonly client: Client }
type EventOptions = ReadOptions & Pick<FeedOptions, 'open'>

/** Follows state and usage until it is stopped. Whoever may not read them sees the console without. */
export async function followEvents(options: EventOptions): Promise<void> {
  try {
    const input = { params: { serverId: options.serverId }, query: {} }
    for await (const items of options.open(streamServerEvents, input, { signal: options.signal })) {
      for (const item of items) if (item.kind === 'frame') takeEvent(item, options)
    }
  } catch (error) {
    // Refused for want of a right or because the server is gone: the console stream says what matters, usage stays empty.
    if (!(error instanceof PanelError)) throw error
  }
}

/** Reads the state of the server and its node once; the events say what changes. */
export async function readServer(options: ReadOptions): Promise<void> {
  const { client, serverId, store, clock, signal } = options
  try {
    const server = await client.call(getServer, { params: { serverId } }, { signal })
    const startedMs = server.startedAt === null ? undefined : Date.parse(server.startedAt)
    const { eula, mayStart } = eulaFacts(server)
    store.set(withEula(store.get(), eula))
    store.facts((facts) => {
      const known = { ...withStatus(facts, server.status, clock.nowMs(), startedMs), mayStart }
      if (server.node.isOnline) return known
      return { ...known, nodeOfflineSinceMs: known.nodeOfflineSinceMs ?? clock.nowMs() }
    })
  } catch (error) {
    // The streams say the rest; without server.read there is nothing to add.
    if (signal.aborted || (error instanceof PanelError && error.code === 'PERMISSION_DENIED')) return
    const reason = error instanceof Error ? error.message : String(error)
    store.set(notify(store.get(), `state not read: ${reason}`, clock.nowMs()))
  }
}

function takeLink(item: StreamItem, options: FeedOptions): void {
  const { store, clock } = options
  if (item.kind === 'open') {
    store.facts((facts) => ({ ...facts, link: { kind: 'live' }, limit: undefined }))
  } else if (item.kind === 'retrying') {
    const untilMs = clock.nowMs() + item.inMs
    store.facts((facts) => {
      if (facts.link.kind === 'refused') return facts
      return { ...facts, link: { kind: 'retrying', untilMs, attempt: item.attempt } }
    })
  }
}

/** What is kept of a line; to check more is dear in a flood. */
const Line = ConsoleFrame.pick({ line: true, stream: true, seq: true }).extend({ timestamp: z.string() })
type Line = z.infer<typeof Line>
const Asked = EulaFrame.pick({ eulaText: true })
const Connected = z.object({ lastSeq: z.int().optional() })

function takeConsoleFrame(item: Frame, options: FeedOptions, progress: Progress): void {
  const { store } = options
  if (item.event === 'console') {
    const line = Line.safeParse(readJson(item.data))
    if (line.success) appendLine(item.id, line.data, options, progress)
  } else if (item.event === 'resume_console') {
    const frame = ResumeFrame.safeParse(readJson(item.data))
    if (frame.success) resume(item.id, frame.data, options, progress)
  } else if (item.event === 'eula_required') {
    const frame = Asked.safeParse(readJson(item.data))
    if (frame.success) store.set(askedForEula(store.get(), frame.data.eulaText))
  } else if (item.event === 'connected') {
    const frame = Connected.safeParse(readJson(item.data))
    if (frame.success) store.facts((facts) => ({ ...facts, headSeq: frame.data.lastSeq ?? 0 }))
  } else if (item.event === 'error') {
    takeError(item, options)
  }
}

function appendLine(id: string, frame: Line, options: FeedOptions, progress: Progress): void {
  const epoch = epochOf(id) ?? progress.epoch
  const same = epoch === progress.epoch && progress.seq > 0
  if (same && frame.seq <= progress.seq) return
  if (same && frame.seq > progress.seq + 1) appendGap(progress.seq + 1, frame.seq - 1, options.ring)
  const ms = Date.parse(frame.timestamp)
  const known = Number.isNaN(ms) ? options.clock.nowMs() : ms
  options.ring.append({ seq: frame.seq, ms: known, kind: frame.stream, text: frame.line })
  progress.epoch = epoch
  progress.seq = frame.seq
  if (frame.seq > options.store.get().facts.headSeq) progress.lines += 1
  options.store.touch()
}

/** A resume that found lines missing leaves a row that says which. */
function resume(id: string, frame: ResumeFrame, options: FeedOptions, progress: Progress): void {
  if (frame.missed > 0) appendGap(frame.from, frame.to, options.ring, frame)
  const epoch = epochOf(id)
  if (epoch !== undefined && (frame.missed > 0 || epoch !== progress.epoch)) {
    progress.epoch = epoch
    progress.seq = Math.max(0, frame.to)
  }
  options.store.touch()
}

const REASONS = {
  trimmed: 'trimmed from the log',
  epoch: 'the log began anew',
  unknown_id: 'unknown place',
  damaged: 'the log was damaged on the node',
} as const

function appendGap(from: number, to: number, ring: Ring, resumed?: ResumeFrame): void {
  const count = resumed?.missed ?? to - from + 1
  const why = resumed?.reason == null ? 'not shown live' : REASONS[resumed.reason]
  ring.append({ seq: from, ms: to, kind: 'gap', text: gapText(from, to, count, why) })
}

/** The words of a gap row. */
export function gapText(from: number, to: number, count: number, why: string): string {
  return `gap: ${grouped(count)} lines ${why} (seq ${grouped(from)}..${grouped(to)})`
}

const StateEvent = EVENTS.server_state_update.data.pick({ state: true }).extend({ timestamp: z.string() })

function takeEvent(item: Frame, options: EventOptions): void {
  if (item.event === 'server_state_update') {
    const frame = StateEvent.safeParse(readJson(item.data))
    if (!frame.success) return
    const at = Date.parse(frame.data.timestamp)
    options.store.facts((facts) => withStatus(facts, frame.data.state, Number.isNaN(at) ? options.clock.nowMs() : at))
    // Somebody else may have answered.
    if (options.store.get().facts.eula !== undefined) void readServer(options)
  } else if (item.event === 'resource_stats') {
    const frame = ResourceStats.safeParse(readJson(item.data))
    if (!frame.success) return
    const { uptimeMs } = frame.data
    const since = uptimeMs === null ? undefined : options.clock.nowMs() - uptimeMs
    options.store.facts((facts) => withStats(facts, frame.data, since))
  } else if (item.event === 'error') {
    takeError(item, options)
  }
}

function takeError(item: Frame, options: Pick<FeedOptions, 'store' | 'clock'>): void {
  const frame = StreamError.safeParse(readJson(item.data))
  if (frame.success) options.store.facts((facts) => withStreamError(facts, frame.data, options.clock.nowMs()))
}

/** The log that a line's id, `<epoch>-<number>`, belongs to. */
function epochOf(id: string): string | undefined {
  const end = id.lastIndexOf('-')
  return end < 1 ? undefined : id.slice(0, end)
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // no frame of ours: its schema refuses it
  }
}
