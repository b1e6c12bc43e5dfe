import * as api from '../../shared/api/admin.ts'
import { instantOf } from '../instant.ts'
import { column, type View, wide } from '../output/view.ts'
import { listAction } from '../resource/list.ts'

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

export const listAudit = listAction(api.listAuditLogs, VIEW, async (run) => {
  const [from, to] = [instantOf(run, 'since'), instantOf(run, 'until')]
  return { query: { ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) } }
})
