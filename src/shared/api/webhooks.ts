import { z } from 'zod'
import { DeliveryStatus } from '../kernel/alert.ts'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { DeliveryId, WebhookId } from '../kernel/ids.ts'
import { pageQuery, QueryBoolean } from '../kernel/page.ts'
import { IsoTime } from '../kernel/time.ts'
import { subscribedEvents, WEBHOOK_EVENT_NAMES } from '../kernel/webhook-events.ts'

const params = { webhookId: WebhookId }

/** What the body of a request looks like: our own JSON, or what Discord or Slack take. */
export const WebhookFormat = z.enum(['generic', 'discord', 'slack'])
export type WebhookFormat = z.infer<typeof WebhookFormat>

/** A name of an event, `server.*` or `*`. */
const Pattern = z
  .string()
  .max(64)
  .refine((text) => subscribedEvents([text]).length > 0, {
    error: `must be *, <group>.* or one of ${WEBHOOK_EVENT_NAMES.join(', ')}`,
  })

/** A receiver that is notified of events by HTTP. */
export const Webhook = z.object({
  id: WebhookId,
  name: z.string(),
  description: z.string().nullable(),
  /** As far as it is no secret: of Discord and Slack the host alone, without a query. */
  url: z.string(),
  format: WebhookFormat,
  events: z.array(z.string()),
  enabled: z.boolean(),
  /** `failing`: the panel has switched it off, because nothing has arrived for long. */
  disabledReason: z.enum(['failing']).nullable(),
  /** Since when every attempt has failed. */
  failingSince: IsoTime.nullable(),
  lastSuccessAt: IsoTime.nullable(),
  lastFailureAt: IsoTime.nullable(),
  lastError: z.string().nullable(),
  createdBy: z.string().nullable(),
  createdAt: IsoTime,
  updatedAt: IsoTime,
})
export type Webhook = z.infer<typeof Webhook>

/** One message to a webhook. */
export const WebhookDelivery = z.object({
  id: DeliveryId,
  webhookId: WebhookId,
  event: z.string(),
  status: DeliveryStatus,
  attempts: z.int(),
  nextAttemptAt: IsoTime.nullable(),
  lastAttemptAt: IsoTime.nullable(),
  /** The HTTP status of the last answer. */
  lastStatus: z.int().nullable(),
  lastError: z.string().nullable(),
  createdAt: IsoTime,
  updatedAt: IsoTime,
})
export type WebhookDelivery = z.infer<typeof WebhookDelivery>

/** One try of a message. */
export const DeliveryAttempt = z.object({
  number: z.int(),
  startedAt: IsoTime,
  durationMs: z.int(),
  status: z.int().nullable(),
  error: z.string().nullable(),
  /** The beginning of what was answered. */
  response: z.string().nullable(),
})
export type DeliveryAttempt = z.infer<typeof DeliveryAttempt>

const Delivered = WebhookDelivery.extend({
  /** What is sent, before it gets the shape of the format. */
  payload: z.record(z.string(), z.unknown()),
  log: z.array(DeliveryAttempt),
})

/** What requests are signed with; made by the panel unless it is given. */
const Secret = z.string().min(16).max(256)

/** The secret that the panel has made, in the one answer that shows it. */
const Made = Webhook.extend({ secret: z.string().nullable() })

const Fields = z.object({
  name: z.string().trim().min(1).max(100),
  description: z.string().max(500).nullish(),
  url: z.string().min(1).max(2000),
  format: WebhookFormat.default('generic'),
  events: z.array(Pattern).min(1).max(50).default(['*']),
  enabled: z.boolean().default(true),
  secret: Secret.optional(),
})

export const listWebhooks = defineEndpoint({
  id: 'webhooks.list',
  tag: 'Admin',
  summary: 'List webhooks by name',
  method: 'GET',
  path: '/api/admin/webhooks',
  access: { panel: 'admin.read' },
  query: pageQuery().extend({ search: z.string().max(200).optional(), enabled: QueryBoolean.optional() }),
  response: z.array(Webhook),
  paged: true,
})

export const getWebhook = defineEndpoint({
  id: 'webhooks.get',
  tag: 'Admin',
  summary: 'Show a webhook',
  method: 'GET',
  path: '/api/admin/webhooks/:webhookId',
  access: { panel: 'admin.read' },
  params,
  response: Webhook,
  errors: ['WEBHOOK_NOT_FOUND'],
})

