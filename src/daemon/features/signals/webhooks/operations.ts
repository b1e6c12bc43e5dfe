import * as api from '../../../../shared/api/webhooks.ts'
import type { Answer } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { grants, type Permission } from '../../../../shared/kernel/permissions.ts'
import { WEBHOOK_EVENTS } from '../../../../shared/kernel/webhook-events.ts'
import { operationsOver, type Principal, recordChange, userIdOf } from '../../../access/operation.ts'
import type { Holder } from '../../../access/permit.ts'
import { type DeliveryDeps, sendNow } from './delivery-job.ts'
import { findDelivery, toWebhookDelivery } from './delivery-rows.ts'
import { findWebhook } from './webhook-rows.ts'
import { GONE, type WriteDeps } from './write-webhook.ts'

/** What the routes and operations of webhooks need. */
export type WebhookDeps = WriteDeps & DeliveryDeps

export const NO_DELIVERY = 'There is no such message to this webhook'

const operation = operationsOver<WebhookDeps>()

export const deleteWebhook = operation(api.deleteWebhook, async ({ tx, userId, fail }, { params: { webhookId } }) => {
  const gone = tx.q.deleteFrom('webhook').where('id', '=', webhookId).returning('name')
  const { name } = (await gone.executeTakeFirst()) ?? fail('WEBHOOK_NOT_FOUND', GONE)
  const entry = { resourceId: webhookId, details: { name } }
  const data = { webhookId, webhookName: name, deletedBy: userId }

  return {
    answer: null,
    audit: entry,
    events: [{ type: 'webhook_deleted', data }],
  }
})

/** A test that the daemon did not live to write down is made up for so much later. */
const TEST_AGAIN_MS = 60_000

/**
 * Tests a webhook: the message is written in one transaction, sent at once, and one attempt only, because whoever tests waits
 * for what comes back. `signal` ends the attempt.
 */
export async function testWebhook(
  deps: WebhookDeps,
  request: { readonly principal: Principal; readonly webhookId: string; readonly signal: AbortSignal },
): Promise<Answer<typeof api.testWebhook>> {
  const { outbox } = deps
  const { principal, webhookId, signal } = request
  const row = await deps.db.write(async (tx) => {
    const webhook = await findWebhook(tx.q, webhookId)
    if (webhook === undefined) throw new PanelError('WEBHOOK_NOT_FOUND', GONE)
    const data = { webhookId, webhookName: webhook.name }
    const id = await outbox.add(tx, {
      place: { channel: 'webhook', webhookId, shownUrl: webhook.shownUrl },
      payload: { event: 'webhook.test', userId: userIdOf(principal), timestamp: tx.now, data },
      differs: { firstInMs: TEST_AGAIN_MS, attempts: 1 },
    })
    await recordChange(tx, { deps, principal, endpoint: api.testWebhook }, { audit: { resourceId: webhookId } })
    return (await findDelivery(tx.q, id)) ?? missing(id)
  })
  const { startedAt, outcome } = await sendNow(deps, row, signal)
  const { ok, durationMs, status, error, response } = outcome
  if (ok) outbox.resume(webhookId)
  return { ok, deliveryId: row.id, startedAt, durationMs, status, error, response }
}

export const redeliverWebhook = operation(api.redeliverWebhook, async (work, { params: { webhookId, deliveryId } }) => {
  const { tx, deps, fail } = work
  const { outbox } = deps
  const webhook = (await findWebhook(tx.q, webhookId)) ?? fail('WEBHOOK_NOT_FOUND', GONE)
  const row = await findDelivery(tx.q, deliveryId)
  if (row === undefined || row.webhookId !== webhookId) return fail('WEBHOOK_DELIVERY_NOT_FOUND', NO_DELIVERY)
  // Where it goes may be another place by now, and somebody else's.
  mayRead(work.holder, row.event)
  if (webhook.enabled === 0)
    fail('CONFLICT', 'The webhook is switched off; switch it on before anything is sent to it again')
  await outbox.restart(tx, row)
  const details = { deliveryId, event: row.event }
  const entry = { resourceId: webhookId, details }
  tx.onCommit(() => outbox.resume(webhookId))
  return {
    answer: toWebhookDelivery((await findDelivery(tx.q, deliveryId)) ?? missing(deliveryId)),
    audit: entry,
  }
})

/** What a message says may be read by whoever may read the event. */
export function mayRead(holder: Pick<Holder, 'permissions'>, event: string): void {
  const needed: Permission | undefined = new Map<string, Permission>(Object.entries(WEBHOOK_EVENTS)).get(event)
  if (needed === undefined || grants(holder.permissions, needed)) return
  throw new PanelError('PERMISSION_DENIED', `This needs the permission ${needed}`, { meta: { missing: [needed] } })
}

export function missing(id: string): never {
  throw new Error(`${id} is gone within the transaction that wrote it`)
}
