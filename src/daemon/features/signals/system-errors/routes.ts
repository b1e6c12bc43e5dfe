import * as api from '../../../../shared/api/system-errors.ts'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import type { SystemError } from '../../../../shared/kernel/system-error.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Audit } from '../../../access/audit.ts'
import type { Bus } from '../../../core/bus.ts'
import type { SystemErrors } from '../../../core/system-errors.ts'
import type { Db } from '../../../db/db.ts'
import { type ExportColumn, exportFile } from '../../../http/export-file.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import * as repo from './repo.ts'
import { ReportLimit } from './report-limit.ts'

/** What these routes work with. */
export interface SystemErrorDeps {
  readonly db: Db
  readonly bus: Bus
  readonly audit: Audit
  readonly clock: Clock
  readonly systemErrors: SystemErrors
}

const GONE = 'There is no such system error'
const MOST_METADATA = 50 * 1024

/** The routes of system errors. */
export function systemErrorRoutes(deps: SystemErrorDeps): Route[] {
  const { db, clock } = deps
  return [
    route(api.listSystemErrors, ({ query }) => repo.listErrors(db.read, query)),
    route(api.exportSystemErrors, async ({ query: { format, ...filter } }) => {
      const batches = (): AsyncIterable<SystemError[]> => repo.errorBatches(db.read, filter)
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
      return (await repo.findError(db.read, params.errorId)) ?? context.fail('ADMIN_SYSTEM_ERROR_NOT_FOUND', GONE)
    }),
    resolveOne(deps),
    resolveAll(deps),
    report(deps),
  ]
}

function resolveOne({ db, bus, audit }: SystemErrorDeps): Route {
  return route(api.resolveSystemError, ({ params: { errorId }, body: { note } }, context) =>
    db.write(async (tx) => {
      const { userId } = callerOf(context)
      if (await repo.resolveOne(tx, errorId, { by: userId, note: note ?? null })) {
        const details = note === undefined ? {} : { details: { note } }
        const entry = { action: 'system_error.resolve', resource: 'system', resourceId: errorId, ...details }
        await audit.record(tx, context.actor, entry)
        await bus.append(tx, { type: 'system_error_resolved', data: { errorId, resolved: 1, resolvedBy: userId } })
      }
      return (await repo.findError(tx.q, errorId)) ?? context.fail('ADMIN_SYSTEM_ERROR_NOT_FOUND', GONE)
    }),
  )
}

function resolveAll({ db, bus, audit }: SystemErrorDeps): Route {
  return route(api.resolveSystemErrors, ({ body: { note, ...selection } }, context) =>
    db.write(async (tx) => {
      const { userId } = callerOf(context)
      const resolved = await repo.resolveSelected(tx, selection, { by: userId, note: note ?? null })
      if (resolved === 0) return { resolved }
      const details = { ...selection, ...(note === undefined ? {} : { note }), resolved }
      await audit.record(tx, context.actor, { action: 'system_error.resolve', resource: 'system', details })
      await bus.append(tx, { type: 'system_error_resolved', data: { errorId: null, resolved, resolvedBy: userId } })
      return { resolved }
    }),
  )
}

/** What a client reports is told apart from the daemon's own errors by its component. */
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
