import * as api from '../../../../shared/api/webhooks.ts'
import { parseJson } from '../../../db/json.ts'
import { operate } from '../../../http/operate.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import { sendNow } from './delivery-job.ts'
import { attemptsOf, findDelivery, listDeliveries, toWebhookDelivery } from './delivery-rows.ts'
import * as operations from './operations.ts'
import { GONE, mayRead, missing, NO_DELIVERY, type WebhookDeps } from './operations.ts'
import { Payload } from './payload.ts'
import { findWebhook, listWebhookRows, toWebhook } from './webhook-rows.ts'
import { addWebhook, editWebhook } from './write-webhook.ts'

/** A test that the daemon did not live to write down is made up for so much later. */
const TEST_AGAIN_MS = 60_000

/** The routes of webhooks. */
export function webhookRoutes(deps: WebhookDeps): Route[] {
  const { db } = deps
  return [
    route(api.listWebhooks, ({ query }) => listWebhookRows(db.read, query)),
    route(api.getWebhook, async ({ params }, context) => {
      return toWebhook((await findWebhook(db.read, params.webhookId)) ?? context.fail('WEBHOOK_NOT_FOUND', GONE))
    }),
    route(api.createWebhook, ({ body }, context) =>
      addWebhook(deps, body, { caller: callerOf(context), actor: context.actor }),
    ),
    route(api.updateWebhook, async ({ params, body }, context) => {
      const writer = { caller: callerOf(context), actor: context.actor }
      return (await editWebhook(deps, params.webhookId, body, writer)) ?? context.fail('WEBHOOK_NOT_FOUND', GONE)
    }),
    operate(operations.deleteWebhook, deps),
    test(deps),
    deliveries(deps),
    delivery(deps),
    operate(operations.redeliverWebhook, deps),
  ]
}

/** Sends at once, and one attempt only: whoever tests waits for what comes back. */
function test(deps: WebhookDeps): Route {
  const { db, audit, outbox } = deps
  return route(api.testWebhook, async ({ params: { webhookId } }, context) => {
    const row = await db.write(async (tx) => {
      const webhook = (await findWebhook(tx.q, webhookId)) ?? context.fail('WEBHOOK_NOT_FOUND', GONE)
      const data = { webhookId, webhookName: webhook.name }
      const userId = context.caller?.userId ?? null
      const id = await outbox.add(tx, {
        place: { channel: 'webhook', webhookId, shownUrl: webhook.shownUrl },
        payload: { event: 'webhook.test', userId, timestamp: tx.now, data },
        differs: { firstInMs: TEST_AGAIN_MS, attempts: 1 },
      })
      await audit.record(tx, context.actor, { action: 'webhook.test', resource: 'webhook', resourceId: webhookId })
      return (await findDelivery(tx.q, id)) ?? missing(id)
    })
    const { startedAt, outcome } = await sendNow(deps, row, context.signal)
    const { ok, durationMs, status, error, response } = outcome
    if (ok) outbox.resume(webhookId)
    return { ok, deliveryId: row.id, startedAt, durationMs, status, error, response }
  })
}

function deliveries({ db }: WebhookDeps): Route {
  return route(api.listWebhookDeliveries, async ({ params: { webhookId }, query }, context) => {
    if ((await findWebhook(db.read, webhookId)) === undefined) context.fail('WEBHOOK_NOT_FOUND', GONE)
    return listDeliveries(db.read, webhookId, query)
  })
}

function delivery({ db }: WebhookDeps): Route {
  return route(api.getWebhookDelivery, async ({ params: { webhookId, deliveryId } }, context) => {
    if ((await findWebhook(db.read, webhookId)) === undefined) context.fail('WEBHOOK_NOT_FOUND', GONE)
    const row = await findDelivery(db.read, deliveryId)
    if (row === undefined || row.webhookId !== webhookId) return context.fail('WEBHOOK_DELIVERY_NOT_FOUND', NO_DELIVERY)
    mayRead(callerOf(context), row.event)
    const log = await attemptsOf(db.read, deliveryId)
    return { ...toWebhookDelivery(row), payload: parseJson(Payload, row.payload), log }
  })
}
