import { newId } from '../../../../shared/kernel/ids.ts'
import { type Clock, isoTime } from '../../../../shared/kernel/time.ts'
import { sha256, type Vault } from '../../../core/secrets.ts'
import type { Tx } from '../../../db/db.ts'
import type { Payload } from './payload.ts'

/** Attempts until a message is given up: with the waits between them (retry.ts) about 20 hours. */
export const ATTEMPTS = 10
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

/** What is to be told to the outside: rows of the transaction that makes it true. */
export interface Outbox {
  /** Writes the message and answers its id; it is sent after the commit. */
  add(tx: Tx, message: Message): Promise<string>
  /** Calls back after each commit that has added messages. */
  onAdded(listener: () => void): void
}

/** The outbox over its table. */
export function createOutbox({ clock, vault }: { readonly clock: Clock; readonly vault: Vault }): Outbox {
  const listeners: (() => void)[] = []
  const wake = (): void => {
    for (const listener of listeners) listener()
  }
  return {
    add: async (tx, message) => {
      const id = newId('dlv', clock)
      const { payload, alertId, differs } = message
      const place = placeColumns(vault, id, message.place)
      const full = await isFull(tx, place.lane)
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
      tx.onCommit(wake)
      return id
    },
    onAdded: (listener) => void listeners.push(listener),
  }
}

/** The place under which the target of a delivery is sealed. */
export function sealedUnder(deliveryId: string): string {
  return `delivery.target ${deliveryId}`
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

/** Rules of many people tell the hosts of Discord and Slack: what one of them does there must not hold up the others. */
function laneOf(url: string): string {
  return `${new URL(url).host} ${sha256(url).slice(0, 16)}`
}

async function isFull(tx: Tx, lane: string): Promise<boolean> {
  const last = await tx.q
    .selectFrom('delivery')
    .select('id')
    .where('lane', '=', lane)
    .where('nextAttemptAt', 'is not', null)
    .limit(1)
    .offset(MOST_WAITING - 1)
    .executeTakeFirst()
  return last !== undefined
}
