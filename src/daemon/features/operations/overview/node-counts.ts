import type { Visibility } from '../../../access/permit.ts'
import type { Queries } from '../../../db/db.ts'
import { nodeFacts } from '../../fleet/nodes/rows.ts'
import { nodeStatus, type Presence } from '../../fleet/nodes/view.ts'

/** Nodes by whether their agents are connected. */
export interface NodeCounts {
  readonly total: number
  readonly online: number
  /** Not connected. */
  readonly offline: number
  /** Of those: silent for more than five minutes. */
  readonly stale: number
  /** Names of nodes that were connected once, are not now, and are not in maintenance. */
  readonly missed: readonly string[]
}

/** Counts the nodes that somebody may see. A node in maintenance counts by its connection. */
export async function nodeCounts(q: Queries, presence: Presence, visibility: Visibility): Promise<NodeCounts> {
  const rows = await nodeFacts(q, visibility)
  const away = rows.filter(({ id }) => !presence.isOnline(id))
  const missed = away.filter(({ maintenance, lastSeenAt }) => maintenance === 0 && lastSeenAt !== null)
  return {
    total: rows.length,
    online: rows.length - away.length,
    offline: away.length,
    stale: away.filter((row) => nodeStatus({ ...row, maintenance: 0 }, presence) === 'stale').length,
    missed: missed.map(({ name }) => name),
  }
}

/** The nodes that somebody may see, with what their shares are weighed by. */
export async function nodesWithCores(q: Queries, visibility: Visibility): Promise<{ id: string; cores: number }[]> {
  return (await nodeFacts(q, visibility)).map(({ id, maxCpuCores }) => ({ id, cores: maxCpuCores }))
}
