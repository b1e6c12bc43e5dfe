import { type AgentError, GATEWAY_LIMITS, type ServerReport } from '../../shared/frames.ts'
import type { Clock } from '../../shared/time.ts'
import type { Bus } from '../core/bus.ts'
import type { Db, Queries, Tx } from '../core/db.ts'
import type { FrameOf, GatewayHandlers, ReportedAt } from '../core/gateway/handlers.ts'
import type { Log } from '../core/log.ts'
import { addressAmong, addressFor } from './fields.ts'

/** What the link needs of the servers slice; all of it runs in the transaction that is handed over. */
export interface LinkedServers {
  /** Writes what an agent reports of one server; one that the node does not have here is left aside. */
  observe(tx: Tx, nodeId: string, report: ServerReport, at: ReportedAt): Promise<unknown>
  /** The node's servers that its snapshot does not name. */
  observeAbsent(tx: Tx, nodeId: string, present: ReadonlySet<string>): Promise<void>
  /** The node is away: what its servers do is not known. */
  markUnknown(tx: Tx, nodeId: string): Promise<void>
  /** Ends an order, as the agent's own report of its end does. */
  finishCommand(
    tx: Tx,
    nodeId: string,
    done: {
      type: 'command.done'
      commandId: string
      serverId: string
      ok: boolean
      noop: boolean
      error: AgentError | null
    },
  ): Promise<unknown>
}

interface LinkDeps {
  readonly db: Db
  readonly bus: Bus
  readonly clock: Clock
  readonly log: Log
  readonly servers: LinkedServers
  isOnline(nodeId: string): boolean
}

/** The part of the gateway's handlers that keeps the rows of nodes in step with their agents. */
export interface NodeLink
  extends Pick<GatewayHandlers, 'onHello' | 'onSnapshot' | 'onReports' | 'onOnline' | 'onOffline'> {
  /**
   * Begins the daemon's life, which `signal` ends: every node counts as offline until it connects, but its servers keep their states for 30 s,
   * because agents that were connected are back within that time and nothing has happened to their servers.
   */
  start(signal: AbortSignal): Promise<void>
}

/** Reports that are written in one transaction. */
const REPORTS_PER_WRITE = 200
const AWAY_RETRY_MS = 2000
/** The back-off of an agent after a short absence ends before this. */
export const START_GRACE_MS = GATEWAY_LIMITS.deadMs

/** Makes the link between the nodes' rows and the gateway. */
export function createNodeLink(deps: LinkDeps): NodeLink {
  /** The journals of agents that have said hello; one that is new becomes the node's with the snapshot. */
  const journals = new Map<string, string>()
  let stopping: AbortSignal | undefined
  return {
    onHello: (nodeId, hello) => {
      journals.set(nodeId, hello.journalId)
      return deps.db.write((tx) => takeHello(tx, nodeId, hello))
    },
    onSnapshot: async (nodeId, snapshot) => {
      const journalId = journals.get(nodeId) ?? ''
      await deps.db.write((tx) => takeJournal(tx, deps, { nodeId, journalId, living: snapshot.commands }))
      return { unknown: await unknownServers(deps.db.read, nodeId, snapshot.servers) }
    },
    onReports: (nodeId, reports, at) => writeReports(deps, nodeId, reports, at),
    onOnline: (nodeId) => deps.db.write((tx) => setOnline(tx, deps, nodeId)),
    onOffline: async (nodeId) => {
      // A daemon that stops cuts the connections itself, which says nothing about the nodes.
      if (stopping === undefined || stopping.aborted) return await deps.db.write((tx) => setOffline(tx, deps, nodeId))
      const signal = stopping
      if (!(await wroteAway(deps, nodeId, signal))) void writeAwayLater(deps, nodeId, signal)
    },
    start: async (signal) => {
      stopping = signal
      const away = await deps.db.write((tx) => allOffline(tx, deps))
      void markUnknownLater(deps, away, signal)
    },
  }
}

async function takeHello(tx: Tx, nodeId: string, hello: FrameOf<'hello'>): Promise<{ eventAck: number } | undefined> {
  const row = await tx.q
    .selectFrom('node')
    .select(['journalId', 'eventAck', 'agentVersion', 'publicAddress', 'defaultIp'])
    .where('id', '=', nodeId)
    .executeTakeFirst()
  if (row === undefined) return undefined
  // Only the first time, and only what nobody has chosen.
  const undecided = row.agentVersion === null && row.defaultIp === addressFor(row.publicAddress)
  await tx.q
    .updateTable('node')
    .set({
      agentVersion: hello.agentVersion,
      os: hello.os,
      arch: hello.arch,
      runtimes: JSON.stringify(hello.runtimes),
      addresses: JSON.stringify(hello.addresses),
      ...(undecided ? { defaultIp: addressAmong(row.publicAddress, hello.addresses) } : {}),
      lastSeenAt: tx.now,
    })
    .where('id', '=', nodeId)
    .execute()
  return { eventAck: row.journalId === hello.journalId ? row.eventAck : 0 }
}

