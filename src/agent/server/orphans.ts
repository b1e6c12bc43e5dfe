import { readdir } from 'node:fs/promises'
import type { OrphanReport, OrphanResult, OrphansResult } from '../../shared/protocol/node.ts'
import type { Runtimes } from '../runtime/runtimes.ts'
import type { Journal } from '../state/journal.ts'
import type { AgentLayout } from '../state/layout.ts'
import type { GameServer } from './server.ts'

/** In one answer. */
const MOST = 500
const SERVER_ID = /^[A-Za-z0-9_-]{1,64}$/

/** What a node's servers and their remains are found in. */
export interface NodeHoldings {
  readonly servers: ReadonlyMap<string, GameServer>
  readonly layout: Pick<AgentLayout, 'serversDir' | 'stateDir'>
  readonly journal: Journal
  readonly runtimes: Pick<Runtimes, 'remains'>
}

/** The servers of this node beside those that the daemon knows, and behind them the left-over folders and containers. */
export async function findOrphans(of: NodeHoldings, known: ReadonlySet<string>): Promise<OrphansResult> {
  const files = new Set(await names(of.layout.serversDir))
  const folders = new Set([...files, ...(await names(of.layout.stateDir)), ...(await outside(of))])
  const servers = [...of.servers.keys()].sort()
  const found = [...servers, ...[...folders].filter((id) => !of.servers.has(id)).sort()].filter((id) => !known.has(id))
  const orphans = found.slice(0, MOST).map((id) => orphanOf(of, id, files.has(id)))
  return { orphans, more: found.length > MOST }
}

/** All that is known of one server. */
export async function findOrphan(of: NodeHoldings, serverId: string): Promise<OrphanResult> {
  const { servers, layout } = of
  const hasFiles = (await names(layout.serversDir)).includes(serverId)
  const hasState = (await names(layout.stateDir)).includes(serverId)
  const isThere = servers.has(serverId) || hasFiles || hasState || (await outside(of)).includes(serverId)
  const orphan = isThere ? orphanOf(of, serverId, hasFiles) : null
  const server = servers.get(serverId)
  if (server === undefined) return { spec: null, report: null, orphan }
  // One that was adopted by its holder's record alone has no specification that anything could be made from.
  return { spec: server.spec.generation === 0 ? null : server.spec, report: server.report(), orphan }
}

function orphanOf({ servers, journal }: NodeHoldings, serverId: string, hasFiles: boolean): OrphanReport {
  const server = servers.get(serverId)
  if (server === undefined) {
    const generation = journal.goneGeneration(serverId) ?? 0
    return { serverId, name: null, power: 'offline', pid: null, generation, hasFiles }
  }
  const { power, pid, generation } = server.report()
  return { serverId, name: server.spec.name.slice(0, 200), power, pid, generation, hasFiles }
}

/** What runs have left outside the folders of their servers. */
async function outside({ runtimes }: NodeHoldings): Promise<string[]> {
  return [...(await runtimes.remains())].filter((name) => SERVER_ID.test(name))
}

/** Other names than those of servers are not the agent's to speak of. */
async function names(folder: string): Promise<string[]> {
  return (await readdir(folder)).filter((name) => SERVER_ID.test(name))
}
