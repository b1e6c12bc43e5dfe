import type { NodeUsage } from '../../../shared/api/metrics-streams.ts'
import * as api from '../../../shared/api/nodes.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { type Cell, column, type View, view, wide } from '../../kit/output/view.ts'
import { call, deleteAction, deleted, ignoringNotFound, subjectOf, viewAction } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { listAction } from '../../kit/resource/list.ts'
import type { Run } from '../../kit/run.ts'
import { NODE_COLUMNS, NODE_VIEW } from './view.ts'

type AdminNode = api.Node & { allocatedMemoryMb: number; allocatedCpuCores: number; runningServers: number }

const ADMIN_VIEW = view<AdminNode>([
  ...NODE_COLUMNS,
  wide('GIVEN', (row: AdminNode) => ({ mib: row.allocatedMemoryMb })),
  wide('GIVEN CPU', (row: AdminNode) => row.allocatedCpuCores),
  wide('RUNNING', (row: AdminNode) => row.runningServers),
])

const SUBJECT = { ref: 'node', param: 'nodeId' } as const

const listPlain = listAction(api.listNodes, NODE_VIEW)
const listWide = listAction(api.listAdminNodes, ADMIN_VIEW)

export const listNodes: Action = (run) => (run.out.format === 'wide' ? listWide(run) : listPlain(run))
export const viewNode = viewAction(api.getNode, SUBJECT, NODE_VIEW)
export const deleteNode = deleteAction(api.deleteNode, SUBJECT, 'node')

export const createNode: Action = async (run) => {
  const body = { ...(await fieldsOf(run)), ...rangesOf(run) }
  await run.out.item(await call(run, api.createNode, { params: {}, body }), NODE_VIEW)
}

export const editNode: Action = async (run) => {
  const { id } = await subjectOf(run, SUBJECT)
  const body = { ...(await fieldsOf(run)), ...rangesOf(run) }
  if (Object.keys(body).length === 0) throw usage('nothing to change is given', 'panel nodes edit --help')
  await run.out.item(await call(run, api.updateNode, { params: { nodeId: id }, body }), NODE_VIEW)
}

/** The ranges of `--port-range`; `none` puts the usual ones in force again. */
function rangesOf(run: Run): { readonly portRanges?: readonly { readonly from: number; readonly to: number }[] } {
  const text = run.args.text('port-range')
  if (text === undefined) return {}
  if (text === 'none') return { portRanges: [] }
  const words = text.split(/[\s,]+/).filter((word) => word !== '')
  const portRanges = words.map((word) => {
    const [from = '', to = from, ...more] = word.split('-')
    // Whether they are ports says the daemon, once, for every client.
    if (more.length > 0 || !/^\d{1,9}$/.test(from) || !/^\d{1,9}$/.test(to)) {
      throw usage(`--port-range must be ports and ranges such as 25565-25700,27015, not '${word}'`)
    }
    return { from: Number(from), to: Number(to) }
  })
  return { portRanges }
}

export const setMaintenance: Action = async (run) => {
  const { id } = await subjectOf(run, SUBJECT)
  const body = { enabled: run.args.word('switch') === 'on' }
  await run.out.item(await call(run, api.setNodeMaintenance, { params: { nodeId: id }, body }), NODE_VIEW)
}

const percent = (value: number | null): Cell => (value === null ? null : `${Math.round(value)} %`)

const STATS: View<api.NodeStats> = {
  id: (row) => row.nodeId,
  name: (row) => row.nodeId,
  columns: [
    column('ONLINE', (row) => row.isOnline),
    column('SERVERS', (row) => `${row.servers.running} of ${row.servers.total} running`),
    column('MEMORY', (row) => ({ mib: row.resources.maxMemoryMb })),
    column('MEMORY GIVEN', (row) => ({ mib: row.resources.allocatedMemoryMb })),
    column('MEMORY FREE', (row) => ({ mib: row.resources.availableMemoryMb })),
    column('MEMORY USED', (row) => ({ mib: row.resources.actualMemoryUsageMb })),
    column('CPU', (row) => row.resources.maxCpuCores),
    column('CPU GIVEN', (row) => row.resources.allocatedCpuCores),
    column('CPU FREE', (row) => row.resources.availableCpuCores),
    column('CPU USED', (row) => percent(row.resources.actualCpuPercent)),
    column('DISK USED', (row) => ({ mib: row.resources.actualDiskUsageMb })),
    column('MEASURED', (row) => ({ time: row.lastMetricsUpdate })),
  ],
}

