import { z } from 'zod'
import type { listWebhooks, Webhook } from '../../../../shared/api/webhooks.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { subscribes } from '../../../../shared/kernel/webhook-events.ts'
import { compiled } from '../../../core/cached.ts'
import type { Queries } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { keptRows } from '../../../db/kept-results.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import { textMatches } from '../../../db/text-search.ts'

/** A webhook's row. */
export type WebhookRow = NonNullable<Awaited<ReturnType<typeof findWebhook>>>

const Events = z.array(z.string())

/** One webhook. */
export async function findWebhook(q: Queries, id: string) {
  return q.selectFrom('webhook').selectAll().where('id', '=', id).executeTakeFirst()
}

/** One page of webhooks by name. */
export async function listWebhookRows(q: Queries, query: Input<typeof listWebhooks>['query']) {
  let matching = q.selectFrom('webhook')
  if (query.enabled !== undefined) matching = matching.where('enabled', '=', query.enabled ? 1 : 0)
  if (query.search !== undefined) matching = matching.where(textMatches(query.search, 'id', ['name', 'description']))
  const page = matching.selectAll().orderBy('name').orderBy('id').limit(query.limit).offset(offsetOf(query))
  const items = (await page.execute()).map(toWebhook)
  return { items, total: await totalOf(q, matching, { query, found: items.length }) }
}

/** The enabled webhooks that are subscribed to the event. */
export async function subscribersOf(q: Queries, event: string): Promise<Pick<WebhookRow, 'id' | 'shownUrl'>[]> {
  const rows = await keptRows(q, enabledWebhooks(null))
  return rows.filter(({ events }) => parseJson(Events, events).some((pattern) => subscribes(pattern, event)))
}

const enabledWebhooks = compiled((q) =>
  q.selectFrom('webhook').select(['id', 'shownUrl', 'events']).where('enabled', '=', 1),
)

/** The patterns of a webhook. */
export function eventsOf(row: Pick<WebhookRow, 'events'>): string[] {
  return parseJson(Events, row.events)
}

/** A webhook as the API answers it; the secret parts stay behind. */
export function toWebhook(row: WebhookRow): z.input<typeof Webhook> {
  return {
    id: row.id,
    name: row.name,
    description: row.description,
    url: row.shownUrl,
    format: row.format,
    events: eventsOf(row),
    enabled: row.enabled === 1,
    disabledReason: row.disabledReason,
    failingSince: row.failingSince,
    lastSuccessAt: row.lastSuccessAt,
    lastFailureAt: row.lastFailureAt,
    lastError: row.lastError,
    createdBy: row.createdBy,
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
  }
}

/** Under which name the two secrets of a webhook are sealed. */
export const SEALED = {
  url: (id: string): string => `webhook.url ${id}`,
  secret: (id: string): string => `webhook.secret ${id}`,
} as const
