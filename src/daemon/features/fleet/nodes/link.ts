import type { Clock, IsoTime } from '../../../../shared/kernel/time.ts'
import type { AgentError } from '../../../../shared/protocol/agent-error.ts'
import { GATEWAY_LIMITS } from '../../../../shared/protocol/frames.ts'
import type { ServerReport, SettledServer } from '../../../../shared/protocol/server.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Log } from '../../../core/log.ts'
import type { Db, Queries, Tx } from '../../../db/db.ts'
import { gather, type Settled } from '../../../db/gather.ts'
import type { AboutReports, FrameOf, GatewayHandlers, ReportedAt, SnapshotAnswer } from '../../../gateway/handlers.ts'
import { addressAmong, addressFor, addressOnHello } from './fields.ts'
import { type KnownNode, nodeOnHello, serversOnNode, writeOnline } from './joining-rows.ts'
import { endedOrders, endLostOrders, type OpenOrder, unlistedOrders } from './lost-orders.ts'
import { claimOf, machineColumns } from './machine.ts'
import { SeenAgain } from './seen-again.ts'

/** What the link needs of the servers slice; all of it runs in the transaction that is handed over. */
export interface LinkedServers {
  /** Writes what an agent reports of servers; one that the node does not have here is left aside. */
  observe(tx: Tx, nodeId: string, reports: readonly ServerReport[], at: ReportedAt): Promise<void>
  /** The servers that {@link observe} and {@link observeAbsent} would only {@link touch} for a snapshot; `undefined` when they would write more. */
  unseenLong(
    q: Queries,
    snapshot: { readonly nodeId: string; readonly reports: readonly ServerReport[]; readonly at: ReportedAt },
  ): Promise<readonly string[] | undefined>
  /** Writes that these servers were observed as they were, where nothing newer is known. */
  touch(tx: Tx, serverIds: readonly string[], at: IsoTime): Promise<void>
  /** The node's servers that its snapshot does not name. */
  observeAbsent(tx: Tx, nodeId: string, absence: Absence): Promise<void>
  /** Raises generations to those of the agent; answers the servers that were behind it. */
  raiseGenerations(tx: Tx, nodeId: string, known: readonly KnownGeneration[]): Promise<string[]>
  /** What is wanted of the servers of an agent that has forgotten something, which also gets their specifications again. */
  settleForgotten(
    tx: Tx,
    agent: { readonly nodeId: string; readonly reports: readonly ServerReport[]; readonly hasLostJournal: boolean },
  ): Promise<SettledServer[]>
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

/** What the snapshot of a node says of the servers that it does not name. */
interface Absence {
  readonly present: ReadonlySet<string>
  readonly leftOver: ReadonlySet<string>
  readonly contested: boolean
}

type KnownGeneration = Pick<ServerReport, 'serverId' | 'generation'>

interface LinkDeps {
  readonly db: Db
  readonly bus: Bus
  readonly clock: Clock
  readonly log: Log
  readonly servers: LinkedServers
  isOnline(nodeId: string): boolean
  /** Beside the log: something that an operator should look at. */
  warn(message: string, about: Readonly<Record<string, unknown>>): void
}

/** The part of the gateway's handlers that keeps the rows of nodes in step with their agents. */
export interface NodeLink
  extends Pick<GatewayHandlers, 'onClaim' | 'onHello' | 'onSnapshot' | 'onReports' | 'onOnline' | 'onOffline'> {
  /** What a hello and a snapshot are answered while nothing can be written: as far as it can be read. */
  readonly unstored: Pick<GatewayHandlers, 'onHello' | 'onSnapshot'>
  /**
   * Begins the daemon's life, which `signal` ends, before any node can connect: every node counts as offline until it connects, but its servers keep their states for 30 s,
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
  const memories = new Map<string, AgentMemory>()
  const { touch } = deps.servers
  const seenAgain = new SeenAgain({ ...deps, touch })
  let stopping: AbortSignal | undefined
  return {
    onClaim: (nodeId, hello) => claimOf(deps.db.read, nodeId, hello.machine),
    onHello: async (nodeId, hello) => {
      const memory = await takeHello(deps.db, nodeId, hello)
      if (memory === undefined) return undefined
      memories.set(nodeId, memory)
      return { eventAck: memory.eventAck }
    },
    onSnapshot: async (nodeId, snapshot) => {
      const memory = memories.get(nodeId)
      if (memory === undefined) throw new Error(`no hello came before the snapshot of ${nodeId}`)
      return await takeSnapshot(deps, { nodeId, memory, snapshot })
    },
    unstored: {
      onHello: (nodeId, hello) => readAck(deps.db.read, nodeId, hello),
      onSnapshot: (nodeId, snapshot) => readAnswer(deps, nodeId, snapshot),
    },
    onReports: (nodeId, reports, about) => writeReports(deps, { nodeId, memory: memories.get(nodeId), reports, about }),
    onOnline: gather(deps.db, (tx, nodeIds) => {
      tx.onCommit(() => {
        for (const nodeId of nodeIds) {
          const memory = memories.get(nodeId)
          seenAgain.add(memory?.unseenLong ?? [], tx.now, stopping)
          if (memory !== undefined) memory.unseenLong = []
        }
      })
      return setOnline(tx, deps, nodeIds)
    }),
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

/** What an agent and this database know of each other, for the time of one connection. */
interface AgentMemory {
  readonly journalId: string
  /** The journal is another one than before. */
  readonly isNewJournal: boolean
  /** The agent has lost its journal or a part of it: it may not know what it was sent. */
  readonly hasLostJournal: boolean
  /** Events up to this number are stored here, or will never be. */
  readonly eventAck: number
  /** So many events were acknowledged to the agent and are not in this database, which is a copy of an earlier time. */
  readonly missingEvents: number
  /** What the agent has accepted and does not name in its snapshot: over, when no event reports its end. */
  unlisted: readonly OpenOrder[]
  /** Names of folders without a record. */
  leftOver: ReadonlySet<string>
  /** Servers that the snapshot says as they are known, of which that is written behind the node's being online. */
  unseenLong: readonly string[]
}

/** An agent that comes back as it was, as nearly all do after a start of the daemon, has nothing written. */
async function takeHello(db: Db, nodeId: string, hello: FrameOf<'hello'>): Promise<AgentMemory | undefined> {
  const known = await nodeOnHello(db.read, nodeId)
  if (known === undefined) return undefined
  if (Object.keys(changedBy(known, hello)).length === 0) return memoryOf(known, hello)
  return await db.write(async (tx) => {
    const row = await nodeOnHello(tx.q, nodeId)
    if (row === undefined) return undefined
    const changed = { ...changedBy(row, hello), lastSeenAt: tx.now }
    await tx.q.updateTable('node').set(changed).where('id', '=', nodeId).execute()
    return memoryOf(row, hello)
  })
}

/** The columns of a node that its agent says otherwise than they are. */
function changedBy(row: KnownNode, hello: FrameOf<'hello'>): Partial<KnownNode> {
  // Only the first time, and only what nobody has chosen.
  const undecided = row.agentVersion === null && row.defaultIp === addressFor(row.publicAddress)
  const defaultIp = undecided ? addressAmong(row.publicAddress, hello.addresses) : row.defaultIp
  // Also where somebody has chosen the address of the servers alone.
  const publicAddress = addressOnHello(row.publicAddress, defaultIp)
  const said: Partial<KnownNode> = {
    agentVersion: hello.agentVersion,
    os: hello.os,
    arch: hello.arch,
    runtimes: JSON.stringify(hello.runtimes),
    addresses: JSON.stringify(hello.addresses),
    sftp: hello.sftp === undefined ? null : JSON.stringify(hello.sftp),
    ...(undecided ? { defaultIp } : {}),
    ...(publicAddress === undefined ? {} : { publicAddress }),
    ...(hello.machine === undefined ? {} : machineColumns(hello.machine)),
  }
  // Of the row's own columns, see above.
  return Object.fromEntries(Object.entries(said).filter(([name, value]) => row[name as keyof KnownNode] !== value))
}

function memoryOf(row: KnownNode, hello: FrameOf<'hello'>): AgentMemory {
  const isNewJournal = row.journalId !== hello.journalId
  const stored = isNewJournal ? 0 : row.eventAck
  const acknowledged = Math.min(hello.acknowledged ?? 0, hello.lastEvent)
  return {
    journalId: hello.journalId,
    isNewJournal,
    hasLostJournal:
      (isNewJournal && row.journalId !== null) || stored > hello.lastEvent || hello.journalDamaged === true,
    eventAck: Math.max(stored, acknowledged),
    missingEvents: Math.max(0, acknowledged - stored),
    unlisted: [],
    leftOver: new Set(),
    unseenLong: [],
  }
}

/** How far a node's events are stored, without anything being written. */
async function readAck(q: Queries, nodeId: string, hello: FrameOf<'hello'>): Promise<{ eventAck: number } | undefined> {
  const row = await q.selectFrom('node').select(['journalId', 'eventAck']).where('id', '=', nodeId).executeTakeFirst()
  if (row === undefined) return undefined
  const stored = row.journalId === hello.journalId ? row.eventAck : 0
  return { eventAck: Math.max(stored, Math.min(hello.acknowledged ?? 0, hello.lastEvent)) }
}

/** What an agent needs to know before it goes on, without anything being written. */
async function readAnswer(deps: LinkDeps, nodeId: string, snapshot: FrameOf<'snapshot'>): Promise<SnapshotAnswer> {
  const { servers, commands: listed } = snapshot
  const unknown = await unknownServers(deps.db.read, nodeId, servers)
  const ended = await endedOrders(deps.db.read, { nodeId, listed, nowMs: deps.clock.nowMs() })
  return { unknown, ended, settled: [] }
}

interface Snapshot {
  readonly nodeId: string
  readonly memory: AgentMemory
  readonly snapshot: FrameOf<'snapshot'>
}

/** Brings the two memories together, and answers what the agent needs to know before it goes on with anything. */
async function takeSnapshot(deps: LinkDeps, { nodeId, memory, snapshot }: Snapshot): Promise<SnapshotAnswer> {
  const { servers: reports, commands, orphans } = snapshot
  const { hasLostJournal, missingEvents } = memory
  const known = await serversOnNode(deps.db.read, { nodeId })
  const { raised, settled } = hasForgotten(known, { memory, snapshot })
    ? await reconcile(deps, { nodeId, memory, snapshot })
    : NOTHING_FORGOTTEN
  const ids = new Set(known.map(({ id }) => id))
  const unknown = reports.flatMap(({ serverId }) => (ids.has(serverId) ? [] : [serverId]))
  const ended = await endedOrders(deps.db.read, { nodeId, listed: commands, nowMs: deps.clock.nowMs() })
  memory.leftOver = new Set(orphans)
  // An older agent does not say when it took its snapshot, so an order may have been accepted behind it.
  memory.unlisted = snapshot.asOf === undefined ? [] : await unlistedOrders(deps.db.read, nodeId, commands)
  if (missingEvents > 0 || raised.length > 0) {
    const about = { nodeId, missingEvents, raised, unknown: unknown.slice(0, 20) }
    deps.warn(OLDER_DATABASE, about)
    const event = { type: 'node_updated' as const, data: { nodeId, change: 'database_behind' } }
    await deps.db.write((tx) => deps.bus.append(tx, event))
  }
  if (hasLostJournal) deps.warn(LOST_JOURNAL, { nodeId, servers: settled.length })
  if (unknown.length > 0) deps.warn(UNKNOWN_SERVERS, { nodeId, servers: unknown.slice(0, 20), count: unknown.length })
  return { unknown, ended, settled: [...settled] }
}

const NOTHING_FORGOTTEN = { raised: [], settled: [] } as const

/** Whether agent or database may have forgotten something of the other: seldom, so that most agents have nothing written. */
function hasForgotten(
  known: Awaited<ReturnType<typeof serversOnNode>>,
  { memory, snapshot: { servers: reports, gone = [] } }: Pick<Snapshot, 'memory' | 'snapshot'>,
): boolean {
  if (memory.isNewJournal || memory.hasLostJournal || memory.missingEvents > 0) return true
  const rows = new Map(known.map((row) => [row.id, row]))
  return (
    [...reports, ...gone].some(
      ({ serverId, generation }) => generation > (rows.get(serverId)?.generation ?? generation),
    ) || reports.some(({ serverId, generation }) => generation < (rows.get(serverId)?.observedGeneration ?? generation))
  )
}

/** Brings the generations of both together, in the database and in what the agent is answered. */
async function reconcile(
  deps: LinkDeps,
  { nodeId, memory, snapshot: { servers: reports, commands, gone = [] } }: Snapshot,
): Promise<{ readonly raised: readonly string[]; readonly settled: SettledServer[] }> {
  const { hasLostJournal, eventAck } = memory
  const raised = await deps.db.write(async (tx) => {
    if (memory.isNewJournal) await takeJournal(tx, deps, { nodeId, ...memory, living: commands })
    else
      await tx.q
        .updateTable('node')
        .set({ eventAck })
        .where('id', '=', nodeId)
        .where('eventAck', '<', eventAck)
        .execute()
    return await deps.servers.raiseGenerations(tx, nodeId, [...reports, ...gone])
  })
  const settled = await deps.db.write((tx) => deps.servers.settleForgotten(tx, { nodeId, reports, hasLostJournal }))
  return { raised, settled }
}

const OLDER_DATABASE =
  'The database is older than what a node has reported, as after it was restored from a copy: orders get numbers behind ' +
  'those that the node knows. Servers that were made since are shown by "panel nodes orphans list <node>"'
const LOST_JOURNAL =
  'The agent of a node has lost its journal or a part of it: running servers are adopted, orders that were under way are ' +
  'ended as interrupted, and the agent gets the specifications again'
const UNKNOWN_SERVERS =
  'A node has servers that this panel has no record of; they go on as they are. ' +
  'See "panel nodes orphans list <node>", and adopt or purge them'

/** Makes a new journal the node's. Orders that the agent had accepted and now knows nothing of will never be reported. */
async function takeJournal(
  tx: Tx,
  deps: LinkDeps,
  agent: {
    readonly nodeId: string
    readonly journalId: string
    readonly eventAck: number
    readonly living: readonly string[]
  },
): Promise<void> {
  const { nodeId, journalId, eventAck } = agent
  await tx.q.updateTable('node').set({ journalId, eventAck }).where('id', '=', nodeId).execute()
  const orders = await unlistedOrders(tx.q, nodeId, agent.living)
  const message = 'The agent has lost its journal; the order was cut off'
  await endLostOrders(tx, deps.servers, { nodeId, orders, message })
}

async function unknownServers(q: Queries, nodeId: string, reports: readonly ServerReport[]): Promise<string[]> {
  const known = new Set((await serversOnNode(q, { nodeId })).map(({ id }) => id))
  return reports.flatMap(({ serverId }) => (known.has(serverId) ? [] : [serverId]))
}

async function writeReports(
  deps: LinkDeps,
  of: {
    readonly nodeId: string
    readonly memory: AgentMemory | undefined
    readonly reports: readonly ServerReport[]
    readonly about: AboutReports
  },
): Promise<void> {
  const { nodeId, memory, reports, about } = of
  const present = new Set(reports.map(({ serverId }) => serverId))
  const leftOver = memory?.leftOver ?? new Set<string>()
  const orders = memory?.unlisted ?? []
  const unseen =
    orders.length === 0 ? await deps.servers.unseenLong(deps.db.read, { nodeId, reports, at: about.at }) : undefined
  if (unseen?.length === 0) return
  if (unseen !== undefined && memory !== undefined && !deps.isOnline(nodeId)) {
    memory.unseenLong = unseen
    return
  }
  for (let from = 0; from < reports.length; from += REPORTS_PER_WRITE) {
    const part = reports.slice(from, from + REPORTS_PER_WRITE)
    await deps.db.write((tx) => deps.servers.observe(tx, nodeId, part, about.at))
  }
  await deps.db.write(async (tx) => {
    await deps.servers.observeAbsent(tx, nodeId, { present, leftOver, contested: about.contested })
    const message =
      'The agent of the node does not know this order any more; how it ended shows from the state of the server'
    await endLostOrders(tx, deps.servers, { nodeId, orders, message })
  })
}

/** Hundreds of nodes come back in the same moment: those that wait are written together. */
async function setOnline(tx: Tx, deps: LinkDeps, nodeIds: readonly string[]): Promise<Settled<void>[]> {
  const changed = await writeOnline(tx.q, { ids: JSON.stringify(nodeIds), now: tx.now })
  for (const { id: nodeId } of changed) {
    await deps.bus.append(tx, { type: 'node_updated', data: { nodeId, isOnline: true, change: 'connected' } })
  }
  return nodeIds.map(() => ({ value: undefined }))
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
  await tx.q.updateTable('node').set({ isOnline: 0 }).where('isOnline', '=', 1).execute()
  for (const { id, isOnline } of nodes) {
    if (isOnline === 0) continue
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
    deps.log.error({ err, nodeId }, 'cannot record node as offline, retrying')
    return false
  }
}

/** A full disk must not leave servers shown as running for ever: it is tried until it holds or the node is back. */
async function writeAwayLater(deps: LinkDeps, nodeId: string, signal: AbortSignal): Promise<void> {
  do await deps.clock.sleep(AWAY_RETRY_MS, signal)
  while (!signal.aborted && !deps.isOnline(nodeId) && !(await wroteAway(deps, nodeId, signal)))
}
