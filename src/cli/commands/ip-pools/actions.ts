import * as api from '../../../shared/api/ip-pools.ts'
import type { Row } from '../../../shared/kernel/contract.ts'
import { PanelError } from '../../../shared/kernel/errors.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { column, type View, wide } from '../../kit/output/view.ts'
import { call, createAction, deleteAction, editAction, subjectOf, viewAction } from '../../kit/resource/actions.ts'
import { listAction } from '../../kit/resource/list.ts'

const POOL: View<api.IpPool> = {
  id: (row) => row.id,
  name: (row) => row.networkName,
  columns: [
    column('NETWORK', (row) => row.networkName),
    column('NODE', (row) => row.nodeName),
    column('CIDR', (row) => row.cidr),
    column('USED', (row) => row.usedCount),
    column('FREE', (row) => row.availableCount),
    column('ID', (row) => row.id),
    wide('TOTAL', (row) => row.total),
    wide('RESERVED', (row) => row.reservedCount),
    wide('GATEWAY', (row) => row.gateway),
    wide('FIRST', (row) => row.rangeStart),
    wide('LAST', (row) => row.rangeEnd),
    wide('CREATED', (row) => ({ time: row.createdAt })),
  ],
}

const ADDRESS: View<api.PoolAddress> = {
  id: (row) => row.id,
  name: (row) => row.ip,
  columns: [
    column('IP', (row) => row.ip),
    column('SERVER', (row) => row.serverName),
    column('STATUS', (row) => ({ status: row.serverStatus })),
    column('SINCE', (row) => ({ time: row.createdAt })),
    wide('SERVER ID', (row) => row.serverId),
  ],
}

const NETWORK: View<Row<typeof api.listNodePools>> = {
  id: (row) => row.id,
  name: (row) => row.networkName,
  columns: [
    column('NETWORK', (row) => row.networkName),
    column('CIDR', (row) => row.cidr),
    column('FREE', (row) => row.availableCount),
    column('ID', (row) => row.id),
  ],
}

const IP: View<string> = { id: (ip) => ip, name: (ip) => ip, columns: [column('IP', (ip) => ip)] }

const SUBJECT = { ref: 'ipPool', param: 'poolId', word: 'pool' } as const

export const listPools = listAction(api.listIpPools, POOL)
export const viewPool = viewAction(api.getIpPool, SUBJECT, POOL)
export const createPool = createAction(api.createIpPool, POOL)
export const editPool = editAction(api.updateIpPool, SUBJECT, POOL)
export const deletePool = deleteAction(api.deleteIpPool, SUBJECT, 'IP pool')

export const poolUsage = listAction(api.listPoolAddresses, ADDRESS, async (run) => ({
  params: { poolId: (await subjectOf(run, SUBJECT)).id },
}))

export const networksOfNode = listAction(api.listNodePools, NETWORK, async (run) => ({
  params: { nodeId: (await subjectOf(run, { ref: 'node', param: 'nodeId' })).id },
}))

/** The lowest free addresses; none is exit 7. */
export const nextAddresses: Action = async (run) => {
  const limit = run.args.integer('count', 1) ?? 1
  if (limit > 1000) throw usage('--count is at most 1000')
  const { id } = await subjectOf(run, SUBJECT)
  const { nodeId, networkName } = await call(run, api.getIpPool, { params: { poolId: id } })
  const free = await call(run, api.listFreeAddresses, { params: { nodeId }, query: { networkName, limit } })
  if (free.length === 0) throw new PanelError('INSUFFICIENT_RESOURCES', `${networkName} has no free address`)
  await run.out.list(free, IP)
}
