import * as api from '../../../../shared/api/server-life.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { operationsOver } from '../../../access/operation.ts'
import { changeServer } from './edit.ts'
import type { ServerDeps } from './operations.ts'
import { addCommand, nextGeneration, refuseSuspended } from './orders.ts'
import { findServerRow } from './rows.ts'
import { toServer, viewerOf } from './view.ts'

const operation = operationsOver<ServerDeps>()

export const setRestartPolicy = operation(
  api.setRestartPolicy,
  async (work, { params: { serverId }, body: { restartPolicy, maxCrashCount } }) => {
    const patch = {
      ...(restartPolicy === undefined ? {} : { restartPolicy }),
      ...(maxCrashCount === undefined ? {} : { maxCrashCount }),
    }
    const { done } = await changeServer(work, { serverId, patch })
    const after = await findServerRow(work.tx.q, serverId)
    if (after === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
    return { ...done, answer: { restartPolicy: after.restartPolicy, maxCrashCount: after.maxCrashCount } }
  },
)

export const resetCrashCount = operation(api.resetCrashCount, async ({ tx, deps, fail }, { params: { serverId } }) => {
  const row = await findServerRow(tx.q, serverId)
  if (row === undefined) return fail('SERVER_NOT_FOUND', 'There is no such server')
  refuseSuspended(row)
  if (row.deletingAt !== null) return fail('SERVER_INVALID_STATE', 'This server is being deleted')
  const generation = await nextGeneration(tx, row, {})
  const commandId = await addCommand(tx, deps, { row, generation, op: 'reset-crashes', args: {} })
  const details = { crashCount: row.crashCount, commandId }
  return { answer: null, audit: { resourceId: row.id, details } }
})

export const setServerVariables = operation(
  api.setServerVariables,
  async (work, { params: { serverId }, body: environment }) => {
    const { done } = await inFields(() => changeServer(work, { serverId, patch: { environment } }))
    const row = await findServerRow(work.tx.q, serverId)
    if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
    const viewer = await viewerOf(work.tx, work.holder, [row])
    // The fields of this body are the variables, and so are those of its audit row.
    const values = done.audit?.details?.['environment']
    const details = typeof values === 'object' && values !== null ? { ...values } : {}
    const audit = done.audit && { ...done.audit, details }
    return { ...done, audit, answer: toServer(row, viewer, work.deps.facts).environment }
  },
)

/** The fields of this body are the variables themselves. */
async function inFields<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof PanelError) || error.details === undefined) throw error
    const details = error.details.map(({ field, message }) => ({
      field: field.replace('body.environment.', 'body.'),
      message,
    }))
    const said = details.map(({ field, message }) => `${field.slice('body.'.length)} ${message}`)
    throw new PanelError(error.code, `The variables are not valid: ${said.join('; ')}`.slice(0, 1000), { details })
  }
}
