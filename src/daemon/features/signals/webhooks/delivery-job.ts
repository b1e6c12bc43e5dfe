import { z } from 'zod'
import { type IsoTime, now } from '../../../../shared/kernel/time.ts'
import type { Audit } from '../../../access/audit.ts'
import type { At } from '../../../access/relations.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Log } from '../../../core/log.ts'
import type { Tx } from '../../../db/db.ts'
import { defineJob, type StepEnd } from '../../../jobs/job-type.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import type { Lane } from '../../../jobs/rows.ts'
import { attempt, type Transport } from './attempt.ts'
import { type DeliveryRow, findDelivery, recordAttempt } from './delivery-rows.ts'
import { laneBackOff } from './retry.ts'
import type { Outcome } from './sender.ts'
import { noteOutcome } from './webhook-health.ts'

/** What sending messages needs. */
export interface DeliveryDeps extends Transport {
  readonly bus: Bus
  readonly audit: Audit
  readonly log: Log
}

/**
 * Sends one message. Each lane (a webhook, a URL of rules, mail) is worked on by itself, one message after the other: one that is
 * slow or dead holds up nobody else. A message may arrive twice when the daemon dies between sending and writing that
 * down; it has the same id then.
 */
export const DELIVERY = defineJob({
  kind: 'webhooks.deliver',
  input: z.object({ deliveryId: z.string(), event: z.string(), lane: z.string() }),
  state: z.object({}),
  first: () => ({}),
  title: ({ event }) => `Deliver ${event}`,
  pool: { name: 'deliveries', size: 64 },
  lane: ({ lane }) => lane,
  ordered: false,
  background: true,
  plan: () => [{ step: 'send', name: 'send' }],
  laneBackOffMs: laneBackOff,
})

/** The lane of this name among those of messages. */
export function deliveryLane(lane: string): Lane {
  return { pool: DELIVERY.pool.name, lane }
}

/** The key of the job that sends a message. */
export function deliveryKey(deliveryId: string): string {
  return `${DELIVERY.kind} ${deliveryId}`
}

/** What the engine sends messages with. */
interface JobDeps extends DeliveryDeps {
  /** Why what waits of an alert may not go where its rule said (`address`: by mail, there); `undefined` when it may. */
  readonly alertRefusal: (at: At, alertId: string, address: string | null) => Promise<string | undefined>
}

/** Has the engine send messages. */
export function registerDeliveries(jobs: Jobs, deps: JobDeps): void {
  const { db, clock, log } = deps
  jobs.register(DELIVERY, {
    steps: {
      send: {
        // The message itself counts its attempts.
        attempts: Number.POSITIVE_INFINITY,
        run: async ({ job, signal }) => {
          const row = await findDelivery(db.read, job.input.deliveryId)
          if (row === undefined || row.nextAttemptAt === null) return (tx) => restarted(tx, job.input.deliveryId)
          const at = { q: db.read, now: now(clock) }
          const address = row.channel === 'email' ? row.target : null
          const refusal = row.alertId === null ? undefined : await deps.alertRefusal(at, row.alertId, address)
          const tried =
            refusal === undefined
              ? await tryOnce(deps, row, signal)
              : { startedAt: at.now, outcome: { ...UNWANTED, error: refusal } }
          const { ok, final, error } = tried.outcome
          if (!ok && !final) log.info({ deliveryId: row.id, target: row.target, error }, 'webhook delivery failed')
          return (tx) => noteAttempt(tx, deps, row, tried)
        },
      },
    },
  })
}

/** Between the attempts of a message hours may pass, in which whoever chose its place has lost the right to read it. */
const UNWANTED = { ok: false, durationMs: 0, status: null, response: null, final: true, retryAfterMs: null } as const

/** What follows when a message had been settled before its turn: it may have been restarted since it was looked at. */
async function restarted(tx: Tx, id: string): Promise<StepEnd<object> | undefined> {
  const atMs = (await findDelivery(tx.q, id))?.nextAttemptAt ?? null
  return atMs === null ? undefined : { after: { kind: 'again', atMs: Date.parse(atMs) } }
}

/** One attempt of a message. */
interface Tried {
  readonly startedAt: IsoTime
  readonly outcome: Outcome
}

/** Tries one message once, now, and writes that down. */
export async function sendNow(deps: DeliveryDeps, row: DeliveryRow, signal: AbortSignal): Promise<Tried> {
  const tried = await tryOnce(deps, row, signal)
  await deps.db.write(async (tx) => {
    await noteAttempt(tx, deps, row, tried)
  })
  return tried
}

async function tryOnce(deps: DeliveryDeps, row: DeliveryRow, signal: AbortSignal): Promise<Tried> {
  const startedAt = now(deps.clock)
  return { startedAt, outcome: await attempt(deps, row, signal) }
}

async function noteAttempt(
  tx: Tx,
  deps: DeliveryDeps,
  row: DeliveryRow,
  tried: Tried,
): Promise<StepEnd<object> | undefined> {
  const { outcome } = tried
  const recorded = await recordAttempt(tx, row.id, tried)
  if (recorded.kind === 'gone') return undefined
  if (row.webhookId !== null) await noteOutcome(tx, deps, row.webhookId, outcome)
  if (outcome.ok || outcome.final) return undefined
  const error = outcome.error ?? 'it did not arrive'
  if (recorded.kind === 'again') return { after: { kind: 'retry', error, afterMs: recorded.afterMs } }
  return { after: { kind: 'fail', error } }
}
