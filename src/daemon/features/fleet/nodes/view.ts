import { z } from 'zod'
import type { Node, NodeStatus } from '../../../../shared/api/nodes.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import { RuntimeReport } from '../../../../shared/protocol/node.ts'
import { parseJson } from '../../../db/json.ts'
import { portRangesOf } from './port-ranges.ts'
import type { NodeRow } from './rows.ts'

/** A node as answers show it, before it is written out. */
export type NodeAnswer = z.input<typeof Node>

/** What the stored row does not hold: the time, and whether the agent is connected now. */
export interface Presence {
  readonly clock: Clock
  readonly isOnline: (nodeId: string) => boolean
}

const STALE_MS = 5 * 60_000

const Runtimes = z.array(RuntimeReport)
const Addresses = z.array(z.string())

/** The node of the API; what is not in its row is looked at through `live`, for answers that are cached. */
export function nodeView(
  row: NodeRow,
  presence: Presence,
  live: <T>(look: () => T) => T = (look) => look(),
): NodeAnswer {
  const { id, maintenance, lastSeenAt } = row
  return {
    id: row.id,
    name: row.name,
    description: row.description,
    locationId: row.locationId,
    location: { id: row.locationId, name: row.locationName },
    hostname: row.hostname,
    publicAddress: row.publicAddress,
    defaultIp: row.defaultIp,
    portRanges: portRangesOf(row),
    maxMemoryMb: row.maxMemoryMb,
    maxCpuCores: row.maxCpuCores,
    memoryOverallocatePercent: row.memoryOverallocatePercent,
    cpuOverallocatePercent: row.cpuOverallocatePercent,
    status: live(() => nodeStatus({ id, maintenance, lastSeenAt }, presence)),
    isOnline: live(() => presence.isOnline(id)),
    lastSeenAt: row.lastSeenAt,
    agentVersion: row.agentVersion,
    os: row.os,
    arch: row.arch,
    runtimes: parseJson(Runtimes, row.runtimes),
    addresses: parseJson(Addresses, row.addresses),
    serverCount: Number(row.serverCount),
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
  }
}

/** A node that was never seen is offline, not stale: nothing of it has gone out of date. */
export function nodeStatus(
  row: Pick<NodeRow, 'id' | 'maintenance' | 'lastSeenAt'>,
  { clock, isOnline }: Presence,
): NodeStatus {
  if (row.maintenance === 1) return 'maintenance'
  if (isOnline(row.id)) return 'online'
  if (row.lastSeenAt === null) return 'offline'
  return clock.nowMs() - Date.parse(row.lastSeenAt) > STALE_MS ? 'stale' : 'offline'
}
