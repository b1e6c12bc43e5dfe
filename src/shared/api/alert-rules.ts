import { z } from 'zod'
import { Alert, AlertTarget, AlertType } from '../kernel/alert.ts'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { AlertRuleId } from '../kernel/ids.ts'
import { pageQuery, QueryBoolean } from '../kernel/page.ts'
import { IsoTime } from '../kernel/time.ts'
import { AlertScope } from './alerts.ts'

const params = { ruleId: AlertRuleId }
const percent = z.number().min(1).max(100)

/** The types that rules have. */
export const AlertRuleType = AlertType.exclude(['custom'])
export type AlertRuleType = z.infer<typeof AlertRuleType>

/**
 * When a rule fires. Thresholds are percent: of a server's own limits, of the machine for a node. `durationSeconds`: how
 * long a metric must be at or above its threshold, and then below it to recover. `offlineThreshold`: minutes.
 */
export const AlertConditions = z.object({
  cpuThreshold: percent.optional(),
  memoryThreshold: percent.optional(),
  diskThreshold: percent.optional(),
  durationSeconds: z.int().min(0).max(86_400).optional(),
  offlineThreshold: z.int().min(1).max(10_080).optional(),
})
export type AlertConditions = z.infer<typeof AlertConditions>

/** What a rule does. `notifyOwner`: mail to the owner of the server, or for nodes to the owner of the rule, at a confirmed address. */
export const AlertActions = z.object({
  /** URLs that are posted to, signed with the rule's secret; those of Discord and Slack get the shape they know. */
  webhooks: z.array(z.string().min(1).max(2000)).max(10).optional(),
  /**
   * Confirmed addresses of accounts that may read the alerts, looked at again whenever a mail is sent; in rules that somebody
   * with `admin.write` has made, any address.
   */
  emails: z.array(z.email().max(254)).max(10).optional(),
  notifyOwner: z.boolean().optional(),
  /** `false`: messages only; no alert is listed. */
  createAlert: z.boolean().optional(),
  /** Minutes after an alert in which the same rule keeps quiet about the same thing. */
  cooldownMinutes: z.int().min(1).max(10_080).optional(),
})
export type AlertActions = z.infer<typeof AlertActions>

/** A rule. */
export const AlertRule = z.object({
  id: AlertRuleId,
  name: z.string(),
  description: z.string().nullable(),
  enabled: z.boolean(),
  type: AlertRuleType,
  target: AlertTarget,
  targetId: z.string().nullable(),
  /** Who made it; `null`: the panel itself, or somebody whose account is gone. */
  userId: z.string().nullable(),
  conditions: AlertConditions,
  /** Of secret URLs only the host is shown; sent back like that they stay as they are. */
  actions: AlertActions,
  createdAt: IsoTime,
  updatedAt: IsoTime,
})
export type AlertRule = z.infer<typeof AlertRule>

/** With what its webhooks are signed, in the one answer that shows it. */
const Made = AlertRule.extend({ webhookSecret: z.string().nullable() })

const Fields = z.object({
  name: z.string().trim().min(1).max(100),
  description: z.string().max(500).nullish(),
  conditions: AlertConditions.default({}),
  actions: AlertActions.default({}),
  enabled: z.boolean().default(true),
})

export const listAlertRules = defineEndpoint({
  id: 'alert_rules.list',
  tag: 'Alerts',
  summary: 'List alert rules by name: your own, or with admin.read all',
  method: 'GET',
  path: '/api/alert-rules',
  access: 'session',
  query: pageQuery().extend({
    search: z.string().max(200).optional(),
    type: AlertRuleType.optional(),
    enabled: QueryBoolean.optional(),
    scope: AlertScope.optional(),
    target: AlertTarget.optional(),
    targetId: z.string().max(64).optional(),
  }),
  response: z.array(AlertRule),
  paged: true,
})

export const createAlertRule = defineEndpoint({
  id: 'alert_rules.create',
  tag: 'Alerts',
  summary:
    'Create an alert rule; for a server with alert.create there, for nodes, all and mail to who has no account with admin.write',
  method: 'POST',
  path: '/api/alert-rules',
  access: 'session',
  body: Fields.extend({ type: AlertRuleType, target: AlertTarget, targetId: z.string().min(1).max(64).nullish() }),
  response: Made,
  status: 201,
  errors: ['SERVER_NOT_FOUND', 'NODE_NOT_FOUND', 'CONFLICT', 'CREDENTIAL_ENCRYPTION_KEY_MISSING'],
  audit: { action: 'alert_rule.create' },
})

export const getAlertRule = defineEndpoint({
  id: 'alert_rules.get',
  tag: 'Alerts',
  summary: 'Show an alert rule',
  method: 'GET',
  path: '/api/alert-rules/:ruleId',
  access: 'session',
  params,
  response: AlertRule,
  errors: ['ALERT_RULE_NOT_FOUND'],
})

export const updateAlertRule = defineEndpoint({
  id: 'alert_rules.update',
  tag: 'Alerts',
  summary: 'Edit an alert rule; conditions and actions that are given take the place of all it had',
  method: 'PUT',
  path: '/api/alert-rules/:ruleId',
  access: 'session',
  params,
  body: z.object({
    name: Fields.shape.name.optional(),
    description: Fields.shape.description,
    conditions: AlertConditions.optional(),
    actions: AlertActions.optional(),
    enabled: z.boolean().optional(),
  }),
  response: Made,
  errors: ['ALERT_RULE_NOT_FOUND', 'CREDENTIAL_ENCRYPTION_KEY_MISSING'],
  audit: { action: 'alert_rule.update' },
})

export const deleteAlertRule = defineEndpoint({
  id: 'alert_rules.delete',
  tag: 'Alerts',
  summary: 'Delete an alert rule; its open alerts are resolved',
  method: 'DELETE',
  path: '/api/alert-rules/:ruleId',
  access: 'session',
  params,
  response: NoData,
  errors: ['ALERT_RULE_NOT_FOUND'],
  audit: { action: 'alert_rule.delete' },
})

export const testAlertRule = defineEndpoint({
  id: 'alert_rules.test',
  tag: 'Alerts',
  summary: 'Send a test message to everybody whom an alert rule notifies; the alert shows what became of each',
  method: 'POST',
  path: '/api/alert-rules/:ruleId/test',
  access: 'session',
  params,
  response: Alert,
  status: 201,
  errors: ['ALERT_RULE_NOT_FOUND'],
  audit: { action: 'alert_rule.test' },
})