/** Makes a new journal the node's. Orders that the agent had accepted and now knows nothing of will never be reported. */
async function takeJournal(
  tx: Tx,
  deps: LinkDeps,
  agent: { readonly nodeId: string; readonly journalId: string; readonly living: readonly string[] },
): Promise<void> {
  const { nodeId, journalId } = agent
  const node = await tx.q.selectFrom('node').select('journalId').where('id', '=', nodeId).executeTakeFirst()
  if (node === undefined || node.journalId === journalId) return
  await tx.q.updateTable('node').set({ journalId, eventAck: 0 }).where('id', '=', nodeId).execute()
  const accepted = await tx.q
    .selectFrom('command')
    .select(['id', 'serverId'])
    .where('nodeId', '=', nodeId)
    .where('state', '=', 'accepted')
    .execute()
  const living = new Set(agent.living)
  const error = { code: 'INTERRUPTED' as const, message: 'The agent has lost its journal; the order was cut off' }
  for (const { id: commandId, serverId } of accepted) {
    if (living.has(commandId)) continue
    const done = { type: 'command.done' as const, commandId, serverId, ok: false, noop: false, error }
    await deps.servers.finishCommand(tx, nodeId, done)
  }
}

async function unknownServers(q: Queries, nodeId: string, reports: readonly ServerReport[]): Promise<string[]> {
  if (reports.length === 0) return []
  const rows = await q.selectFrom('server').select('id').where('nodeId', '=', nodeId).execute()
  const known = new Set(rows.map((row) => row.id))
  return reports.flatMap(({ serverId }) => (known.has(serverId) ? [] : [serverId]))
}

async function writeReports(
  deps: LinkDeps,
  nodeId: string,
  reports: readonly ServerReport[],
  at: ReportedAt,
): Promise<void> {
  for (let from = 0; from < reports.length; from += REPORTS_PER_WRITE) {
    const part = reports.slice(from, from + REPORTS_PER_WRITE)
    await deps.db.write(async (tx) => {
      for (const report of part) await deps.servers.observe(tx, nodeId, report, at)
    })
  }
  const present = new Set(reports.map(({ serverId }) => serverId))
  await deps.db.write((tx) => deps.servers.observeAbsent(tx, nodeId, present))
}

async function setOnline(tx: Tx, deps: LinkDeps, nodeId: string): Promise<void> {
  const changed = await tx.q
    .updateTable('node')
    .set({ isOnline: 1, lastSeenAt: tx.now })
    .where('id', '=', nodeId)
    .where('isOnline', '=', 0)
    .returning('id')
    .executeTakeFirst()
  if (changed === undefined) return
  await deps.bus.append(tx, { type: 'node_updated', data: { nodeId, isOnline: true, change: 'connected' } })
}

async function setOffline(tx: Tx, deps: LinkDeps, nodeId: string): Promise<void> {
  const changed = await tx.q
    .updateTable('node')
    .set({ isOnline: 0, lastSeenAt: tx.now })
    .where('id', '=', nodeId)
    .where('isOnline', '=', 1)
    .returning('id')
    .executeTakeFirst()
  if (changed === undefined) return
  await deps.bus.append(tx, { type: 'node_updated', data: { nodeId, isOnline: false, change: 'disconnected' } })
}

/** A daemon that was ended without a word has left nodes online in its rows. Their last sign of life stays as it was. */
async function allOffline(tx: Tx, deps: LinkDeps): Promise<string[]> {
  const nodes = await tx.q.selectFrom('node').select(['id', 'isOnline']).execute()
  for (const { id, isOnline } of nodes) {
    if (isOnline === 0) continue
    await tx.q.updateTable('node').set({ isOnline: 0 }).where('id', '=', id).execute()
    await deps.bus.append(tx, { type: 'node_updated', data: { nodeId: id, isOnline: false, change: 'daemon_started' } })
  }
  return nodes.map(({ id }) => id)
}

async function markUnknownLater(deps: LinkDeps, nodeIds: readonly string[], signal: AbortSignal): Promise<void> {
  await deps.clock.sleep(START_GRACE_MS, signal)
  for (const nodeId of nodeIds) {
    if (signal.aborted) return
    if (!deps.isOnline(nodeId) && !(await wroteAway(deps, nodeId, signal))) void writeAwayLater(deps, nodeId, signal)
  }
}

/** Writes that a node is away and that nobody knows what its servers do; false when the database could not be written. */
async function wroteAway(deps: LinkDeps, nodeId: string, signal: AbortSignal): Promise<boolean> {
  try {
    await deps.db.write(async (tx) => {
      if (deps.isOnline(nodeId)) return
      await setOffline(tx, deps, nodeId)
      // A daemon that began to stop meanwhile says nothing about the nodes any more.
      if (!signal.aborted) await deps.servers.markUnknown(tx, nodeId)
    })
    return true
  } catch (err) {
    deps.log.error({ err, nodeId }, 'it could not be written down that a node is offline; it is tried again')
    return false
  }
}

/** A full disk must not leave servers shown as running for ever: it is tried until it holds or the node is back. */
async function writeAwayLater(deps: LinkDeps, nodeId: string, signal: AbortSignal): Promise<void> {
  do await deps.clock.sleep(AWAY_RETRY_MS, signal)
  while (!signal.aborted && !deps.isOnline(nodeId) && !(await wroteAway(deps, nodeId, signal)))
}
