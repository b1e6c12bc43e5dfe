import { type Clock, type IsoTime, isoTime, now } from '../../shared/kernel/time.ts'
import type { Log } from '../core/log.ts'
import type { SystemErrors } from '../core/system-errors.ts'
import type { Db, Tx } from '../db/db.ts'
import { isStorageFailure } from '../db/sqlite/failures.ts'
import { type Advance, type Claim, LEASE_MS, type Moved, messageOf, Unprepared } from './advance.ts'
import type { JobMetrics } from './job-metrics.ts'
import type { Pool } from './job-type.ts'
import type { ProgressWriter } from './progress.ts'
import type { Registered, WrittenEnd } from './registry.ts'
import * as rows from './rows.ts'

/** A wait at most so long, because the wall clock may be set meanwhile. */
const LONGEST_WAIT_MS = 30_000
/** Jobs of one lane before others get a chance at its place. */
const IN_A_ROW = 50
/** Lanes that are read ahead, so that a long queue is not read again for each of them. */
const READ_AHEAD = 256
/** So long after its back-off nobody needs to know any more that a lane had failed. */
const FORGOTTEN_MS = 7 * 3_600_000
/** The wall clock counts as set back when rows are stamped so much ahead of it. */
const SET_BACK_MS = 5000
/** How long steps may take to end when the daemon stops. */
const GRACE_MS = 8000
/** How often a write is tried again that the disk has refused. */
const STORAGE_PAUSE_MS = 2000

/** A reason of its own: Node makes an error with a trace for each that has none. */
const WOKEN = new Error('something may be due')

/** What the runner works with. */
export interface RunnerDeps {
  readonly db: Db
  readonly clock: Clock
  readonly log: Log
  readonly systemErrors: Pick<SystemErrors, 'capture'>
  readonly metrics: JobMetrics
  readonly advance: Advance
  readonly progress: ProgressWriter
  readonly kinds: ReadonlyMap<string, Registered>
}

interface Busy {
  readonly lane: rows.Lane
  readonly work: Promise<void>
}

interface BackOff {
  /** It ends when either clock has passed it: a wall clock that is set back makes no back-off longer. */
  readonly untilMs: { readonly wall: number; readonly steady: number }
  readonly failures: number
}

/** What runs of a job, and what ends its attempt. */
interface Running {
  readonly claim: Claim
  readonly ending: AbortController
}

/** Why an attempt was ended before it was done: the reason of its signal. */
class Ended extends Error {
  readonly why: 'cancelled' | 'late' | 'stopping'

  constructor(why: Ended['why']) {
    super(`the attempt was ended: ${why}`)
    this.why = why
  }
}

/**
 * Carries out what is due, lanes side by side and each lane in order, as many at a time as their pools allow. It looks when a
 * commit has added or moved something and when the next job is due.
 */
export class Runner {
  readonly #deps: RunnerDeps
  readonly #busy = new Map<string, Busy>()
  /** Lanes that somebody works on by hand ({@link hold}). */
  readonly #held = new Set<string>()
  readonly #backingOff = new Map<string, BackOff>()
  readonly #running = new Map<string, Running>()
  readonly #ending = new AbortController()
  /** Lanes of each pool that were due when they were last read, and not begun yet. */
  readonly #ahead = new Map<string, rows.Lane[]>()
  #woken = new AbortController()
  #loops: Promise<void> | undefined
  /** The latest stamp of a row since due times were last put right; `undefined`: there is none, or nobody has looked yet. */
  #latest: IsoTime | undefined
  #hasLooked = false

  constructor(deps: RunnerDeps) {
    this.#deps = deps
  }

  /** Looks at once whether something is due. */
  wake(): void {
    this.#woken.abort(WOKEN)
  }

  /** Tries a lane again at once that backs off after failures: somebody has mended something. */
  endBackOff(lane: rows.Lane): void {
    this.#backingOff.delete(keyOf(lane))
    this.wake()
  }

  /** Ends the attempt that runs of a job, because it was cancelled. */
  abort(jobId: string): void {
    this.#running.get(jobId)?.ending.abort(new Ended('cancelled'))
  }

