import * as api from '../../../shared/api/overview.ts'
import { parseDuration } from '../../../shared/kernel/clock.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { type Cell, column, type View, wide } from '../../kit/output/view.ts'
import { call } from '../../kit/resource/actions.ts'
import type { Run } from '../../kit/run.ts'

/** The exit code of `--detailed-exitcode` for what is not well. */
const NOT_WELL = 10
const DAMAGED = 11
const POLL_MS = 500
const CHECK_MS = 10 * 60_000

const NOTHING = { params: {} }

/** A view of the one thing that there is of its kind. */
const only = <T>(name: string, columns: View<T>['columns']): View<T> => ({ id: () => name, name: () => name, columns })

const mib = (bytes: number | null): Cell => ({ mib: bytes === null ? null : Math.round(bytes / 104_857.6) / 10 })

const STATS = only<api.AdminStats>('stats', [
  column('USERS', (row) => row.users),
  column('SERVERS', (row) => row.servers),
  column('RUNNING', (row) => row.activeServers),
  column('STATUSES', (row) =>
    Object.entries(row.serversByStatus)
      .map(([status, count]) => `${count} ${status}`)
      .join(', '),
  ),
  column('NODES', (row) => row.nodes),
  column('ONLINE NODES', (row) => row.onlineNodes),
  column('OPEN ERRORS', (row) => row.openErrors),
  column('ALERTS', (row) => row.activeAlerts),
  column('VERSION', (row) => row.version),
  column('STARTED', (row) => ({ time: row.startedAt })),
])

export const showStats: Action = async (run) => run.out.item(await call(run, api.getAdminStats, NOTHING), STATS)

const HEALTH = only<api.AdminHealth>('health', [
  column('STATUS', (row) => ({ status: row.status })),
  column('DATABASE', (row) => ({ status: row.database })),
  column('NODES', (row) => row.nodes.total),
  column('ONLINE', (row) => row.nodes.online),
  column('OFFLINE', (row) => row.nodes.offline),
  column('STALE', (row) => row.nodes.stale),
  column('PROBLEMS', (row) => row.problems.join('; ')),
  column('VERSION', (row) => row.version),
  column('STARTED', (row) => ({ time: row.startedAt })),
])

export const showHealth: Action = async (run) => {
  const health = await call(run, api.getAdminHealth, NOTHING)
  await run.out.item(health, HEALTH)
  return run.args.flag('detailed-exitcode') && health.status !== 'healthy' ? NOT_WELL : 0
}

const DB = only<api.DbStatus>('database', [
  column('STATUS', (row) => ({ status: row.status })),
  column('INTEGRITY', (row) => ({ status: row.integrity.status })),
  column('CHECKED', (row) => ({ time: row.integrity.checkedAt })),
  column('PROBLEMS', (row) => row.integrity.problems.join('; ')),
  column('ENGINE', (row) => `${row.engine} ${row.version ?? ''}`.trim()),
  column('SIZE', (row) => mib(row.sizeBytes)),
  column('LOG SIZE', (row) => mib(row.walSizeBytes)),
  column('SCHEMA', (row) =>
    row.migrations === null
      ? null
      : `${row.migrations.applied} (${row.migrations.latest}), ${row.migrations.pending} pending`,
  ),
  column('FREE PAGES', (row) => (row.pageCount === null ? null : `${row.freelistPages} of ${row.pageCount}`)),
  column('READ', (row) => (row.latencyMs === null ? null : `${row.latencyMs} ms`)),
  column('FILE', (row) => row.path),
  wide('TABLES', (row) =>
    row.tables.map((table) => `${table.name} ${table.rows}${table.rowsIsCapped ? '+' : ''}`).join(', '),
  ),
])

export const showDbStatus: Action = async (run) => {
  const status = run.args.flag('check') ? await checked(run) : await call(run, api.getDbStatus, NOTHING)
  await run.out.item(status, DB)
  const { integrity } = status
  if (run.args.flag('check') && integrity.status !== 'ok') return DAMAGED
  const well = status.status === 'connected' && integrity.status !== 'damaged' && integrity.status !== 'failed'
  return run.args.flag('detailed-exitcode') && !well ? NOT_WELL : 0
}

/** Has the file checked, and waits for the end of the check. */
async function checked(run: Run): Promise<api.DbStatus> {
  const text = run.args.text('timeout')
  const limit = text === undefined ? CHECK_MS : parseDuration(text)
  if (limit === undefined) throw usage(`--timeout is a duration such as 30s or 10m, not '${text}'`)
  const deadline = run.clock.monotonicMs() + limit
  for (let first = true; ; first = false) {
    const status = await call(run, api.getDbStatus, { params: {}, ...(first ? { query: { check: true } } : {}) })
    if (status.integrity.status !== 'checking') return status
    if (run.clock.monotonicMs() > deadline) {
      throw new CliFailure('TIMEOUT', 'the check has not ended in time; it goes on', { hint: 'panel db status' })
    }
    await run.clock.sleep(POLL_MS, run.signal)
    run.signal.throwIfAborted()
  }
}
