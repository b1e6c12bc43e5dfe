import type { Generated } from 'kysely'
import type { AlertSeverity, AlertTarget, AlertType, DeliveryStatus } from '../../../shared/kernel/alert.ts'
import type { IsoTime } from '../../../shared/kernel/time.ts'
import type { Flag, Json, Stamps } from './columns.ts'

interface AlertRuleTable extends Stamps {
  id: string
  name: string
  description: string | null
  enabled: Flag
  type: AlertType
  target: AlertTarget
  targetId: string | null
  userId: string | null
  conditions: Json
  /** The actions of the API without the URLs. */
  actions: Json
  /** URLs and signing secret, sealed as one; `null`: no webhooks. */
  sealedWebhooks: string | null
}

interface AlertTable {
  id: string
  ruleId: string | null
  userId: string | null
  serverId: string | null
  nodeId: string | null
  /** The server or node as text: it stays when that is gone. */
  subjectId: string
  /** Which metric; '' where there is none. */
  metric: string
  /** 0: kept for the cool-down alone. */
  listed: Flag
  type: AlertType
  severity: AlertSeverity
  title: string
  message: string
  metadata: Json
  createdAt: IsoTime
  resolvedAt: IsoTime | null
  resolvedBy: string | null
}

/** How often each server had crashed when the rules last looked; without a row: never. */
interface AlertCrashCountTable {
  serverId: string
  crashCount: number
}

interface WebhookTable extends Stamps {
  id: string
  name: string
  description: string | null
  /** The URL as far as it is no secret. */
  shownUrl: string
  sealedUrl: string
  sealedSecret: string
  format: 'generic' | 'discord' | 'slack'
  events: Json
  enabled: Flag
  disabledReason: 'failing' | null
  failingSince: IsoTime | null
  /** Failed attempts since the last one that did not fail. */
  failures: number
  lastSuccessAt: IsoTime | null
  lastFailureAt: IsoTime | null
  lastError: string | null
  createdBy: string | null
}

/** A message to the outside: written with what it reports, sent by a job. */
interface DeliveryTable extends Stamps {
  id: string
  channel: 'email' | 'webhook'
  webhookId: string | null
  alertId: string | null
  target: string
  /** URL and secret where no webhook row has them. */
  sealedTarget: string | null
  event: string
  payload: Json
  status: DeliveryStatus
  attempts: number
  /** How many attempts there may still be. */
  attemptsLeft: number
  /** Set exactly while `status` is `pending`. */
  nextAttemptAt: IsoTime | null
  lastAttemptAt: IsoTime | null
  lastStatus: number | null
  lastError: string | null
}

interface DeliveryAttemptTable {
  id: Generated<number>
  deliveryId: string
  number: number
  startedAt: IsoTime
  durationMs: number
  status: number | null
  error: string | null
  response: string | null
}

/** What is noticed, and who is notified. */
export interface AlertsTables {
  alertRule: AlertRuleTable
  alert: AlertTable
  alertCrashCount: AlertCrashCountTable
  webhook: WebhookTable
  delivery: DeliveryTable
  deliveryAttempt: DeliveryAttemptTable
}
