import { type AdminServer, listAdminServers } from '../../../shared/api/admin-servers.ts'
import * as api from '../../../shared/api/servers.ts'
import type { Data } from '../../../shared/kernel/contract.ts'
import type { ResourceStats } from '../../../shared/kernel/events.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { column, type View, view, wide } from '../../kit/output/view.ts'
import { call, viewAction } from '../../kit/resource/actions.ts'
import { listAction } from '../../kit/resource/list.ts'
import { type Named, resolveAll } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'
import { playersText, SERVER_VIEW } from './view.ts'

export const listServers: Action = (run) => (run.args.flag('admin') ? listAll : listMine)(run)

const listMine = listAction(api.listServers, SERVER_VIEW, sorting)

const listAll = listAction(
  listAdminServers,
  view<AdminServer>([...SERVER_VIEW.columns, column('OWNER', (row) => row.owner?.username)]),
  sorting,
)

async function sorting({ args }: Pick<Run, 'args'>): Promise<{ query?: Record<string, unknown> }> {
  // The columns of -o wide are settings too.
  const parts = ['settings', ...(args.text('include')?.split(',') ?? [])]
  const include = [...new Set(parts)].join()
  const sort = args.text('sort')
  if (sort === undefined) return { query: { include } }
  const [field, order = 'asc', more] = sort.split(':')
  if (more !== undefined || (order !== 'asc' && order !== 'desc'))
    throw usage(`--sort is name, name:desc and the like, not '${sort}'`)
  return { query: { include, sort: field, order } }
}

export const viewServer = viewAction(api.getServer, { ref: 'server', param: 'serverId' }, SERVER_VIEW)

type Stats = Data<typeof api.getServerStats>

const STATS: View<Stats> = {
  id: (row) => row.server.id,
  name: (row) => row.server.name,
  columns: [
    column('NAME', (row) => row.server.name),
    column('STATUS', (row) => ({ status: row.server.status })),
    column('CPU', (row) => (row.cpuPercent === null ? null : `${Math.round(row.cpuPercent)} %`)),
    column('MEMORY', (row) => ({ mib: row.memoryUsageMb })),
    column('MAX MEMORY', (row) => ({ mib: row.memoryAllocatedMb })),
    column('DISK', (row) => ({ mib: row.diskUsageMb })),
    column('PROCESSES', (row) => row.processes),
    column('PLAYERS', playersText),
    column('MEASURED', (row) => ({ time: row.timestamp })),
    wide('CORES', (row) => row.cpuCores),
    wide('RECEIVED', (row) => row.networkRxBytes),
    wide('SENT', (row) => row.networkTxBytes),
    wide('PLAYING', (row) => row.playerNames?.join(', ')),
  ],
}

/** One server is an object, several are a list. */
export const serverStats: Action = async (run) => {
  const servers = await resolveAll(run, 'server', run.args.words('server'))
  if (run.args.flag('watch')) return watchStats(run, servers)
  const rows: Stats[] = []
  for (const { id } of servers) rows.push(await call(run, api.getServerStats, { params: { serverId: id } }))
  const [only] = rows
  if (rows.length === 1 && only !== undefined) await run.out.item(only, STATS)
  else await run.out.list(rows, STATS)
}

const USAGE: View<ResourceStats> = {
  id: () => '',
  name: () => '',
  columns: [
    column('CPU', (row) => (row.cpuPercent === null ? null : `${Math.round(row.cpuPercent)} %`)),
    column('MEMORY', (row) => ({ mib: row.memoryUsageMb })),
    column('DISK', (row) => ({ mib: row.diskUsageMb })),
    column('PROCESSES', (row) => row.processes),
    column('PLAYERS', playersText),
    wide('CORES', (row) => row.cpuCores),
    wide('RECEIVED', (row) => row.networkRxBytes),
    wide('SENT', (row) => row.networkTxBytes),
    wide('PLAYING', (row) => row.playerNames?.join(', ')),
  ],
}

async function watchStats(run: Run, [server, ...others]: readonly Named[]): Promise<void> {
  if (server === undefined || others.length > 0) throw usage('--watch follows one server')
  const [{ serverUsage, watchUsage }, { ResourceStats: schema }] = await Promise.all([
    import('../events/usage.ts'),
    import('../../../shared/kernel/events.ts'),
  ])
  const view: View<ResourceStats> = { ...USAGE, id: () => server.id, name: () => server.name }
  const items = await serverUsage(run, server.id)
  await watchUsage(run, { items, event: 'resource_stats', view, schema })
}
