import { type IsoTime, now } from '../../../../shared/kernel/time.ts'
import type { Audit } from '../../../access/audit.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Log } from '../../../core/log.ts'
import type { SystemErrors } from '../../../core/system-errors.ts'
import { attempt, type Transport } from './attempt.ts'
import { type DeliveryRow, dueLanes, nextDue, nextOfLane, recordAttempt } from './delivery-rows.ts'
import type { Outbox } from './outbox.ts'
import { laneRest } from './retry.ts'
import type { Outcome } from './sender.ts'
import { noteOutcome } from './webhook-health.ts'

/** What the delivery worker needs. */
export interface DeliveryWorkerDeps extends Transport {
  readonly bus: Bus
  readonly audit: Audit
  readonly log: Log
  readonly systemErrors: SystemErrors
  readonly outbox: Outbox
}

/** Lanes that are worked on at a time. */
const MOST_LANES = 64
/** Messages of one lane before others get a chance at its place. */
const IN_A_ROW = 50
/** A wait at most so long, because the wall clock may be set meanwhile. */
const LONGEST_WAIT_MS = 30_000
/** So long after its rest nobody needs to know any more that a lane had failed. */
const FORGOTTEN_MS = 7 * 3_600_000

/**
 * Sends what is in the outbox. Each lane (a webhook, a URL of rules, mail) is worked on by itself, one message after the other: one
 * that is slow or dead holds up nobody else. A message may arrive twice when the daemon dies between sending and writing
 * that down; it has the same id then.
 */
export class DeliveryWorker {
  readonly #deps: DeliveryWorkerDeps
  readonly #busy = new Map<string, Promise<void>>()
  /** Lanes that rest after failures: until when, by the wall clock, and how many failures in a row. */
  readonly #resting = new Map<string, { readonly untilMs: number; readonly failures: number }>()
  #woken = new AbortController()

  constructor(deps: DeliveryWorkerDeps) {
    this.#deps = deps
    deps.outbox.onAdded(() => this.wake())
  }

  /** Looks at once whether something is due. */
  wake(): void {
    this.#woken.abort()
  }

  /** Tries a lane again at once that rests after failures: somebody has mended something. */
  resume(lane: string): void {
    this.#resting.delete(lane)
    this.wake()
  }

  /** Sends until `signal` aborts; resolves when nothing is under way any more. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log, systemErrors } = this.#deps
    while (!signal.aborted) {
      this.#woken = new AbortController()
      const woken = this.#woken.signal
      const wait = await this.#startLanes(signal).catch((err: unknown) => {
        log.error({ err }, 'the outbox could not be read; it is tried again')
        systemErrors.capture(err, { component: 'webhook deliveries' })
        return LONGEST_WAIT_MS
      })
      await clock.sleep(wait, AbortSignal.any([signal, woken]))
    }
    await Promise.all(this.#busy.values())
  }

  /** Tries one message once, now, and writes that down. */
  async once(row: DeliveryRow, signal: AbortSignal): Promise<{ startedAt: IsoTime; outcome: Outcome }> {
    const { clock, db } = this.#deps
    const startedAt = now(clock)
    const outcome = await attempt(this.#deps, row, signal)
    await db.write(async (tx) => {
      const counted = await recordAttempt(tx, row, { startedAt, outcome })
      if (counted && row.webhookId !== null) await noteOutcome(tx, this.#deps, row.webhookId, outcome)
    })
    return { startedAt, outcome }
  }

  /** Begins with every lane that has something due, and answers how long there is nothing else to begin with. */
  async #startLanes(signal: AbortSignal): Promise<number> {
    const { db, clock } = this.#deps
    const at = now(clock)
    const nowMs = Date.parse(at)
    let wait = LONGEST_WAIT_MS
    for (const [lane, { untilMs }] of this.#resting) if (untilMs < nowMs - FORGOTTEN_MS) this.#resting.delete(lane)
    for (const lane of await dueLanes(db.read, at)) {
      const restMs = (this.#resting.get(lane)?.untilMs ?? 0) - nowMs
      if (this.#busy.has(lane) || this.#busy.size >= MOST_LANES) continue
      if (restMs > 0) wait = Math.min(wait, restMs)
      else this.#startLane(lane, signal)
    }
    const next = await nextDue(db.read, at)
    return next === null ? wait : Math.min(wait, Math.max(1, Date.parse(next) - nowMs))
  }

  #startLane(lane: string, signal: AbortSignal): void {
    const work = this.#work(lane, signal)
      .catch((err: unknown) => {
        if (signal.aborted) return
        this.#deps.log.error({ err, lane }, 'a message could not be handled; its lane rests')
        this.#deps.systemErrors.capture(err, { component: 'webhook deliveries' })
        this.#resting.set(lane, { untilMs: this.#deps.clock.nowMs() + LONGEST_WAIT_MS, failures: 0 })
      })
      .finally(() => {
        this.#busy.delete(lane)
        this.wake()
      })
    this.#busy.set(lane, work)
  }

  async #work(lane: string, signal: AbortSignal): Promise<void> {
    const { db, clock, log } = this.#deps
    for (let count = 0; count < IN_A_ROW && !signal.aborted; count++) {
      const row = await nextOfLane(db.read, lane, now(clock))
      if (row === undefined) return
      const { startedAt, outcome } = await this.once(row, signal)
      if (outcome.ok || outcome.final) {
        this.#resting.delete(lane)
        continue
      }
      log.info({ deliveryId: row.id, target: row.target, error: outcome.error }, 'a message did not arrive')
      const failures = (this.#resting.get(lane)?.failures ?? 0) + 1
      // From the end of the attempt: that it took long to write it down does not make the rest longer.
      this.#resting.set(lane, { untilMs: Date.parse(startedAt) + outcome.durationMs + laneRest(failures), failures })
      return
    }
  }
}
