import * as api from '../../../../shared/api/bulk-servers.ts'
import { operationsOver, type WorkOver } from '../../../access/operation.ts'
import { actOnEach, actOnServers, type BulkDeps } from './bulk.ts'

const operation = operationsOver<BulkDeps>()

export const actOnSeveral = operation(api.bulkServerActions, async (work, { body }) => {
  const results = await actOnServers(work, { ...body, reason: body.reason ?? null, stopServer: true })
  return { answer: { results, summary: counts(results) } }
})

export const suspendSeveral = operation(api.bulkSuspend, async (work, { body }) => {
  const results = await actOnEach(work, { ...body, action: 'suspend', reason: body.reason ?? null })
  return { answer: outcome(results) }
})

export const unsuspendSeveral = operation(api.bulkUnsuspend, async (work, { body }) => {
  const results = await actOnEach(work, { ...body, action: 'unsuspend', reason: null, stopServer: true })
  return { answer: outcome(results) }
})

export const deleteSeveral = operation(api.bulkDelete, async (work, { body }) => ({
  answer: await deleteEach(work, body),
}))

export const removeSeveral = operation(api.bulkRemove, async (work, { body }) => ({
  answer: await deleteEach(work, body),
}))

async function deleteEach(work: WorkOver<BulkDeps>, { serverIds }: { readonly serverIds: readonly string[] }) {
  return outcome(await actOnEach(work, { serverIds, action: 'delete', reason: null, stopServer: true }))
}

type Results = Awaited<ReturnType<typeof actOnEach>>

function counts(results: Results): Partial<Record<Results[number]['status'], number>> {
  const summary: Partial<Record<Results[number]['status'], number>> = {}
  for (const { status } of results) summary[status] = (summary[status] ?? 0) + 1
  return summary
}

/** Without `skipped`: what is there already is a failure with its code. */
function outcome(results: Results) {
  const success = results.flatMap(({ status, serverId }) => (status === 'success' ? [serverId] : []))
  const failed = results.flatMap(({ status, serverId, error, code }) =>
    status === 'success' ? [] : [{ id: serverId, error: error ?? '', code: code ?? '' }],
  )
  return { success, failed, summary: { total: results.length, succeeded: success.length, failed: failed.length } }
}
