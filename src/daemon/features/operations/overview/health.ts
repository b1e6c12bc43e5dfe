import type { z } from 'zod'
import type { AdminHealth } from '../../../../shared/api/overview.ts'
import { now } from '../../../../shared/kernel/time.ts'
import { daemonFacts, type OverviewDeps } from './deps.ts'
import { type NodeCounts, nodeCounts } from './node-counts.ts'

/** Names of nodes that a sentence lists; the rest are counted. */
const NAMED = 5

/**
 * Whether all is well. Degraded: the database does not answer, cannot be written or was found damaged, or a node that was connected before is
 * away. A node in maintenance, or one that was never enrolled, is missed by nobody.
 */
export async function readHealth(deps: OverviewDeps): Promise<z.input<typeof AdminHealth>> {
  const nodes = await countedNodes(deps)
  const problems = [...databaseProblems(deps, nodes), ...missedNodes(nodes)]
  return {
    status: problems.length === 0 ? 'healthy' : 'degraded',
    database: nodes === undefined ? 'disconnected' : 'connected',
    storage: deps.db.health().status,
    nodes: {
      total: nodes?.total ?? null,
      online: nodes?.online ?? deps.connected(),
      offline: nodes?.offline ?? null,
      stale: nodes?.stale ?? null,
    },
    problems,
    ...daemonFacts(deps),
    timestamp: now(deps.clock),
  }
}

/** `undefined`: the database does not answer, which is what is to be reported. */
async function countedNodes(deps: OverviewDeps): Promise<NodeCounts | undefined> {
  try {
    return await nodeCounts(deps.db.read, deps, 'all')
  } catch {
    return undefined // the answer says that the database is away
  }
}

function databaseProblems({ db, integrity }: OverviewDeps, nodes: NodeCounts | undefined): string[] {
  const { status, problems } = integrity.report()
  const { reason } = db.health()
  return [
    ...(reason === null ? [] : [reason]),
    ...(nodes === undefined ? ['The database does not answer'] : []),
    ...(status === 'damaged'
      ? [`The database file is damaged: ${problems[0] ?? 'see the status of the database'}`]
      : []),
  ]
}

function missedNodes(nodes: NodeCounts | undefined): string[] {
  if (nodes === undefined || nodes.missed.length === 0) return []
  const more = nodes.missed.length - NAMED
  const names = nodes.missed.slice(0, NAMED).join(', ')
  return [`Nodes are not connected: ${names}${more > 0 ? ` and ${more} more` : ''}`]
}
