import * as api from '../../../../shared/api/webhooks.ts'
import { parseJson } from '../../../db/json.ts'
import { operate } from '../../../http/operate.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import { attemptsOf, findDelivery, listDeliveries, toWebhookDelivery } from './delivery-rows.ts'
import * as operations from './operations.ts'
import { mayRead, NO_DELIVERY, type WebhookDeps } from './operations.ts'
import { Payload } from './payload.ts'
import { findWebhook, listWebhookRows, toWebhook } from './webhook-rows.ts'
import { createWebhook, GONE, updateWebhook } from './write-webhook.ts'

/** The routes of webhooks. */
export function webhookRoutes(deps: WebhookDeps): Route[] {
  const { db } = deps
  return [
    route(api.listWebhooks, ({ query }) => listWebhookRows(db.read, query)),
    route(api.getWebhook, async ({ params }, context) => {
      return toWebhook((await findWebhook(db.read, params.webhookId)) ?? context.fail('WEBHOOK_NOT_FOUND', GONE))
    }),
    operate(createWebhook, deps),
    operate(updateWebhook, deps),
    operate(operations.deleteWebhook, deps),
    route(api.testWebhook, ({ params: { webhookId } }, { principal, signal }) =>
      operations.testWebhook(deps, { principal, webhookId, signal }),
    ),
    deliveries(deps),
    delivery(deps),
    operate(operations.redeliverWebhook, deps),
  ]
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
