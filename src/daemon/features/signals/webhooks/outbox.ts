import { newId } from '../../../../shared/kernel/ids.ts'
import { type Clock, type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import { sha256, type Vault } from '../../../core/secrets.ts'
import type { Tx } from '../../../db/db.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import { isLaneFull } from '../../../jobs/rows.ts'
import { DELIVERY, deliveryKey, deliveryLane } from './delivery-job.ts'
import { type DeliveryRow, restart, sealedUnder } from './delivery-rows.ts'
import type { Payload } from './payload.ts'
import { ATTEMPTS } from './retry.ts'

/** Messages that may wait for one place; more are given up at once, and the log says so. */
const MOST_WAITING = 1000

/** Somewhere that messages go. */
export type Place =
  | { readonly channel: 'email'; readonly address: string }
  | { readonly channel: 'webhook'; readonly webhookId: string; readonly shownUrl: string }
  | { readonly channel: 'webhook'; readonly url: string; readonly secret: string; readonly shownUrl: string }

/** A message to one place. */
export interface Message {
  readonly place: Place
  readonly alertId?: string
  readonly payload: Payload
  /** `first`: when the first attempt is due, if not at once; `attempts`: how many there may be. */
  readonly differs?: { readonly firstInMs: number; readonly attempts: number }
}

/** What is to be reported to the outside: rows of the transaction that makes it true, and a job for each. */
export interface Outbox {
  /** Writes the message and answers its id; it is sent after the commit. */
  add(tx: Tx, message: Message): Promise<string>
  /** Gives a message to a webhook all its attempts again, from now on. */
  restart(tx: Tx, row: DeliveryRow): Promise<void>
  /** Tries a webhook again at once that backs off after failures: somebody has mended something. */
  resume(webhookId: string): void
}

/** The outbox over its table. */
export function createOutbox({ clock, vault, jobs }: OutboxDeps): Outbox {
  const send = (tx: Tx, { id, event }: Pick<DeliveryRow, 'id' | 'event'>, lane: string, at: IsoTime) =>
    jobs.queue.schedule(tx, DELIVERY, {
      ...{ input: { deliveryId: id, event, lane }, cause: 'delivery', key: deliveryKey(id), at },
    })
  return {
    add: async (tx, message) => {
      const id = newId('dlv', clock)
      const { payload, alertId, differs } = message
      const { lane, ...place } = placeColumns(vault, id, message.place)
      const full = await isLaneFull(tx, deliveryLane(lane), MOST_WAITING)
      const due = isoTime(Date.parse(tx.now) + (differs?.firstInMs ?? 0))
      await tx.q
        .insertInto('delivery')
        .values({
          id,
          ...place,
          alertId: alertId ?? null,
          event: payload.event,
          payload: JSON.stringify(payload),
          status: full ? 'failed' : 'pending',
          attempts: 0,
          attemptsLeft: full ? 0 : (differs?.attempts ?? ATTEMPTS),
          nextAttemptAt: full ? null : due,
          lastAttemptAt: null,
          lastStatus: null,
          lastError: full ? `not tried: ${MOST_WAITING} other messages are waiting` : null,
          createdAt: tx.now,
          updatedAt: tx.now,
        })
        .execute()
      if (!full) await send(tx, { id, event: payload.event }, lane, due)
      return id
    },
    restart: async (tx, { id, event, webhookId }) => {
      await restart(tx, id)
      // An attempt that is under way counts as the first of the new ones.
      await send(tx, { id, event }, webhookId ?? '', tx.now)
    },
    resume: (webhookId) => jobs.endBackOff(deliveryLane(webhookId)),
  }
}

interface OutboxDeps {
  readonly clock: Clock
  readonly vault: Vault
  readonly jobs: Pick<Jobs, 'queue' | 'endBackOff'>
}

function placeColumns(vault: Vault, id: string, place: Place) {
  if (place.channel === 'email') {
    const { channel, address } = place
    return { channel, webhookId: null, lane: 'mail', target: address, sealedTarget: null }
  }
  const { channel, shownUrl: target } = place
  if ('webhookId' in place) {
    const { webhookId } = place
    return { channel, webhookId, lane: webhookId, target, sealedTarget: null }
  }
  const { url, secret } = place
  const sealedTarget = vault.seal(sealedUnder(id), JSON.stringify({ url, secret }))
  return { channel, webhookId: null, lane: laneOf(url), target, sealedTarget }
}

/** Rules of many people go to the hosts of Discord and Slack: what one of them does there must not hold up the others. */
function laneOf(url: string): string {
  return `${new URL(url).host} ${sha256(url).slice(0, 16)}`
}