export const createWebhook = defineEndpoint({
  id: 'webhooks.create',
  tag: 'Admin',
  summary: 'Create a webhook; events need the permission to read what they report',
  method: 'POST',
  path: '/api/admin/webhooks',
  access: { panel: 'admin.write' },
  body: Fields,
  response: Made,
  status: 201,
  errors: ['CREDENTIAL_ENCRYPTION_KEY_MISSING'],
  audit: { action: 'webhook.create' },
})

export const updateWebhook = defineEndpoint({
  id: 'webhooks.update',
  tag: 'Admin',
  summary: 'Edit a webhook; switched on it begins anew, switched off what waits is given up',
  method: 'PUT',
  path: '/api/admin/webhooks/:webhookId',
  access: { panel: 'admin.write' },
  params,
  body: z.object({
    name: Fields.shape.name.optional(),
    description: Fields.shape.description,
    url: Fields.shape.url.optional(),
    format: WebhookFormat.optional(),
    events: z.array(Pattern).min(1).max(50).optional(),
    enabled: z.boolean().optional(),
    secret: Secret.optional(),
    /** Makes a new secret, which this answer shows. */
    rotateSecret: z.literal(true).optional(),
  }),
  response: Made,
  errors: ['WEBHOOK_NOT_FOUND', 'CREDENTIAL_ENCRYPTION_KEY_MISSING'],
  audit: { action: 'webhook.update' },
})

export const deleteWebhook = defineEndpoint({
  id: 'webhooks.delete',
  tag: 'Admin',
  summary: 'Delete a webhook with its log',
  method: 'DELETE',
  path: '/api/admin/webhooks/:webhookId',
  access: { panel: 'admin.write' },
  params,
  response: NoData,
  errors: ['WEBHOOK_NOT_FOUND'],
  audit: { action: 'webhook.delete' },
})

export const testWebhook = defineEndpoint({
  id: 'webhooks.test',
  tag: 'Admin',
  summary: 'Send a test request to a webhook now, and show what it answers',
  method: 'POST',
  path: '/api/admin/webhooks/:webhookId/test',
  access: { panel: 'admin.write' },
  params,
  response: DeliveryAttempt.omit({ number: true }).extend({ ok: z.boolean(), deliveryId: DeliveryId }),
  errors: ['WEBHOOK_NOT_FOUND'],
  audit: { action: 'webhook.test' },
})

export const listWebhookDeliveries = defineEndpoint({
  id: 'webhooks.deliveries',
  tag: 'Admin',
  summary: 'List the messages to a webhook, newest first',
  method: 'GET',
  path: '/api/admin/webhooks/:webhookId/deliveries',
  access: { panel: 'admin.read' },
  params,
  query: pageQuery().extend({
    status: DeliveryStatus.optional(),
    event: z.string().max(64).optional(),
    from: z.iso.datetime().optional(),
  }),
  response: z.array(WebhookDelivery),
  errors: ['WEBHOOK_NOT_FOUND'],
  paged: true,
})

export const getWebhookDelivery = defineEndpoint({
  id: 'webhooks.delivery',
  tag: 'Admin',
  summary: 'Show a message to a webhook with every attempt',
  method: 'GET',
  path: '/api/admin/webhooks/:webhookId/deliveries/:deliveryId',
  access: { panel: 'admin.read' },
  params: { ...params, deliveryId: DeliveryId },
  response: Delivered,
  errors: ['WEBHOOK_NOT_FOUND', 'WEBHOOK_DELIVERY_NOT_FOUND'],
})

export const redeliverWebhook = defineEndpoint({
  id: 'webhooks.redeliver',
  tag: 'Admin',
  summary: 'Send a message to a webhook once more, with all its attempts',
  method: 'POST',
  path: '/api/admin/webhooks/:webhookId/deliveries/:deliveryId/redeliver',
  access: { panel: 'admin.write' },
  params: { ...params, deliveryId: DeliveryId },
  response: WebhookDelivery,
  status: 202,
  errors: ['WEBHOOK_NOT_FOUND', 'WEBHOOK_DELIVERY_NOT_FOUND', 'CONFLICT'],
  audit: { action: 'webhook.redeliver' },
})
