import * as api from '../../../../shared/api/system-errors.ts'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import type { SystemError } from '../../../../shared/kernel/system-error.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import type { OperationDeps } from '../../../access/operation.ts'
import type { SystemErrors } from '../../../core/system-errors.ts'
import { type ExportColumn, exportFile } from '../../../http/export-file.ts'
import { operate } from '../../../http/operate.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import * as operations from './operations.ts'
import { ReportLimit } from './report-limit.ts'
import * as rows from './rows.ts'

/** What these routes work with. */
export interface SystemErrorDeps extends OperationDeps {
  readonly clock: Clock
  readonly systemErrors: SystemErrors
}

const MOST_METADATA = 50 * 1024

/** The routes of system errors. */
export function systemErrorRoutes(deps: SystemErrorDeps): Route[] {
  const { db, clock } = deps
  return [
    route(api.listSystemErrors, ({ query }) => rows.listErrors(db.read, query)),
    route(api.exportSystemErrors, async ({ query: { format, ...filter } }) => {
      const batches = (): AsyncIterable<SystemError[]> => rows.errorBatches(db.read, filter)
      return exportFile({
        format,
        name: 'system-errors',
        columns: COLUMNS,
        toJson: (row) => JSON.stringify(row),
        batches,
        clock,
      })
    }),
    route(api.getSystemError, async ({ params }, context) => {
      return (
        (await rows.findError(db.read, params.errorId)) ?? context.fail('ADMIN_SYSTEM_ERROR_NOT_FOUND', operations.GONE)
      )
    }),
    operate(operations.resolveSystemError, deps),
    operate(operations.resolveSystemErrors, deps),
    report(deps),
  ]
}

/** What a client reports differs from the daemon's own errors by its component. */
function report({ clock, systemErrors }: SystemErrorDeps): Route {
  const limit = new ReportLimit(clock)
  return route(api.reportSystemError, async ({ body }, context) => {
    const { userId } = callerOf(context)
    limit.take(userId)
    const { component, level, message, stack, metadata } = body
    if (metadata !== undefined && Buffer.byteLength(JSON.stringify(metadata)) > MOST_METADATA)
      throw fieldError('body.metadata', 'must be at most 50 KiB of JSON')
    const error = new Error(message)
    error.stack = stack ?? ''
    const { requestId } = context.origin
    systemErrors.capture(error, { component: `client/${component}`, level, requestId, userId, metadata })
    return null
  })
}

const COLUMNS: readonly ExportColumn<SystemError>[] = [
  { name: 'id', value: (row) => row.id },
  { name: 'createdAt', value: (row) => row.createdAt },
  { name: 'level', value: (row) => row.level },
  { name: 'component', value: (row) => row.component },
  { name: 'message', value: (row) => row.message },
  { name: 'resolved', value: (row) => row.resolved },
  { name: 'userId', value: (row) => row.userId },
  { name: 'requestId', value: (row) => row.requestId },
  { name: 'stack', value: (row) => row.stack },
  { name: 'count', value: (row) => row.count },
  { name: 'lastSeenAt', value: (row) => row.lastSeenAt },
  { name: 'resolvedAt', value: (row) => row.resolvedAt },
  { name: 'resolvedBy', value: (row) => row.resolvedBy },
]
