import * as api from '../../../../shared/api/alerts.ts'
import { operationsOver } from '../../../access/operation.ts'
import { type AlertRow, findAlertRow, findAlertRows, toAlert } from './alert-rows.ts'
import { resolveOpen } from './raise.ts'
import { denied, mayOnAlert } from './reach.ts'
import type { RuleDeps } from './write-rule.ts'

export const GONE = 'There is no such alert'

const operation = operationsOver<RuleDeps>()

export const resolveAlert = operation(api.resolveAlert, async (work, { params: { alertId } }) => {
  const { tx, deps, holder, userId, fail } = work
  const row = await findAlertRow(tx.q, alertId)
  if (row === undefined || row.listed === 0 || !(await mayOnAlert(tx, holder, row, 'alert.read')))
    return fail('ALERT_NOT_FOUND', GONE)
  if (!(await mayOnAlert(tx, holder, row, 'alert.update'))) throw denied('alert.update')
  const isResolved = await resolveOpen(tx, deps, alertId, userId)
  const entry = { resourceId: alertId, details: { title: row.title } }
  return { answer: toAlert((await findAlertRow(tx.q, alertId)) ?? row), audit: isResolved ? entry : undefined }
})

/** All or none: an id that the holder cannot see, or may not resolve, refuses the whole. */
export const resolveAlerts = operation(api.resolveAlerts, async (work, { body: { alertIds } }) => {
  const { tx, deps, holder, userId, fail } = work
  const ids = [...new Set<string>(alertIds)]
  const visible: AlertRow[] = []
  for (const row of await findAlertRows(tx.q, ids)) {
    if (await mayOnAlert(tx, holder, row, 'alert.read')) visible.push(row)
  }
  const missing = ids.filter((id) => !visible.some((row) => row.id === id))
  if (missing.length > 0) fail('ALERT_NOT_FOUND', `There is no alert ${missing.join(', ')}`, { missing })
  for (const row of visible) if (!(await mayOnAlert(tx, holder, row, 'alert.update'))) throw denied('alert.update')
  const resolved: string[] = []
  for (const { id } of visible) if (await resolveOpen(tx, deps, id, userId)) resolved.push(id)
  const entry = { details: { alertIds: resolved } }
  return { answer: { resolved: resolved.length }, audit: resolved.length === 0 ? undefined : entry }
})

export const deleteAlert = operation(api.deleteAlert, async (work, { params: { alertId } }) => {
  const { tx, holder, userId, fail } = work
  const row = await findAlertRow(tx.q, alertId)
  if (row === undefined || row.listed === 0 || !(await mayOnAlert(tx, holder, row, 'alert.read')))
    return fail('ALERT_NOT_FOUND', GONE)
  if (!(await mayOnAlert(tx, holder, row, 'alert.delete'))) throw denied('alert.delete')
  await tx.q.deleteFrom('alert').where('id', '=', alertId).execute()
  const details = { title: row.title, resolved: row.resolvedAt !== null }
  const entry = { resourceId: alertId, details }
  return {
    answer: null,
    audit: entry,
    events: [{ type: 'alert_deleted', data: { alertId, deletedBy: userId } }],
  }
})
