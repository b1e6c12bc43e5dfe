import { BulkAction, type BulkStatus, bulkServerActions, bulkStatus } from '../../../shared/api/bulk-servers.ts'
import { ERRORS, isErrorCode } from '../../../shared/kernel/errors.ts'
import type { Action } from '../../kit/command.ts'
import { column, type View, wide } from '../../kit/output/view.ts'
import { call } from '../../kit/resource/actions.ts'
import { targetsOf } from './targets.ts'

/** What became of one server. */
interface Result {
  readonly server: string
  readonly serverId: string
  readonly status: 'success' | 'failed' | 'skipped'
  readonly commandId?: string | undefined
  readonly error?: string | undefined
  readonly code?: string | undefined
}

const RESULT: View<Result> = {
  id: (row) => row.serverId,
  name: (row) => row.server,
  columns: [
    column('SERVER', (row) => row.server),
    column('RESULT', (row) => row.status),
    column('CODE', (row) => row.code),
    column('REASON', (row) => row.error),
    wide('COMMAND', (row) => row.commandId),
    wide('ID', (row) => row.serverId),
  ],
}

/** `panel servers bulk <action> …`: one call, and a row for each server. */
export const bulkAction: Action = async (run) => {
  const action = BulkAction.parse(run.args.word('action'))
  const servers = await targetsOf(run)
  if (action === 'delete') await run.prompt.confirm(`Delete ${servers.length} servers and all their files?`)
  const reason = run.args.text('reason')
  const body = { serverIds: servers.map(({ id }) => id), action, ...(reason === undefined ? {} : { reason }) }
  const { results, summary } = await call(run, bulkServerActions, { params: {}, body })
  const names = new Map(servers.map(({ id, name }) => [id, name]))
  const rows: Result[] = results.map((row) => ({ server: names.get(row.serverId) ?? row.serverId, ...row }))
  await run.out.list(rows, RESULT)
  const { success = 0, skipped = 0, failed = 0 } = summary
  run.notice(`${success} done, ${skipped} there already, ${failed} failed`)
  if (failed === 0) return 0
  if (failed < rows.length) return 3
  const code = rows[0]?.code ?? ''
  return isErrorCode(code) ? ERRORS[code].exit : 1
}

const STATUS: View<BulkStatus> = {
  id: (row) => row.id,
  name: (row) => ('name' in row ? row.name : row.id),
  columns: [
    column('NAME', (row) => ('name' in row ? row.name : null)),
    column('STATUS', (row) => ({ status: row.status })),
    column('ADDRESS', (row) => ('name' in row ? `${row.primaryIp}:${row.primaryPort}` : null)),
    column('SUSPENDED', (row) => ({ time: 'name' in row ? row.suspendedAt : null })),
    column('REASON', (row) => ('name' in row ? row.suspensionReason : null)),
    column('ID', (row) => row.id),
  ],
}

/** `panel servers status …`: one call for all. */
export const serverStatus: Action = async (run) => {
  const serverIds = (await targetsOf(run)).map(({ id }) => id)
  await run.out.list(await call(run, bulkStatus, { params: {}, body: { serverIds } }), STATUS)
}
