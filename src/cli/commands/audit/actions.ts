import * as api from '../../../shared/api/admin.ts'
import { exportAuditLogs, getAuditLog } from '../../../shared/api/audit-log.ts'
import type { Action } from '../../kit/command.ts'
import { instantOf } from '../../kit/instant.ts'
import { column, type View, wide } from '../../kit/output/view.ts'
import { call } from '../../kit/resource/actions.ts'
import { downloadAction } from '../../kit/resource/download.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { listAction } from '../../kit/resource/list.ts'
import type { Run } from '../../kit/run.ts'

const VIEW: View<api.AuditLog> = {
  id: (row) => row.id,
  name: (row) => row.action,
  columns: [
    column('TIME', (row) => ({ time: row.timestamp })),
    column('WHO', (row) => row.user?.username),
    column('ACTION', (row) => row.action),
    column('RESOURCE', (row) => row.resource),
    column('RESOURCE ID', (row) => row.resourceId),
    column('FROM', (row) => row.ipAddress),
    wide('REQUEST', (row) => row.requestId),
    wide('DETAILS', (row) => (row.details === null ? null : JSON.stringify(row.details))),
    wide('ID', (row) => row.id),
  ],
}

/** The time that the rows are to be of. */
async function between(run: Run): Promise<Record<string, unknown>> {
  const [from, to] = [instantOf(run, 'since'), instantOf(run, 'until')]
  return { ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) }
}

export const listAudit = listAction(api.listAuditLogs, VIEW, async (run) => ({ query: await between(run) }))

export const viewAudit: Action = async (run) => {
  const params = { auditLogId: run.args.required('row') }
  await run.out.item(await call(run, getAuditLog, { params }), VIEW)
}

export const exportAudit = downloadAction(exportAuditLogs, between)

/** Rows as they are written, after the last `--tail` of them. */
export const tailAudit: Action = async (run) => {
  const query = await fieldsOf(run)
  const open = await run.streams()
  const options = { signal: run.signal, retriesBeforeOpen: 3 }
  const items = open(api.streamAdminEvents, { query: { types: 'audit_log_created' } }, options)
  const client = await run.client()
  let last: string | undefined
  for await (const item of items) {
    if (item.kind === 'retrying') run.notice(`cut off (${item.reason}); next try in ${(item.inMs / 1000).toFixed(1)} s`)
    if (item.kind !== 'frame') continue
    // The stream is open before the first read, so that no row falls between the two.
    if (item.event === 'connected' && last === undefined) {
      const limit = run.args.integer('tail', 0) ?? 10
      if (limit === 0) last = ''
      else {
        const { data } = await client.page(api.listAuditLogs, { query: { ...query, limit } })
        for (const row of data.toReversed()) await run.out.row(row, VIEW)
        last = data[0]?.id ?? ''
      }
    }
    if (item.event !== 'audit_log_created') continue
    const id = idOf(item.data)
    if (id === undefined || (last !== undefined && id <= last)) continue
    const row = await call(run, getAuditLog, { params: { auditLogId: id } })
    if (fits(row, query)) await run.out.row(row, VIEW)
  }
}

function idOf(data: string): string | undefined {
  const event: unknown = JSON.parse(data)
  return typeof event === 'object' && event !== null && 'id' in event && typeof event.id === 'string'
    ? event.id
    : undefined
}

/** The filters of the list, on one row. */
function fits(row: api.AuditLog, query: Readonly<Record<string, unknown>>): boolean {
  const { userId, action, resource, resourceId, address } = query
  return (
    (userId === undefined || row.userId === userId) &&
    (typeof action !== 'string' || row.action.toLowerCase().includes(action.toLowerCase())) &&
    (resource === undefined || row.resource === resource) &&
    (resourceId === undefined || row.resourceId === resourceId) &&
    (address === undefined || row.ipAddress === address)
  )
}
