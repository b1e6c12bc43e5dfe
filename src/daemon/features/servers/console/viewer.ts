import type { Clock } from '../../../../shared/kernel/time.ts'
import type { FetchResult } from '../../../../shared/protocol/console.ts'
import type { Log } from '../../../core/log.ts'
import type { SseConnection } from '../../../http/sse.ts'
import { type Batch, batches, PAGE_BYTES } from './batches.ts'
import { FETCH_LINES, type Feed, type LiveViewer } from './feed.ts'
import { frameMaker, lineId, type Position, type Resume } from './frames.ts'
import type { Pace } from './pace.ts'
import type { Page } from './ring.ts'

/** Where a viewer begins: after a line that it has seen, or with the last ones. */
export interface Start {
  readonly resume: Position | undefined
  readonly lines: number
}

/** What a viewer stands between. */
export interface ViewerDeps {
  readonly feed: Feed
  readonly connection: SseConnection
  readonly clock: Clock
  readonly log: Log
  readonly pace: Pace
}

const MOST_UNSENT = 256 * 1024
/** A viewer that takes no byte for so long is taken for dead. */
const STALLED_MS = 5 * 60_000
const RETRY_MS = 1000
const KNOWN_MS = 2000
/** Who is behind for so long lags, and hears of it this often. */
const LAG_MS = 1000

/**
 * One viewer: a cursor in the log. At the head it is handed the shared batches; behind, it reads pages from the ring or from
 * the node at its own pace, with at most 256 KiB waiting for it. It is never left out of a line that still exists.
 */
export class Viewer implements LiveViewer {
  readonly #deps: ViewerDeps
  #epoch: string | undefined
  #cursor = 0
  #rewinds = 0
  /** Since when lines have been waiting for this viewer, and when that was said last. */
  #behindMs: number | undefined
  #saidMs: number | undefined
  #left = (): void => {}
  readonly #leave = (): void => this.#left()

  constructor(deps: ViewerDeps) {
    this.#deps = deps
  }