  /** Works in a lane instead of its jobs, which wait meanwhile; `undefined` while one of them is under way. */
  hold<T>(lane: rows.Lane, work: () => Promise<T>): Promise<T> | undefined {
    const key = keyOf(lane)
    if (this.#busy.has(key) || this.#held.has(key)) return undefined
    this.#held.add(key)
    return work().finally(() => {
      this.#held.delete(key)
      this.wake()
    })
  }

  /** Begins. What an earlier process has left running is due at once. */
  start(): void {
    this.#loops ??= Promise.all([this.#loop(), this.#keepLeases()]).then(() => undefined)
  }

  /**
   * Ends what runs, which is taken up again at the next start, and resolves when nothing is under way any more. A step that does not
   * end in time is left behind: its job is still marked as running, so that the next start takes it up, too.
   */
  async close(): Promise<void> {
    this.#ending.abort()
    for (const { ending } of this.#running.values()) ending.abort(new Ended('stopping'))
    this.wake()
    await this.#loops
    const over = new AbortController()
    const grace = passed(this.#deps.clock, GRACE_MS, over.signal)
    await Promise.race([Promise.all([...this.#busy.values()].map(({ work }) => work)), grace])
    over.abort()
    for (const { claim } of this.#running.values()) {
      const { id: jobId, kind } = claim.row
      this.#deps.log.error(
        { jobId, kind, step: claim.step.name },
        'job step did not end in time, resuming at next start',
      )
    }
  }

  async #loop(): Promise<void> {
    const { clock, db, log, systemErrors } = this.#deps
    const { signal } = this.#ending
    let taken = false
    while (!signal.aborted) {
      this.#woken = new AbortController()
      const woken = this.#woken.signal
      let wait = LONGEST_WAIT_MS
      try {
        if (!taken) await db.write(rows.takeUp)
        taken = true
        await this.#followClock()
        wait = await this.#startLanes()
      } catch (err) {
        if (signal.aborted) break
        log.error({ err }, 'cannot read due jobs, retrying')
        if (!isStorageFailure(err)) systemErrors.capture(err, { component: 'jobs' })
      }
      await clock.sleep(wait, woken)
    }
  }

  /**
   * Puts due times right that a wall clock has written which was ahead and has been set back since, also before the start. What was written
   * says so: nobody may have looked at the clock while it was ahead.
   */
  async #followClock(): Promise<void> {
    const { clock, db, log } = this.#deps
    const taken = db.takeLatestNow()
    if (taken !== undefined && (this.#latest === undefined || taken > this.#latest)) this.#latest = taken
    const isSetBack = this.#latest !== undefined && Date.parse(this.#latest) > clock.nowMs() + SET_BACK_MS
    if (this.#hasLooked && !isSetBack) return
    let changed = 0
    for (let isDone = false; !isDone; ) {
      const batch = await db.write(rows.pullBack)
      changed += batch.changed
      isDone = batch.isDone
    }
    if (changed > 0) log.warn({ jobs: changed }, 'clock was set back, rescheduled waiting jobs')
    this.#hasLooked = true
    this.#latest = undefined
  }

  /** Begins with every lane that has something due, and answers how long there is nothing else to begin with. */
  async #startLanes(): Promise<number> {
    const { db, clock, kinds } = this.#deps
    const names = [...kinds.keys()]
    const at = now(clock)
    for (const [key, backOff] of this.#backingOff)
      if (this.#backOffLeft(backOff) < -FORGOTTEN_MS) this.#backingOff.delete(key)
    const open = [...this.#pools().keys()].filter((pool) => this.#roomIn(pool) > 0)
    const unread = open.filter((pool) => (this.#ahead.get(pool) ?? []).length === 0)
    const due = unread.length === 0 ? undefined : await rows.duePools(db.read, { pools: unread, now: at, kinds: names })
    for (const pool of open) {
      const ahead = this.#ahead.get(pool) ?? []
      const lanes = ahead.length > 0 || due?.has(pool) !== true ? ahead : await this.#read(pool, at)
      this.#ahead.set(pool, lanes)
      while (lanes.length > 0 && this.#roomIn(pool) > 0) {
        const lane = lanes.shift()
        if (lane !== undefined && !this.#isTaken(lane)) this.#startLane(lane)
      }
    }
    const next = await rows.nextDue(db.read, at, names)
    const left = [...this.#backingOff.values()].map((backOff) => this.#backOffLeft(backOff)).filter((ms) => ms > 0)
    // From here on: to look takes its time, and a clock may have been set forward meanwhile.
    const dueIn = next === undefined ? [] : [Date.parse(next) - clock.nowMs()]
    const waits = [LONGEST_WAIT_MS, ...left, ...dueIn]
    return Math.max(1, Math.min(...waits))
  }

  #isTaken(lane: rows.Lane): boolean {
    const key = keyOf(lane)
    return this.#busy.has(key) || this.#held.has(key) || this.#isResting(key)
  }

  /** The lanes of a pool that something is due in and nobody works on. */
  async #read(pool: string, at: IsoTime): Promise<rows.Lane[]> {
    const { db, kinds } = this.#deps
    // Those that are worked on or back off are due too and come first; so many more are read.
    const limit = READ_AHEAD + this.#busy.size + this.#held.size + this.#backingOff.size
    const due = await rows.dueLanes(db.read, { pool, now: at, kinds: [...kinds.keys()], limit })
    return due.filter((lane) => !this.#isTaken(lane))
  }

  #backOff(key: string, { ms, failures }: { readonly ms: number; readonly failures: number }): void {
    const { clock } = this.#deps
    this.#backingOff.set(key, { untilMs: { wall: clock.nowMs() + ms, steady: clock.monotonicMs() + ms }, failures })
  }

  #isResting(key: string): boolean {
    const backOff = this.#backingOff.get(key)
    return backOff !== undefined && this.#backOffLeft(backOff) > 0
  }

  #backOffLeft({ untilMs: { wall, steady } }: BackOff): number {
    const { clock } = this.#deps
    return Math.min(wall - clock.nowMs(), steady - clock.monotonicMs())
  }

  #pools(): Map<string, Pool> {
    return new Map([...this.#deps.kinds.values()].map(({ pool }) => [pool.name, pool]))
  }

  #roomIn(pool: string): number {
    const taken = [...this.#busy.values()].filter(({ lane }) => lane.pool === pool).length
    return (this.#pools().get(pool)?.size ?? 0) - taken
  }

  #startLane(lane: rows.Lane): void {
    const key = keyOf(lane)
    const work = this.#work(lane)
      .catch((err: unknown) => {
        if (this.#ending.signal.aborted) return
        const { log, systemErrors } = this.#deps
        log.error({ err, ...lane }, 'cannot run job, backing off its lane')
        if (!isStorageFailure(err)) systemErrors.capture(err, { component: 'jobs' })
        this.#backOff(key, { ms: LONGEST_WAIT_MS, failures: 0 })
      })
      .finally(() => {
        this.#busy.delete(key)
        this.wake()
      })
    this.#busy.set(key, { lane, work })
  }

  async #work(lane: rows.Lane): Promise<void> {
    const { db, advance, kinds } = this.#deps
    const key = keyOf(lane)
    for (let count = 0; count < IN_A_ROW && !this.#ending.signal.aborted; count++) {
      let claim: Claim | undefined
      try {
        claim = await db.write((tx) => advance.claim(tx, lane, [...kinds.keys()]))
      } catch (error) {
        if (!(error instanceof Unprepared)) throw error
        await db.write((tx) => advance.unprepared(tx, error))
        continue
      }
      if (claim === undefined) return
      let moved: Moved
      for (;;) {
        moved = await this.#carryOut(claim)
        if (moved.kind !== 'on') break
        claim = moved.claim
      }
      if (moved.kind === 'lost') continue
      if (!moved.failed) {
        this.#backingOff.delete(key)
        continue
      }
      const failures = (this.#backingOff.get(key)?.failures ?? 0) + 1
      const backOffMs = kinds.get(claim.row.kind)?.laneBackOffMs(failures) ?? 0
      if (backOffMs === 0) continue
      this.#backOff(key, { ms: backOffMs, failures })
      return
    }
  }

  /** One attempt of a step, from its effect to the transaction that moves the job on. */
  async #carryOut(claim: Claim): Promise<Moved> {
    const { advance, metrics, progress, clock, log } = this.#deps
    const { row, loaded } = claim
    // One signal of its own: Node keeps a trace of each that is derived from one that lives as long as the daemon.
    const ending = new AbortController()
    const over = new AbortController()
    this.#running.set(row.id, { claim, ending })
    if (this.#ending.signal.aborted) ending.abort(new Ended('stopping'))
    metrics.running.inc({ kind: row.kind })
    const timeout = passed(clock, loaded.timeoutMs, over.signal).then(() => {
      if (!over.signal.aborted) ending.abort(new Ended('late'))
    })
    const { signal } = ending
    const report = progress.of(row)
    try {
      const end = await loaded.run({ signal, progress: report.set })
      await report.flush()
      return await this.#finish(claim, end)
    } catch (error) {
      const why = signal.reason instanceof Ended ? signal.reason.why : undefined
      if (why === 'stopping') {
        await this.#store((tx) => advance.release(tx, claim))
        return { kind: 'away', failed: false }
      }
      if (why === 'cancelled') return await this.#store((tx) => advance.cancelled(tx, claim))
      const failure =
        why === 'late'
          ? { error: `the step ${claim.step.name} took longer than ${Math.round(loaded.timeoutMs / 1000)} s` }
          : { error: messageOf(error), code: codeOf(error) }
      log.warn({ err: error, jobId: row.id, kind: row.kind, step: claim.step.name }, 'job step failed')
      return await this.#store((tx) => advance.failed(tx, claim, failure))
    } finally {
      report.end()
      over.abort()
      await timeout
      metrics.running.dec({ kind: row.kind })
      this.#running.delete(row.id)
    }
  }

  /** What has been done is kept also when the next step cannot be prepared, which is tried by itself then. */
  async #finish(claim: Claim, end: (tx: Tx) => Promise<WrittenEnd>): Promise<Moved> {
    const { advance } = this.#deps
    try {
      return await this.#store((tx) => advance.finish(tx, claim, end, { onward: true }))
    } catch (error) {
      if (!(error instanceof Unprepared)) throw error
      return await this.#store((tx) => advance.finish(tx, claim, end, { onward: false }))
    }
  }

  /** Writes what has been done, however long the disk refuses it: it has been done, and must not be done again. */
  async #store<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    const { db, clock, log } = this.#deps
    for (;;) {
      try {
        return await db.write(work)
      } catch (error) {
        if (!isStorageFailure(error) || this.#ending.signal.aborted || db.health().status === 'damaged') throw error
        log.warn({ err: error }, 'cannot store job result, retrying')
        await clock.sleep(STORAGE_PAUSE_MS, this.#ending.signal)
      }
    }
  }

  /** Says of what runs that it is still worked on. */
  async #keepLeases(): Promise<void> {
    const { db, clock, log } = this.#deps
    const { signal } = this.#ending
    while (!signal.aborted) {
      await clock.sleep(LEASE_MS / 3, signal)
      const running = [...this.#running.values()].map(({ claim }) => claim.row)
      if (signal.aborted || running.length === 0) continue
      const until = isoTime(clock.nowMs() + LEASE_MS)
      const kept = db.write(async (tx) => {
        for (const row of running) await keepLease(tx, row, until)
      })
      await kept.catch((err: unknown) => log.warn({ err }, 'cannot renew leases of running jobs'))
    }
  }
}

/** Resolves after `ms`, or at once when `signal` aborts; a sleep may end early where clocks are set. */
async function passed(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  const deadlineMs = clock.monotonicMs() + ms
  for (let left = ms; left > 0 && !signal.aborted; left = deadlineMs - clock.monotonicMs())
    await clock.sleep(left, signal)
}

async function keepLease(tx: Tx, { seq, fence }: rows.JobRow, until: rows.JobRow['dueAt']): Promise<void> {
  const running = tx.q.updateTable('job').set({ dueAt: until }).where('seq', '=', seq).where('fence', '=', fence)
  await running.where('status', '=', 'running').execute()
}

function keyOf({ pool, lane }: rows.Lane): string {
  return `${pool}\0${lane}`
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}
