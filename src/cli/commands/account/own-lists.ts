import * as api from '../../../shared/api/profile.ts'
import { column, type View, wide } from '../../kit/output/view.ts'
import { listAction } from '../../kit/resource/list.ts'
import { API_KEY_VIEW } from '../api-keys/view.ts'

const AUDIT: View<api.OwnAuditLog> = {
  id: (row) => row.id,
  name: (row) => row.action,
  columns: [
    column('TIME', (row) => ({ time: row.timestamp })),
    column('ACTION', (row) => row.action),
    column('RESOURCE', (row) => row.resource),
    column('RESOURCE ID', (row) => row.resourceId),
    column('FROM', (row) => row.ipAddress),
    wide('REQUEST', (row) => row.requestId),
    wide('DETAILS', (row) => (row.details === null ? null : JSON.stringify(row.details))),
    wide('ID', (row) => row.id),
  ],
}

export const listOwnAudit = listAction(api.listOwnAuditLogs, AUDIT)
export const listOwnApiKeys = listAction(api.listOwnApiKeys, API_KEY_VIEW)
