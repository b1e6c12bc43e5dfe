import * as api from '../../../shared/api/alerts.ts'
import type { Alert } from '../../../shared/kernel/alert.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { column, type View, wide } from '../../kit/output/view.ts'
import { call, deleted, ignoringNotFound } from '../../kit/resource/actions.ts'
import { listAction } from '../../kit/resource/list.ts'

const VIEW: View<Alert> = {
  id: (row) => row.id,
  name: (row) => row.title,
  columns: [
    column('SINCE', (row) => ({ time: row.createdAt })),
    column('SEVERITY', (row) => row.severity),
    column('STATUS', (row) => (row.resolved ? 'resolved' : 'open')),
    column('ABOUT', (row) => row.server?.name ?? row.node?.name),
    column('TITLE', (row) => row.title),
    column('ID', (row) => row.id),
    wide('TYPE', (row) => row.type),
    wide('RULE', (row) => row.rule?.name),
    wide('RESOLVED', (row) => ({ time: row.resolvedAt })),
    wide('BY', (row) => row.resolvedBy),
  ],
}

type Delivery = api.AlertDelivery

const DELIVERIES: View<Delivery> = {
  id: (row) => row.id,
  name: (row) => row.target,
  columns: [
    column('CHANNEL', (row) => row.channel),
    column('TARGET', (row) => row.target),
    column('EVENT', (row) => row.event),
    column('STATUS', (row) => row.status),
    column('ATTEMPTS', (row) => row.attempts),
    column('LAST', (row) => ({ time: row.lastAttemptAt })),
    column('NEXT', (row) => ({ time: row.nextAttemptAt })),
    column('ERROR', (row) => row.lastError),
    wide('ID', (row) => row.id),
  ],
}

export const listAlerts = listAction(api.listAlerts, VIEW, async ({ args }) => {
  const [open, resolved] = [args.flag('open'), args.flag('resolved')]
  if (open && resolved) throw usage('--open and --resolved exclude each other')
  const scope = args.flag('mine') ? { scope: 'mine' } : {}
  return { query: { ...scope, ...(open || resolved ? { resolved } : {}) } }
})

const DETAIL: View<Alert> = { ...VIEW, columns: [...VIEW.columns, column('MESSAGE', (row) => row.message)] }

export const viewAlert: Action = async (run) => {
  const params = { alertId: run.args.required('alert') }
  await run.out.item(await call(run, api.getAlert, { params }), DETAIL)
}

export const alertDeliveries: Action = async (run) => {
  const params = { alertId: run.args.required('alert') }
  await run.out.list(await call(run, api.listAlertDeliveries, { params }), DELIVERIES)
}

export const resolveAlert: Action = async (run) => {
  const params = { alertId: run.args.required('alert') }
  await run.out.item(await call(run, api.resolveAlert, { params }), VIEW)
}

export const resolveAlerts: Action = async (run) => {
  const alertIds = [...new Set(run.args.words('alert'))]
  await run.prompt.confirm(`Resolve ${alertIds.length} alerts?`)
  const answer = await call(run, api.resolveAlerts, { params: {}, body: { alertIds } })
  if (run.out.machine) await run.out.value(answer)
  else run.notice(`resolved ${answer.resolved}`)
}

export const deleteAlert: Action = async (run) => {
  await ignoringNotFound(run, async () => {
    const id = run.args.required('alert')
    await run.prompt.confirm(`Delete the alert ${id}?`)
    await call(run, api.deleteAlert, { params: { alertId: id } })
    await deleted(run, { id, name: id })
  })
}

interface Count {
  readonly id: string
  readonly kind: string
  readonly count: number
}

const COUNTS: View<Count> = {
  id: (row) => row.id,
  name: (row) => row.id,
  columns: [column('ALERTS', (row) => row.id), column('COUNT', (row) => row.count), wide('KIND', (row) => row.kind)],
}

export const alertStats: Action = async (run) => {
  const query = run.args.flag('mine') ? { scope: 'mine' } : {}
  const stats = await call(run, api.alertStats, { params: {}, query })
  if (run.out.machine) return run.out.value(stats)
  const rows = (kind: string, counts: Readonly<Record<string, number>>): Count[] =>
    Object.entries(counts).map(([id, count]) => ({ id, kind, count }))
  const sums = { all: stats.total, open: stats.unresolved }
  await run.out.list(
    [...rows('sum', sums), ...rows('severity', stats.bySeverity), ...rows('type', stats.byType)],
    COUNTS,
  )
}
