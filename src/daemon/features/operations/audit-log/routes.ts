import { listAuditLogs } from '../../../../shared/api/admin.ts'
import { exportAuditLogs, getAuditLog, verifyAuditLogs } from '../../../../shared/api/audit-log.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Db } from '../../../db/db.ts'
import { type ExportColumn, exportFile } from '../../../http/export-file.ts'
import { cachedRoute, type Route, route } from '../../../http/route.ts'
import { auditBatches, type ExportedRow, findAudit, KnownAudit, listAudit, shownText } from './rows.ts'
import { verifyAudit } from './verify.ts'

/** The routes of the audit log. */
export function auditLogRoutes({ db, clock }: { db: Db; clock: Clock }): Route[] {
  const known = new KnownAudit()
  return [
    cachedRoute(listAuditLogs, ({ query }, { at }) => listAudit(at.q, query, known)),
    route(exportAuditLogs, async ({ query: { format, ...filter } }) => {
      const batches = (): AsyncIterable<ExportedRow[]> => auditBatches(db.read, filter)
      return exportFile({ format, name: 'audit-log', columns: COLUMNS, toJson: shownText, batches, clock })
    }),
    route(verifyAuditLogs, ({ query }, { signal }) => verifyAudit(db.read, query, signal)),
    route(getAuditLog, async ({ params }, context) => {
      const row = await findAudit(db.read, params.auditLogId)
      return row ?? context.fail('NOT_FOUND', 'There is no such row in the audit log')
    }),
  ]
}

/** The columns of an export: first those of the API, behind them what else a row says. */
const COLUMNS: readonly ExportColumn<ExportedRow>[] = [
  { name: 'id', value: (row) => row.id },
  { name: 'timestamp', value: (row) => row.createdAt },
  { name: 'action', value: (row) => row.action },
  { name: 'resource', value: (row) => row.resource },
  { name: 'resourceId', value: (row) => row.resourceId },
  { name: 'userId', value: (row) => row.userId },
  { name: 'username', value: (row) => row.username },
  { name: 'email', value: (row) => row.email },
  { name: 'details', value: (row) => row.details },
  { name: 'ipAddress', value: (row) => row.ipAddress },
  { name: 'userAgent', value: (row) => row.userAgent },
  { name: 'apiKeyId', value: (row) => row.apiKeyId },
  { name: 'requestId', value: (row) => row.requestId },
]
