import * as api from '../../../../shared/api/webhooks.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { grants, type Permission } from '../../../../shared/kernel/permissions.ts'
import { WEBHOOK_EVENTS } from '../../../../shared/kernel/webhook-events.ts'
import type { Caller } from '../../../access/caller.ts'
import { parseJson } from '../../../db/json.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import { attemptsOf, findDelivery, listDeliveries, restart, toWebhookDelivery } from './delivery-rows.ts'
import type { DeliveryWorker } from './delivery-worker.ts'
import type { Outbox } from './outbox.ts'
import { Payload } from './payload.ts'
import { findWebhook, listWebhookRows, toWebhook } from './webhook-rows.ts'
import { addWebhook, editWebhook, type WriteDeps } from './write-webhook.ts'

/** What these routes work with. */
export interface WebhookDeps extends WriteDeps {
  readonly outbox: Outbox
  readonly deliveryWorker: DeliveryWorker
}

const GONE = 'There is no such webhook'
const NO_DELIVERY = 'There is no such message to this webhook'
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
    remove(deps),
    test(deps),
    deliveries(deps),
    delivery(deps),
    redeliver(deps),
  ]
}

function remove({ db, bus, audit }: WebhookDeps): Route {
  return route(api.deleteWebhook, ({ params: { webhookId } }, context) =>
    db.write(async (tx) => {
      const gone = tx.q.deleteFrom('webhook').where('id', '=', webhookId).returning('name')
      const { name } = (await gone.executeTakeFirst()) ?? context.fail('WEBHOOK_NOT_FOUND', GONE)
      const entry = { action: 'webhook.delete', resource: 'webhook', resourceId: webhookId, details: { name } }
      await audit.record(tx, context.actor, entry)
      const data = { webhookId, webhookName: name, deletedBy: context.caller?.userId ?? null }
      await bus.append(tx, { type: 'webhook_deleted', data })
      return null
    }),
  )
}

/** Sends at once, and one attempt only: whoever tests waits for what comes back. */
function test({ db, audit, outbox, deliveryWorker }: WebhookDeps): Route {
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
    const { startedAt, outcome } = await deliveryWorker.once(row, context.signal)
    const { ok, durationMs, status, error, response } = outcome
    if (ok) deliveryWorker.resume(webhookId)
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

function redeliver({ db, audit, deliveryWorker }: WebhookDeps): Route {
  return route(api.redeliverWebhook, ({ params: { webhookId, deliveryId } }, context) =>
    db.write(async (tx) => {
      const webhook = (await findWebhook(tx.q, webhookId)) ?? context.fail('WEBHOOK_NOT_FOUND', GONE)
      const row = await findDelivery(tx.q, deliveryId)
      if (row === undefined || row.webhookId !== webhookId)
        return context.fail('WEBHOOK_DELIVERY_NOT_FOUND', NO_DELIVERY)
      // Where it goes may be another place by now, and somebody else's.
      mayRead(callerOf(context), row.event)
      if (webhook.enabled === 0)
        context.fail('CONFLICT', 'The webhook is switched off; switch it on before anything is sent to it again')
      await restart(tx, deliveryId)
      const details = { deliveryId, event: row.event }
      const entry = { action: 'webhook.redeliver', resource: 'webhook', resourceId: webhookId, details }
      await audit.record(tx, context.actor, entry)
      tx.onCommit(() => deliveryWorker.resume(webhookId))
      return toWebhookDelivery((await findDelivery(tx.q, deliveryId)) ?? missing(deliveryId))
    }),
  )
}

/** What a message tells may be read by whom the event may be read by. */
function mayRead(caller: Caller, event: string): void {
  const needed: Permission | undefined = new Map<string, Permission>(Object.entries(WEBHOOK_EVENTS)).get(event)
  if (needed === undefined || grants(caller.permissions, needed)) return
  throw new PanelError('PERMISSION_DENIED', `This needs the permission ${needed}`, { meta: { missing: [needed] } })
}

function missing(id: string): never {
  throw new Error(`${id} is gone within the transaction that wrote it`)
}
