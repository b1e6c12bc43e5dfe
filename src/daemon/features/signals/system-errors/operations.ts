import * as api from '../../../../shared/api/system-errors.ts'
import { type OperationDeps, operationsOver } from '../../../access/operation.ts'
import * as rows from './rows.ts'

export const GONE = 'There is no such system error'

const operation = operationsOver<OperationDeps>()

export const resolveSystemError = operation(
  api.resolveSystemError,
  async (work, { params: { errorId }, body: { note } }) => {
    const { tx, userId, fail } = work
    const isResolved = await rows.resolveOne(tx, errorId, { by: userId, note: note ?? null })
    const answer = (await rows.findError(tx.q, errorId)) ?? fail('ADMIN_SYSTEM_ERROR_NOT_FOUND', GONE)
    if (!isResolved) return { answer }
    const details = note === undefined ? {} : { details: { note } }
    return {
      answer,
      audit: { resourceId: errorId, ...details },
      events: [{ type: 'system_error_resolved', data: { errorId, resolved: 1, resolvedBy: userId } }],
    }
  },
)

export const resolveSystemErrors = operation(
  api.resolveSystemErrors,
  async (work, { body: { note, ...selection } }) => {
    const { userId } = work
    const resolved = await rows.resolveSelected(work.tx, selection, { by: userId, note: note ?? null })
    if (resolved === 0) return { answer: { resolved } }
    const details = { ...selection, ...(note === undefined ? {} : { note }), resolved }
    return {
      answer: { resolved },
      audit: { details },
      events: [{ type: 'system_error_resolved', data: { errorId: null, resolved, resolvedBy: userId } }],
    }
  },
)
