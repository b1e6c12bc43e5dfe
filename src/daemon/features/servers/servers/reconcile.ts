import type { Clock } from '../../../../shared/kernel/time.ts'
import type { ServerReport, SettledServer } from '../../../../shared/protocol/server.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Tx } from '../../../db/db.ts'
import { replaceQueuedApplies } from './edit.ts'
import { addCommand } from './orders.ts'
import { findServerRow } from './rows.ts'

/** Above it a generation is none that a daemon has given; it leaves room for those that follow. */
const MOST_GENERATION = 2 ** 50

/** The newest generation of a server that its agent knows of. */
export type KnownGeneration = Pick<ServerReport, 'serverId' | 'generation'>

/**
 * Brings this database up to the generations of a node's agent: it was given them by a database that is newer than this one
 * (which was restored from a copy), and refuses every order below them. Orders that have not left yet get numbers behind
 * them, in their order. Answers the servers that were raised.
 */
export async function raiseGenerations(tx: Tx, nodeId: string, known: readonly KnownGeneration[]): Promise<string[]> {
  const rows = await tx.q.selectFrom('server').select(['id', 'generation']).where('nodeId', '=', nodeId).execute()
  const generations = new Map(rows.map(({ id, generation }) => [id, generation]))
  const raised: string[] = []
  for (const { serverId, generation } of known) {
    const own = generations.get(serverId)
    if (own === undefined || generation <= own || generation > MOST_GENERATION) continue
    await raise(tx, { nodeId, serverId, generation })
    raised.push(serverId)
  }
  return raised
}

async function raise(tx: Tx, to: { nodeId: string; serverId: string; generation: number }): Promise<void> {
  const queued = await tx.q
    .selectFrom('command')
    .select(['id', 'generation'])
    .where('nodeId', '=', to.nodeId)
    .where('serverId', '=', to.serverId)
    .where('state', '=', 'queued')
    .where('endedAt', 'is', null)
    .orderBy('generation')
    .orderBy('id')
    .execute()
  let { generation } = to
  let before: number | undefined
  for (const command of queued) {
    if (command.generation !== before) generation += 1
    before = command.generation
    await tx.q.updateTable('command').set({ generation }).where('id', '=', command.id).execute()
  }
  await tx.q.updateTable('server').set({ generation }).where('id', '=', to.serverId).execute()
}

/**
 * What is wanted of those servers of a node whose agent has forgotten something: of all when it has lost (a part of) its
 * journal, else of those that it reports at an older generation than before. Each is also given its specification again.
 */
export async function settleForgotten(
  tx: Tx,
  deps: { readonly bus: Bus; readonly clock: Clock; readonly wake: (nodeId: string) => void },
  agent: { readonly nodeId: string; readonly reports: readonly ServerReport[]; readonly hasLostJournal: boolean },
): Promise<SettledServer[]> {
  const { nodeId, hasLostJournal } = agent
  const reported = new Map(agent.reports.map(({ serverId, generation }) => [serverId, generation]))
  const rows = await tx.q
    .selectFrom('server')
    .select(['id', 'nodeId', 'generation', 'observedGeneration', 'desired'])
    .where('nodeId', '=', nodeId)
    .where('deletingAt', 'is', null)
    .execute()
  const settled: SettledServer[] = []
  for (const row of rows) {
    const known = reported.get(row.id)
    if (!hasLostJournal && (known === undefined || known >= row.observedGeneration)) continue
    const queued = await queuedOf(tx, row)
    // What has not left yet comes to the agent with its own, newer numbers.
    const generation = queued[0] === undefined ? row.generation : Math.max(0, queued[0].generation - 1)
    settled.push({ serverId: row.id, generation, desired: row.desired })
    if (queued.some(({ op }) => op !== 'stop' && op !== 'kill')) continue
    const whole = await findServerRow(tx.q, row.id)
    if (whole !== undefined) await replaceQueuedApplies(tx, deps.bus, whole)
    await addCommand(tx, deps, { row, generation, op: 'apply', args: {} })
  }
  return settled
}

function queuedOf(tx: Tx, row: { readonly id: string; readonly nodeId: string }) {
  return tx.q
    .selectFrom('command')
    .select(['op', 'generation'])
    .where('nodeId', '=', row.nodeId)
    .where('serverId', '=', row.id)
    .where('state', '=', 'queued')
    .where('endedAt', 'is', null)
    .orderBy('generation')
    .execute()
}