const showStats = viewAction(api.getNodeStats, SUBJECT, STATS)

const USAGE: View<NodeUsage> = {
  id: (row) => row.nodeId,
  name: (row) => row.nodeId,
  columns: [
    column('CPU', (row) => percent(row.cpuPercent)),
    column('LOAD', (row) => row.load1),
    column('MEMORY', (row) => ({ mib: row.memoryUsageMb })),
    column('DISK', (row) => ({ mib: row.diskUsageMb })),
    column('SERVERS', (row) => `${row.runningServers} running`),
    wide('RECEIVED', (row) => row.networkRxBytes),
    wide('SENT', (row) => row.networkTxBytes),
  ],
}

export const nodeStats: Action = async (run) => {
  if (!run.args.flag('watch')) {
    await showStats(run)
    return
  }
  const [{ nodeUsage, watchUsage }, { NodeUsage: schema }] = await Promise.all([
    import('../events/usage.ts'),
    import('../../../shared/api/metrics-streams.ts'),
  ])
  const items = await nodeUsage(run, (await subjectOf(run, SUBJECT)).id)
  await watchUsage(run, { items, event: 'node_stats', view: USAGE, schema })
}

/** Prints the token alone on stdout, so that it can be piped. */
export const enrollToken: Action = async (run) => {
  const { id, name } = await subjectOf(run, SUBJECT)
  const made = await call(run, api.createDeploymentToken, { params: { nodeId: id }, body: await fieldsOf(run) })
  if (run.out.machine) return run.out.value(made)
  await run.out.text(`${made.deploymentToken}\n`)
  run.notice(`for ${name}, until ${made.expiresAt}. On the machine: ${made.command}`)
}

interface KeyState {
  readonly exists: boolean
  readonly apiKey: { id: string; preview: string; createdAt: string; lastUsedAt: string | null } | null
}

const KEY: View<KeyState> = {
  id: (row) => row.apiKey?.id ?? '',
  name: (row) => row.apiKey?.preview ?? '',
  columns: [
    column('EXISTS', (row) => row.exists),
    column('KEY', (row) => row.apiKey?.preview),
    column('CREATED', (row) => ({ time: row.apiKey?.createdAt ?? null })),
    column('USED', (row) => ({ time: row.apiKey?.lastUsedAt ?? null })),
  ],
}

export const nodeKey = viewAction(api.getNodeKey, SUBJECT, KEY)

/** Prints the new key once, alone on stdout. */
export const rotateKey: Action = async (run) => {
  const { id, name } = await subjectOf(run, SUBJECT)
  const { exists } = await call(run, api.getNodeKey, { params: { nodeId: id } })
  if (exists) await run.prompt.confirm(`Replace the key of ${name}? Its agent is cut off until it has the new one.`)
  const made = await call(run, api.createNodeKey, { params: { nodeId: id }, body: { regenerate: exists } })
  if (run.out.machine) return run.out.value(made)
  await run.out.text(`${made.apiKey}\n`)
  run.notice(`the key of ${name}; it is shown this once (node id ${id})`)
}

export const revokeKey: Action = async (run) => {
  await ignoringNotFound(run, async () => {
    const { id, name } = await subjectOf(run, SUBJECT)
    await run.prompt.confirm(`Revoke the key of ${name}? Its agent is cut off at once.`)
    await call(run, api.deleteNodeKey, { params: { nodeId: id } })
    await deleted(run, { id, name: `the key of ${name}` })
  })
}
