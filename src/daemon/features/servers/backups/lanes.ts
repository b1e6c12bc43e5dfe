import type { Tx } from '../../../db/db.ts'

/** Lanes of all nodes together that are worked on at a time. */
export const POOL = { name: 'backups', size: 64 } as const

/** Backups, restores and what else is done with them, at a time on one node. */
export const LANES_PER_NODE = 8

/**
 * The lane of a new job: work on one server is done one after the other, so it goes where work on it waits already; else where the
 * least waits of its node.
 */
export async function laneFor(tx: Tx, nodeId: string, serverId: string): Promise<string> {
  const open = await tx.q
    .selectFrom('job')
    .select(['lane', 'serverId'])
    .where('pool', '=', POOL.name)
    .where('endedAt', 'is', null)
    .where((eb) => eb.or([eb('nodeId', '=', nodeId), eb('serverId', '=', serverId)]))
    .execute()
  const own = open.find((job) => job.serverId === serverId)
  if (own !== undefined) return own.lane
  const lanes = Array.from({ length: LANES_PER_NODE }, (_, number) => `${nodeId} ${number}`)
  const load = new Map(lanes.map((lane) => [lane, 0]))
  for (const { lane } of open) if (load.has(lane)) load.set(lane, (load.get(lane) ?? 0) + 1)
  const least = Math.min(...load.values())
  return lanes.find((lane) => load.get(lane) === least) ?? `${nodeId} 0`
}
