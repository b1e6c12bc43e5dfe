import type { AlertMetric, AlertSeverity } from '../../../../shared/kernel/alert.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Log } from '../../../core/log.ts'
import type { Vault } from '../../../core/secrets.ts'
import type { Tx } from '../../../db/db.ts'
import type { Outbox } from '../webhooks/outbox.ts'
import { type AlertRow, findAlertRow, toAlert } from './alert-rows.ts'
import { targetsOf } from './notification-targets.ts'
import { ruleHolds } from './rule-holds.ts'
import { actionsOf, COOLDOWN_MINUTES, findRule, type RuleRow } from './rule-rows.ts'

/** What raising and resolving alerts needs. */
export interface RaiseDeps {
  readonly bus: Bus
  readonly clock: Clock
  readonly vault: Vault
  readonly log: Log
  readonly outbox: Outbox
}

/** A server or node that an alert is about. */
export interface Subject {
  readonly kind: 'server' | 'node'
  readonly id: string
  readonly name: string
}

/** What a rule has noticed. */
export interface Finding {
  readonly subject: Subject
  readonly metric: AlertMetric | ''
  readonly severity: AlertSeverity
  readonly title: string
  readonly message: string
  readonly metadata: Readonly<Record<string, unknown>>
}

/**
 * Writes the alert with its events and messages, unless the same one is open or was a short while ago. True when it was
 * written. All of it is one transaction, and a unique index allows one open alert: nothing is reported twice.
 */
export async function raise(tx: Tx, deps: RaiseDeps, rule: RuleRow, finding: Finding): Promise<boolean> {
  const { subject, metric, severity, title, message } = finding
  const { createAlert, cooldownMinutes } = actionsOf(rule)
  if (await isQuiet(tx, rule.id, finding, cooldownMinutes ?? COOLDOWN_MINUTES)) return false
  const id = newId('alert', deps.clock)
  await tx.q
    .insertInto('alert')
    .values({
      id,
      ruleId: rule.id,
      userId: rule.userId,
      serverId: subject.kind === 'server' ? subject.id : null,
      nodeId: subject.kind === 'node' ? subject.id : null,
      subjectId: subject.id,
      metric,
      listed: createAlert === false ? 0 : 1,
      type: rule.type,
      severity,
      title,
      message,
      metadata: JSON.stringify(finding.metadata),
      createdAt: tx.now,
      resolvedAt: null,
      resolvedBy: null,
    })
    .execute()
  const row = (await findAlertRow(tx.q, id)) ?? missing(id)
  if (row.listed === 1) await deps.bus.append(tx, { type: 'alert_created', data: { alert: toAlert(row) } })
  await announce(tx, deps, row)
  await notifyTargets(tx, deps, { rule, row, event: 'alert.created' })
  return true
}

/** Resolves an open alert: by somebody, or because its cause has gone (`null`). False when it was resolved before. */
export async function resolveOpen(tx: Tx, deps: RaiseDeps, alertId: string, by: string | null): Promise<boolean> {
  const { numUpdatedRows } = await tx.q
    .updateTable('alert')
    .set({ resolvedAt: tx.now, resolvedBy: by })
    .where('id', '=', alertId)
    .where('resolvedAt', 'is', null)
    .executeTakeFirst()
  if (numUpdatedRows === 0n) return false
  const row = (await findAlertRow(tx.q, alertId)) ?? missing(alertId)
  if (row.listed === 1) {
    const data = { alertId, alert: toAlert(row), resolvedBy: by }
    await deps.bus.append(tx, { type: 'alert_resolved', data })
  }
  await announce(tx, deps, row)
  const rule = row.ruleId === null ? undefined : await findRule(tx.q, row.ruleId)
  // Who may not be notified of it any more gets nothing of its end either.
  if (rule?.enabled === 1 && (await ruleHolds(tx, rule)))
    await notifyTargets(tx, deps, { rule, row, event: 'alert.resolved' })
  return true
}

/** Puts the alert into the outbox for everybody whom the rule notifies. */
export async function notifyTargets(
  tx: Tx,
  deps: Pick<RaiseDeps, 'outbox' | 'vault' | 'log'>,
  { rule, row, event }: { readonly rule: RuleRow; readonly row: AlertRow; readonly event: string },
): Promise<void> {
  const server = row.serverId === null ? {} : { serverId: row.serverId, serverName: row.serverName ?? row.subjectId }
  const data = { alert: toAlert(row) }
  const payload = { event, ...server, userId: row.resolvedBy, timestamp: tx.now, data }
  for (const place of await targetsOf(tx, deps, rule, row)) {
    await deps.outbox.add(tx, { place, alertId: row.id, payload })
  }
}

/** To the streams of the server. */
async function announce(tx: Tx, { bus }: RaiseDeps, row: AlertRow): Promise<void> {
  if (row.serverId === null || row.listed === 0) return
  await bus.append(tx, { type: 'alert', serverId: row.serverId, data: { alert: toAlert(row) } })
}

/** Whether the same is open, or its cool-down runs: from when it was resolved. */
async function isQuiet(tx: Tx, ruleId: string, { subject, metric }: Finding, minutes: number): Promise<boolean> {
  const last = await tx.q
    .selectFrom('alert')
    .select('resolvedAt')
    .where('ruleId', '=', ruleId)
    .where('subjectId', '=', subject.id)
    .where('metric', '=', metric)
    // The test of a rule is no reason to keep quiet.
    .where('type', '!=', 'custom')
    .orderBy('createdAt', 'desc')
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()
  if (last === undefined) return false
  return last.resolvedAt === null || Date.parse(tx.now) - Date.parse(last.resolvedAt) < minutes * 60_000
}

function missing(id: string): never {
  throw new Error(`alert ${id} is gone within the transaction that wrote it`)
}
