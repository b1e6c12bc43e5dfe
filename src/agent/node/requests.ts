import { checkPorts, describeOrphan, listOrphans } from '../../shared/protocol/node.ts'
import { watchStats } from '../../shared/protocol/server.ts'
import { onRequest, type RequestHandler } from '../link/request-handler.ts'
import { findOrphan, findOrphans, type NodeHoldings } from '../server/orphans.ts'
import { takenPorts } from '../server/ports.ts'
import type { Stats } from './stats.ts'

/** What the answers to requests of the node are made from. */
export interface NodeRequestDeps {
  readonly stats: Stats
  readonly holdings: NodeHoldings
}

/** The requests of the node as a whole. */
export function nodeRequests({ stats, holdings }: NodeRequestDeps): readonly RequestHandler[] {
  return [
    onRequest(checkPorts, async ({ ports }) => ({
      taken: (await takenPorts(ports, { namesHolders: false })).filter(({ passing }) => !passing),
    })),
    onRequest(listOrphans, ({ known }) => findOrphans(holdings, new Set(known))),
    onRequest(describeOrphan, ({ serverId }) => findOrphan(holdings, serverId)),
    onRequest(watchStats, ({ serverIds }) => stats.watch(serverIds)),
  ]
}
