import { z } from 'zod'
import { Alert, AlertSeverity, AlertType, DeliveryStatus } from '../kernel/alert.ts'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { AlertId, DeliveryId, NodeId, ServerId } from '../kernel/ids.ts'
import { pageQuery, QueryBoolean } from '../kernel/page.ts'
import { IsoTime } from '../kernel/time.ts'

const params = { alertId: AlertId }

/** `mine`: of one's own rules and of servers that one has a share in; `all` needs alert.read or admin.read for all. */
export const AlertScope = z.enum(['mine', 'all'])
export type AlertScope = z.infer<typeof AlertScope>

/** A message about an alert to one address. */
export const AlertDelivery = z.object({
  id: DeliveryId,
  alertId: AlertId,
  channel: z.enum(['email', 'webhook']),
  /** The e-mail address, or the URL as far as it is no secret. */
  target: z.string(),
  /** `alert.created` or `alert.resolved`. */
  event: z.string(),
  status: DeliveryStatus,
  attempts: z.int(),
  nextAttemptAt: IsoTime.nullable(),
  lastAttemptAt: IsoTime.nullable(),
  lastError: z.string().nullable(),
  createdAt: IsoTime,
  updatedAt: IsoTime,
})
export type AlertDelivery = z.infer<typeof AlertDelivery>

export const listAlerts = defineEndpoint({
  id: 'alerts.list',
  tag: 'Alerts',
  summary: 'List alerts, newest first',
  method: 'GET',
  path: '/api/alerts',
  access: 'session',
  query: pageQuery().extend({
    serverId: ServerId.optional(),
    nodeId: NodeId.optional(),
    type: AlertType.optional(),
    severity: AlertSeverity.optional(),
    resolved: QueryBoolean.optional(),
    scope: AlertScope.optional(),
  }),
  response: z.array(Alert),
  paged: true,
})

export const alertStats = defineEndpoint({
  id: 'alerts.stats',
  tag: 'Alerts',
  summary: 'Count alerts; by severity and type those that are open',
  method: 'GET',
  path: '/api/alerts/stats',
  access: 'session',
  query: z.object({ scope: AlertScope.optional() }),
  response: z.object({
    total: z.int(),
    unresolved: z.int(),
    bySeverity: z.record(AlertSeverity, z.int()),
    byType: z.record(AlertType, z.int()),
  }),
})

export const getAlert = defineEndpoint({
  id: 'alerts.get',
  tag: 'Alerts',
  summary: 'Show an alert with the messages about it',
  method: 'GET',
  path: '/api/alerts/:alertId',
  access: 'session',
  params,
  response: Alert.extend({ deliveries: z.array(AlertDelivery) }),
  errors: ['ALERT_NOT_FOUND'],
})

export const listAlertDeliveries = defineEndpoint({
  id: 'alerts.deliveries',
  tag: 'Alerts',
  summary: 'List the messages about an alert: to whom, and whether they arrived',
  method: 'GET',
  path: '/api/alerts/:alertId/deliveries',
  access: 'session',
  params,
  response: z.array(AlertDelivery),
  errors: ['ALERT_NOT_FOUND'],
})

export const resolveAlert = defineEndpoint({
  id: 'alerts.resolve',
  tag: 'Alerts',
  summary: 'Mark an alert as resolved',
  method: 'POST',
  path: '/api/alerts/:alertId/resolve',
  access: 'session',
  params,
  response: Alert,
  errors: ['ALERT_NOT_FOUND'],
  audit: { action: 'alert.resolve' },
})

export const resolveAlerts = defineEndpoint({
  id: 'alerts.bulk_resolve',
  tag: 'Alerts',
  summary: 'Mark several alerts as resolved, all or none',
  method: 'POST',
  path: '/api/alerts/bulk-resolve',
  access: 'session',
  body: z.object({ alertIds: z.array(AlertId).min(1).max(500) }),
  response: z.object({ resolved: z.int() }),
  errors: ['ALERT_NOT_FOUND'],
  audit: { action: 'alert.resolve' },
})

export const deleteAlert = defineEndpoint({
  id: 'alerts.delete',
  tag: 'Alerts',
  summary: 'Delete an alert with the log of its messages',
  method: 'DELETE',
  path: '/api/alerts/:alertId',
  access: 'session',
  params,
  response: NoData,
  errors: ['ALERT_NOT_FOUND'],
  audit: { action: 'alert.delete' },
})
