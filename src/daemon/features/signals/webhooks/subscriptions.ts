import type { Bus } from '../../../core/bus.ts'
import type { Outbox } from './outbox.ts'
import { payloadOf, webhookEventOf } from './payload.ts'
import { subscribersOf } from './webhook-rows.ts'

/** From now on puts every event that webhooks get into the outbox, in the transaction of the event itself. */
export function notifyWebhooks(bus: Bus, outbox: Outbox): void {
  bus.enlist(async (tx, event) => {
    const name = webhookEventOf(event)
    if (name === undefined) return
    const subscribers = await subscribersOf(tx.q, name)
    if (subscribers.length === 0) return
    const payload = await payloadOf(tx, name, event)
    for (const { id: webhookId, shownUrl } of subscribers) {
      await outbox.add(tx, { place: { channel: 'webhook', webhookId, shownUrl }, payload })
    }
  })
}