  /** Runs until the connection or the feed ends. */
  async run(start: Start): Promise<void> {
    const { feed, connection } = this.#deps
    await this.#greet(start)
    if (!(await this.#known())) return
    await this.#place(start)
    while (!this.#over()) {
      await this.#room()
      if (this.#over()) return
      this.#follow()
      if (this.#cursor === feed.head) await this.#stayAtHead()
      else if (this.#cursor > feed.head) await feed.change(connection.closed)
      else await this.#catchUp()
    }
  }

  offer(batch: Batch, nowMs: number): boolean {
    const { connection, pace } = this.#deps
    const fits = connection.unsentBytes + batch.bytes.length <= MOST_UNSENT && pace.waitMs(nowMs) === 0
    if (batch.from !== this.#cursor + 1 || !fits) {
      this.#left()
      return false
    }
    pace.spend(batch.to - this.#cursor, batch.bytes.length, nowMs)
    connection.writeShared(batch)
    this.#moved(batch.to, nowMs)
    return true
  }

  leave(): void {
    this.#left()
  }

  /** The node went away while this viewer watches; it stays and is notified. */
  reportOffline(): void {
    const { feed, connection } = this.#deps
    connection.send('error', {
      error: 'agent_offline',
      serverId: feed.serverId,
      nodeId: feed.nodeId,
      message: 'The node of this server is not connected; the console goes on when it is back',
    })
  }

  #over(): boolean {
    return this.#deps.connection.closed.aborted || this.#deps.feed.closed
  }

  async #greet(start: Start): Promise<void> {
    const { resume } = start
    const { feed, connection, clock } = this.#deps
    const enough = new AbortController()
    void clock.sleep(KNOWN_MS, AbortSignal.any([enough.signal, connection.closed])).then(() => enough.abort())
    while (feed.epoch === undefined && feed.online && !this.#over() && !enough.signal.aborted) {
      await feed.change(enough.signal)
    }
    enough.abort()
    const { serverId } = feed
    const behind = feed.newest - (resume !== undefined && resume.epoch === feed.epoch ? resume.seq : feed.head)
    const greeting = {
      serverId,
      ...(feed.epoch === undefined ? {} : { lastSeq: feed.last }),
      ...(feed.epoch !== undefined && behind > 0 ? { lagLines: behind } : {}),
    }
    // Who is cut off before the first line resumes here, too; who resumes has an id already.
    const epoch = resume === undefined ? (feed.epoch ?? '') : ''
    const place = epoch === '' ? undefined : lineId(epoch, this.#beginning(start))
    connection.send('connected', greeting, place)
    if (!feed.online) this.reportOffline()
  }

  async #known(): Promise<boolean> {
    const { feed, connection } = this.#deps
    while (feed.epoch === undefined && !this.#over()) await feed.change(connection.closed)
    return !this.#over()
  }

  /** The line behind which somebody begins who asks for the last lines. */
  #beginning({ lines }: Start): number {
    const { first, last } = this.#deps.feed
    return Math.max(first - 1, last - lines)
  }

  /** Finds the first line to show, and says what a resume has found. */
  async #place(start: Start): Promise<void> {
    const { resume } = start
    const { feed } = this.#deps
    this.#epoch = feed.epoch
    this.#rewinds = feed.rewinds
    if (resume === undefined) {
      this.#cursor = this.#beginning(start)
      return
    }
    if (resume.epoch !== feed.epoch) return this.#changeEpoch(resume)
    this.#cursor = resume.seq
    const inRing = feed.ring.first !== undefined && resume.seq + 1 >= feed.ring.first && resume.seq <= feed.head
    if (resume.seq === feed.head || inRing)
      return this.#sendResume({ from: resume.seq + 1, to: resume.seq, missed: 0, reason: null })
    const found = await this.#fetch(1)
    if (found === undefined) return
    if (found.epoch !== resume.epoch) return this.#changeEpoch(resume)
    if (found.last < resume.seq) {
      this.#cursor = found.last
      return this.#sendResume({ from: found.last + 1, to: found.last, missed: 0, reason: 'unknown_id' })
    }
    const missed = Math.max(0, found.first - 1 - resume.seq)
    this.#cursor = resume.seq + missed
    this.#sendResume({ from: resume.seq + 1, to: this.#cursor, missed, reason: missed > 0 ? 'trimmed' : null })
  }

  /**
   * The log has another epoch than the viewer knows: it goes on behind what is left of that one, or it is all new to the
   * viewer.
   */
  #changeEpoch(known: Position): void {
    const { feed } = this.#deps
    this.#epoch = feed.epoch
    const end = feed.endOf(known.epoch)
    if (end !== undefined) {
      this.#cursor = Math.max(feed.first - 1, Math.min(known.seq, end))
      const missed = Math.max(0, this.#cursor - known.seq)
      this.#sendResume({ from: this.#cursor - missed + 1, to: this.#cursor, missed, reason: 'damaged' })
      return
    }
    this.#cursor = feed.first - 1
    this.#sendResume({ from: 1, to: this.#cursor, missed: this.#cursor, reason: 'epoch' })
  }

  /** Keeps in step with a log that was made anew, or has lost its end. */
  #follow(): void {
    const { feed } = this.#deps
    if (this.#epoch === '' && feed.epoch !== '') this.#epoch = feed.epoch // the log has got its first line
    if (this.#epoch !== feed.epoch) this.#changeEpoch({ epoch: this.#epoch ?? '', seq: this.#cursor })
    if (this.#rewinds === feed.rewinds) return
    this.#rewinds = feed.rewinds
    if (this.#cursor <= feed.head) return
    this.#cursor = feed.head
    this.#sendResume({ from: feed.head + 1, to: feed.head, missed: 0, reason: 'unknown_id' })
  }

  /** Waits among those who are handed each batch. */
  async #stayAtHead(): Promise<void> {
    const { feed, connection } = this.#deps
    await new Promise<void>((resolve) => {
      this.#left = resolve
      connection.closed.addEventListener('abort', this.#leave)
      feed.join(this)
    })
    connection.closed.removeEventListener('abort', this.#leave)
    this.#left = () => {}
    feed.part(this)
  }

  async #catchUp(): Promise<void> {
    const { feed, connection } = this.#deps
    const page = feed.page(this.#cursor)
    if (page !== undefined) {
      this.#write(page)
      return
    }
    const result = await this.#fetch(FETCH_LINES)
    if (result === undefined || result.epoch !== this.#epoch || feed.epoch !== this.#epoch) return
    const [line] = result.lines
    if (line === undefined) return void (await this.#deps.clock.sleep(RETRY_MS, connection.closed))
    if (line[0] > this.#cursor + 1) {
      const to = line[0] - 1
      this.#sendResume({ from: this.#cursor + 1, to, missed: to - this.#cursor, reason: 'trimmed' })
      this.#cursor = to
    }
    this.#writeLines(result)
  }

  /** Writes as many of the fetched lines as the viewer has room for, and may be sent now; the rest is read again later. */
  #writeLines({ epoch, lines }: FetchResult): void {
    const { feed, connection, pace } = this.#deps
    const fresh = lines.filter(([seq]) => seq > this.#cursor)
    for (const batch of batches(fresh, frameMaker(feed.serverId, epoch))) {
      this.#write({ ...batch, shared: batch })
      if (connection.unsentBytes > MOST_UNSENT - PAGE_BYTES || pace.waitMs() > 0) return
    }
  }

  #write(page: Page): void {
    const { clock, connection, pace } = this.#deps
    const nowMs = clock.monotonicMs()
    pace.spend(page.to - this.#cursor, page.bytes.length, nowMs)
    if (page.shared === undefined) connection.write(page.bytes)
    else connection.writeShared(page.shared)
    this.#moved(page.to, nowMs)
  }

  /** Moves the cursor behind what was sent; says how many lines still wait where that goes on, and when none does any more. */
  #moved(to: number, nowMs: number): void {
    const { feed, connection } = this.#deps
    this.#cursor = to
    const lines = feed.newest - to
    if (lines <= 0) {
      if (this.#saidMs !== undefined) connection.comment('no longer lagging')
      this.#behindMs = undefined
      this.#saidMs = undefined
      return
    }
    this.#behindMs ??= nowMs
    if (nowMs - (this.#saidMs ?? this.#behindMs) < LAG_MS) return
    this.#saidMs = nowMs
    connection.comment(`lagging by ${lines} lines`)
  }

  /** A page after the cursor; `undefined` when it cannot be had now, after a wait for something to change. */
  async #fetch(max: number): Promise<FetchResult | undefined> {
    const { feed, connection, clock, log } = this.#deps
    for (;;) {
      while (!feed.online && !this.#over()) await feed.change(connection.closed)
      if (this.#over()) return undefined
      try {
        const result = await feed.fetch(this.#cursor, max)
        if (result.epoch !== feed.epoch && feed.epoch !== undefined) await clock.sleep(RETRY_MS, connection.closed)
        return result
      } catch (err) {
        if (this.#over()) return undefined
        log.debug({ serverId: feed.serverId, err }, 'cannot read console page, retrying')
        await clock.sleep(RETRY_MS, connection.closed)
      }
    }
  }

  /** Resolves when there is room for a page. Ends the connection when nothing was taken for five minutes. */
  async #room(): Promise<void> {
    const { connection, clock, feed, log, pace } = this.#deps
    await pace.wait(connection.closed)
    while (connection.unsentBytes > MOST_UNSENT - PAGE_BYTES && !this.#over()) {
      const before = connection.unsentBytes
      const taken = new AbortController()
      const stalled = clock.sleep(STALLED_MS, taken.signal)
      await Promise.race([connection.drained(), stalled])
      taken.abort()
      if (connection.unsentBytes < before || this.#over()) continue
      log.info({ serverId: feed.serverId }, 'console viewer stalled for 5 min, closing stream')
      connection.fail('slow_consumer', { message: 'Nothing was read for five minutes; resume with Last-Event-ID' })
    }
  }

  #sendResume(resume: Resume): void {
    const { feed, connection } = this.#deps
    const id = this.#epoch === undefined || this.#epoch === '' ? undefined : lineId(this.#epoch, resume.to)
    connection.send('resume_console', { serverId: feed.serverId, ...resume }, id)
  }
}
