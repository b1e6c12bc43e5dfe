import { z } from 'zod'
import { IsoTime } from './time.ts'

/** What an alert is about. `custom` is the test of a rule; no rule is of that type. */
export const AlertType = z.enum([
  'resource_threshold',
  'node_offline',
  'server_crashed',
  'backup_failed',
  'backup_overdue',
  'custom',
])
export type AlertType = z.infer<typeof AlertType>

/** How bad it is. */
export const AlertSeverity = z.enum(['info', 'warning', 'critical'])
export type AlertSeverity = z.infer<typeof AlertSeverity>

/** What a rule looks at: one server, one node, or everything of its type. */
export const AlertTarget = z.enum(['server', 'node', 'global'])
export type AlertTarget = z.infer<typeof AlertTarget>

/** The metrics that have thresholds, each in percent of what there is. */
export const AlertMetric = z.enum(['cpu', 'memory', 'disk'])
export type AlertMetric = z.infer<typeof AlertMetric>

const Named = z.object({ id: z.string(), name: z.string() }).nullable()

/**
 * Something that a rule has noticed. At most one is open per rule, thing and metric; it is resolved when the
 * cause has gone (`resolvedBy` is `null`) or by somebody. `userId` is the owner of the rule.
 */
export const Alert = z.object({
  id: z.string(),
  ruleId: z.string().nullable(),
  userId: z.string().nullable(),
  serverId: z.string().nullable(),
  nodeId: z.string().nullable(),
  type: AlertType,
  severity: AlertSeverity,
  title: z.string(),
  message: z.string(),
  metadata: z.record(z.string(), z.unknown()),
  resolved: z.boolean(),
  resolvedAt: IsoTime.nullable(),
  resolvedBy: z.string().nullable(),
  createdAt: IsoTime,
  rule: Named,
  server: Named,
  node: Named,
})
export type Alert = z.infer<typeof Alert>

/** Where a message to the outside stands. */
export const DeliveryStatus = z.enum(['pending', 'sent', 'failed'])
export type DeliveryStatus = z.infer<typeof DeliveryStatus>
