import type { z } from 'zod'
import type { DeliveryAttempt, listWebhookDeliveries, WebhookDelivery } from '../../../../shared/api/webhooks.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import type { Db, Queries, Tx } from '../../../db/db.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import { ATTEMPTS, waitAfter } from './retry.ts'
import type { Outcome } from './sender.ts'

/** A message with where it goes. */
export type DeliveryRow = NonNullable<Awaited<ReturnType<typeof findDelivery>>>

type Query = Input<typeof listWebhookDeliveries>['query']

const BATCH = 500

/** One message. */
export async function findDelivery(q: Queries, id: string) {
  return q.selectFrom('delivery').selectAll().where('id', '=', id).executeTakeFirst()
}

/** What an attempt means for its message. `gone`: it was settled meanwhile, or is no longer there. */
export type Recorded = { readonly kind: 'gone' | 'settled' } | { readonly kind: 'again'; readonly afterMs: number }

/** Writes down an attempt: the log, and whether and when there is another. */
export async function recordAttempt(
  tx: Tx,
  id: string,
  attempt: { readonly startedAt: IsoTime; readonly outcome: Outcome },
): Promise<Recorded> {
  const { startedAt, outcome } = attempt
  const { ok, status, error, response, durationMs, final, retryAfterMs } = outcome
  const row = await findDelivery(tx.q, id)
  if (row === undefined || row.nextAttemptAt === null) return { kind: 'gone' }
  const number = row.attempts + 1
  const left = row.attemptsLeft - 1
  const again = !ok && !final && left > 0
  const made = ATTEMPTS - left
  const wait = again ? waitAfter(Math.max(1, made), retryAfterMs) : 0
  await tx.q
    .updateTable('delivery')
    .set({
      status: ok ? 'sent' : again ? 'pending' : 'failed',
      attempts: number,
      attemptsLeft: again ? left : 0,
      nextAttemptAt: again ? isoTime(Date.parse(tx.now) + wait) : null,
      lastAttemptAt: startedAt,
      lastStatus: status,
      lastError: error,
      updatedAt: tx.now,
    })
    .where('id', '=', id)
    .execute()
  const log = { deliveryId: id, number, startedAt, durationMs, status, error, response }
  await tx.q.insertInto('deliveryAttempt').values(log).execute()
  return again ? { kind: 'again', afterMs: wait } : { kind: 'settled' }
}

/** Gives a message all its attempts again, from now on. */
export async function restart(tx: Tx, id: string): Promise<void> {
  await tx.q
    .updateTable('delivery')
    .set({ status: 'pending', attemptsLeft: ATTEMPTS, nextAttemptAt: tx.now, updatedAt: tx.now })
    .where('id', '=', id)
    .execute()
}

/** Gives up what waits for a webhook. */
export async function giveUpWaiting(tx: Tx, webhookId: string, why: string): Promise<void> {
  await tx.q
    .updateTable('delivery')
    .set({ status: 'failed', attemptsLeft: 0, nextAttemptAt: null, lastError: why, updatedAt: tx.now })
    .where('webhookId', '=', webhookId)
    .where('nextAttemptAt', 'is not', null)
    .execute()
}

/** What waits for a webhook, by event. */
export async function waitingEvents(q: Queries, webhookId: string): Promise<string[]> {
  const rows = await q
    .selectFrom('delivery')
    .select('event')
    .distinct()
    .where('webhookId', '=', webhookId)
    .where('nextAttemptAt', 'is not', null)
    .execute()
  return rows.map(({ event }) => event)
}

/** One page of the messages to a webhook, newest first. */
export async function listDeliveries(q: Queries, webhookId: string, query: Query) {
  let matching = q.selectFrom('delivery').where('webhookId', '=', webhookId)
  if (query.status !== undefined) matching = matching.where('status', '=', query.status)
  if (query.event !== undefined) matching = matching.where('event', '=', query.event)
  if (query.from !== undefined) matching = matching.where('createdAt', '>=', isoTime(Date.parse(query.from)))
  const page = newestFirst(matching.select('id')).limit(query.limit).offset(offsetOf(query))
  const rows = await newestFirst(q.selectFrom('delivery').selectAll().where('id', 'in', page)).execute()
  return { items: rows.map(toWebhookDelivery), total: await totalOf(q, matching, { query, found: rows.length }) }
}

function newestFirst<Q extends { orderBy(column: 'createdAt' | 'id', direction: 'desc'): Q }>(query: Q): Q {
  return query.orderBy('createdAt', 'desc').orderBy('id', 'desc')
}

/** The attempts of a message, the last first; those of the last hundred. */
export async function attemptsOf(q: Queries, deliveryId: string): Promise<DeliveryAttempt[]> {
  return q
    .selectFrom('deliveryAttempt')
    .select(['number', 'startedAt', 'durationMs', 'status', 'error', 'response'])
    .where('deliveryId', '=', deliveryId)
    .orderBy('number', 'desc')
    .limit(100)
    .execute()
}

/** A message to a webhook as the API answers it. */
export function toWebhookDelivery(row: DeliveryRow): z.input<typeof WebhookDelivery> {
  const { id, webhookId, event, status, attempts, nextAttemptAt, lastAttemptAt, lastStatus, lastError } = row
  const { createdAt, updatedAt } = row
  const seen = { nextAttemptAt, lastAttemptAt, lastStatus, lastError, createdAt, updatedAt }
  return { id, webhookId: webhookId ?? '', event, status, attempts, ...seen }
}

/** Forgets messages that were settled before, a few hundred in each transaction. */
export async function pruneDeliveries(db: Db, before: IsoTime): Promise<void> {
  for (;;) {
    const removed = await db.write(async (tx) => {
      const old = tx.q
        .selectFrom('delivery')
        .select('id')
        .where('nextAttemptAt', 'is', null)
        .where('updatedAt', '<', before)
        .limit(BATCH)
      return Number((await tx.q.deleteFrom('delivery').where('id', 'in', old).executeTakeFirst()).numDeletedRows)
    })
    if (removed < BATCH) return
  }
}

/** The place under which the target of a delivery is sealed. */
export function sealedUnder(deliveryId: string): string {
  return `delivery.target ${deliveryId}`
}
