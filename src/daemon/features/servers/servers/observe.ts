import type { DesiredState } from '../../../../shared/kernel/server-life.ts'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import type { AgentEvent } from '../../../../shared/protocol/frames.ts'
import { COMMANDS, type CommandName, type ServerReport } from '../../../../shared/protocol/server.ts'
import type { Bus, NewEvent } from '../../../core/bus.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import type { CommandRow, ReportedAt } from '../../../gateway/handlers.ts'
import { eulaAsked, eulaColumn } from './eula.ts'
import {
  type EndedRow,
  endCommands,
  type ObservedRow,
  observedRows,
  observedRowsOfNode,
  type StateRow,
  settleAtRest,
  touchObserved,
  writeObserved,
} from './observed-rows.ts'
import { findServerRow, type ServerRow } from './rows.ts'
import { statusOf } from './view.ts'

/** A server that is observed as it was says so again after this. */
const SAME_AGAIN_MS = 60_000

/** What an agent reports of a server, and when that was true. */
export interface Reported {
  readonly report: ServerReport
  readonly at: ReportedAt
}

/**
 * Writes what an agent reports of servers of its own: the only writer of observed state. They are read together, and only what
 * differs is written; a server that the node does not have here is left aside.
 */
export async function observe(
  tx: Tx,
  bus: Bus,
  { nodeId, reports }: { readonly nodeId: string; readonly reports: readonly Reported[] },
): Promise<void> {
  const ids = JSON.stringify(reports.map(({ report }) => report.serverId))
  const rows = new Map((await observedRows(tx.q, { nodeId, ids })).map((row) => [row.id, row]))
  const sameLongSince = new Set<string>()
  const longSince = isoTime(Date.parse(tx.now) - SAME_AGAIN_MS)
  for (const { report, at } of reports) {
    const row = rows.get(report.serverId)
    if (row === undefined) continue
    const seen = { desired: desiredAfter(row, report), ...observedColumns(row, report, at) }
    if (isSame(row, seen)) {
      if (row.observedAt === null || row.observedAt < longSince) sameLongSince.add(row.id)
      continue
    }
    await writeObserved(tx.q, { id: row.id, now: tx.now, ...seen })
    const after = { ...row, ...seen, observedAt: tx.now }
    await emitState(tx, bus, row, after)
    for (const event of eulaAsked(row, seen.eula)) await bus.append(tx, event)
    rows.set(row.id, after)
  }
  if (sameLongSince.size > 0) await touchObserved(tx.q, { ids: JSON.stringify([...sameLongSince]), at: tx.now })
}

/**
 * The servers of a snapshot for which no more is to be written than that they were observed ({@link touchObserved}), as that was long ago.
 * `undefined` when there is more: not every server of the node is in it, or rests, and is as it says.
 */
export async function unseenLong(
  q: Queries,
  {
    nodeId,
    reports,
    at,
  }: { readonly nodeId: string; readonly reports: readonly ServerReport[]; readonly at: ReportedAt },
): Promise<string[] | undefined> {
  const longSince = isoTime(at.receivedMs - SAME_AGAIN_MS)
  const reported = new Map(reports.map((report) => [report.serverId, report]))
  const rows = await observedRowsOfNode(q, { nodeId })
  const isAsReported = rows.every((row) => {
    const report = reported.get(row.id)
    if (report === undefined) return isAtRest(row)
    return isSame(row, { desired: desiredAfter(row, report), ...observedColumns(row, report, at) })
  })
  if (!isAsReported) return undefined
  return rows.flatMap(({ id, observedAt }) =>
    reported.has(id) && (observedAt === null || observedAt < longSince) ? [id] : [],
  )
}

function isAtRest({
  power,
  activity,
  nextRestartAt,
}: Pick<ObservedRow, 'power' | 'activity' | 'nextRestartAt'>): boolean {
  return power === 'offline' && activity === null && nextRestartAt === null
}

function isSame(row: ObservedRow, seen: Partial<ObservedRow>): boolean {
  for (const name in seen) {
    const column = name as keyof ObservedRow // `seen` has columns of the row alone
    if (row[column] !== seen[column]) return false
  }
  return true
}

/** Running servers of a node that is away: nobody knows what they do now. */
export async function markUnknown(tx: Tx, bus: Bus, nodeId: string): Promise<void> {
  const rows = await tx.q
    .selectFrom('server')
    .select('id')
    .where('nodeId', '=', nodeId)
    .where('power', 'in', ['starting', 'running', 'stopping'])
    .execute()
  for (const { id } of rows) {
    const row = await findServerRow(tx.q, id)
    if (row === undefined) continue
    const seen = { power: 'unknown', lastKnownPower: row.power } as const
    await tx.q.updateTable('server').set(seen).where('id', '=', id).execute()
    await emitState(tx, bus, row, { ...row, ...seen })
  }
}

/** What the snapshot of a node says of the servers that it does not name. */
export interface Absence {
  /** The servers that it names. */
  readonly present: ReadonlySet<string>
  /** Servers whose folders are there although the agent knows nothing else of them. */
  readonly leftOver: ReadonlySet<string>
  /** Another agent claims to be the node: the servers may be on its machine, where nobody can see them now. */
  readonly contested: boolean
}

/** Servers that the node's snapshot does not name have no process there, as far as this agent can know. */
export async function observeAbsent(tx: Tx, bus: Bus, nodeId: string, absence: Absence): Promise<void> {
  const rows = await tx.q
    .selectFrom('server')
    .select(['id', 'power', 'activity', 'nextRestartAt'])
    .where('nodeId', '=', nodeId)
    .execute()
  for (const { id, ...state } of rows) {
    if (absence.present.has(id) || isAtRest(state)) continue
    const row = await findServerRow(tx.q, id)
    if (row === undefined) continue
    const seen = absence.contested ? unseen(row) : gone(absence.leftOver.has(id))
    await tx.q
      .updateTable('server')
      .set({ ...seen, observedAt: tx.now })
      .where('id', '=', id)
      .execute()
    await emitState(tx, bus, row, { ...row, ...seen })
  }
}

function unseen(row: ServerRow) {
  const reason =
    "Two agents have connected with the key of this server's node, and the present one does not have the server: end the " +
    'other one, or give it a node of its own'
  const lastKnownPower = row.power === 'unknown' ? row.lastKnownPower : row.power
  return { power: 'unknown', lastKnownPower, reason } as const
}

function gone(hasFiles: boolean) {
  const reason = hasFiles
    ? 'The agent of the node has lost its record of this server; its files are there, and it can be started'
    : 'The node does not know this server any more; install it again'
  const nothing = { lastKnownPower: null, activity: null, pid: null, startedAt: null, nextRestartAt: null } as const
  return { power: 'offline', ...nothing, reason } as const
}

const STARTS: ReadonlySet<string> = new Set(['start', 'restart', 'install', 'rebuild'])

/** How an order has ended. `isAccepted`: its acceptance is not written yet. */
export type OrderEnd = Pick<
  Extract<AgentEvent, { type: 'command.done' }>,
  'commandId' | 'ok' | 'noop' | 'error' | 'result'
> & { readonly isAccepted?: boolean | undefined }

/** What of an order its end is about. */
export type EndedOrder = Pick<CommandRow, 'op' | 'serverId' | 'args'> & Pick<EndedRow, 'rests'>

/** Writes and reports the end of an order, once; answers the order, `undefined` when its end was reported before. */
export async function finishCommand(tx: Tx, bus: Bus, nodeId: string, done: OrderEnd): Promise<EndedOrder | undefined> {
  return (await finishCommands(tx, bus, nodeId, [done])).get(done)
}

/** The same for the orders of different servers, in their order. */
export async function finishCommands(
  tx: Tx,
  bus: Bus,
  nodeId: string,
  ends: readonly OrderEnd[],
): Promise<ReadonlyMap<OrderEnd, EndedOrder>> {
  const ended = new Map((await endCommands(tx.q, { nodeId, ends, now: tx.now })).map((row) => [row.id, row]))
  const orders = new Map<OrderEnd, EndedOrder>()
  for (const done of ends) {
    const command = ended.get(done.commandId)
    ended.delete(done.commandId)
    if (command === undefined) continue
    orders.set(done, command)
    await bus.append(tx, {
      type: 'server_command_done',
      serverId: command.serverId,
      data: {
        commandId: done.commandId,
        op: command.op,
        ok: done.ok,
        noop: done.noop,
        code: done.error?.code ?? null,
        error: done.error?.message ?? null,
        result: done.ok ? resultOf(command.op, done.result) : null,
      },
    })
  }
  const started = [...orders.values()].flatMap(({ op, serverId, rests }) =>
    STARTS.has(op) && rests === 1 ? [serverId] : [],
  )
  if (started.length > 0) await followRest(tx, bus, started)
  return orders
}

/** What a command answers, as far as it fits its definition; most answer nothing, and older agents never do. */
function resultOf(op: CommandName, result: unknown): Readonly<Record<string, unknown>> | null {
  const parsed = COMMANDS.find((command) => command.op === op)?.result.safeParse(result)
  return parsed?.success === true && parsed.data !== undefined ? { ...parsed.data } : null
}

/** What the columns of a report are made from beside it. */
type ReportedOnRow = Pick<ServerRow, 'crashCount' | 'lastCrashAt' | 'installed' | 'startedAt' | 'pid' | 'eula'>

/** The columns of a server that its agent's report says. */
export function observedColumns(row: ReportedOnRow, report: ServerReport, at: ReportedAt) {
  const instant = (msAgo: number): IsoTime => isoTime(at.receivedMs - at.ageMs - msAgo)
  const crashed = report.crash.count > row.crashCount
  const { nextRestartMs } = report.crash
  return {
    power: report.power,
    lastKnownPower: null,
    activity: report.activity,
    installed: isInstalled(row, report) ? 1 : 0,
    failed: report.installError === null ? 0 : 1,
    crashed: report.crash.crashed ? 1 : 0,
    crashCount: report.crash.count,
    reason: report.installError ?? report.reason,
    observedGeneration: report.generation,
    startedAt: sameStart(row, report, instant),
    pid: report.pid,
    lastExitCode: report.lastExit?.code ?? null,
    lastExitSignal: report.lastExit?.signal ?? null,
    lastExitCause: report.lastExit?.cause ?? null,
    lastExitReason: report.lastExit?.message ?? null,
    lastCrashAt: crashed ? instant(0) : row.lastCrashAt,
    nextRestartAt: nextRestartMs === null ? null : instant(-nextRestartMs),
    eula: eulaColumn(row, report.eula, () => instant(0)),
  } as const
}

/** A server without an install script counts as installed although its agent has never installed it. */
function isInstalled(row: ReportedOnRow, report: ServerReport): boolean {
  if (report.installed) return true
  return row.installed === 1 && report.installError === null && report.activity !== 'installing'
}

/** The same process keeps its start; else every report would move it by its travel time. */
function sameStart(
  row: ReportedOnRow,
  { pid, uptimeMs }: ServerReport,
  instant: (msAgo: number) => IsoTime,
): IsoTime | null {
  if (uptimeMs === null) return null
  return row.startedAt !== null && row.pid === pid ? row.startedAt : instant(uptimeMs)
}

/**
 * The intent follows what a person did at the game itself: a clean end by itself means stopped, a process means running.
 * Only when the agent has seen the newest intent and no order is under way.
 */
function desiredAfter(row: ObservedRow, report: ServerReport): DesiredState {
  if (report.generation < row.generation || report.activity !== null || row.hasOpenOrder === 1) return row.desired
  const isAtRest = report.power === 'offline' && report.crash.nextRestartMs === null
  if (isAtRest && report.lastExit?.expected === true) return 'stopped'
  // Its boot policy keeps it down.
  if (isAtRest && report.lastExit?.cause === 'machine-restart' && !report.crash.crashed) return 'stopped'
  return report.power === 'running' ? 'running' : row.desired
}

/**
 * A start that has failed is not tried again by itself, and a game may end cleanly before its start is reported as done:
 * the report of that came too early to count.
 */
async function followRest(tx: Tx, bus: Bus, serverIds: readonly string[]): Promise<void> {
  for (const row of await settleAtRest(tx.q, { ids: JSON.stringify(serverIds) })) {
    await emitState(tx, bus, { ...row, desired: 'running' }, row)
  }
}

/** Reports what has changed about a server's state, if anything has. */
export async function emitState(tx: Tx, bus: Bus, before: StateRow, after: StateRow): Promise<void> {
  for (const event of stateUpdate(before, after)) await bus.append(tx, event)
}

/** The event of a state that has changed; none where nothing has that anybody sees. */
export function stateUpdate(before: StateRow, after: StateRow): NewEvent[] {
  const previousState = statusOf(before)
  const state = statusOf(after)
  const same =
    state === previousState &&
    before.desired === after.desired &&
    before.reason === after.reason &&
    before.crashCount === after.crashCount &&
    // The first process of a start is no change: its state is.
    (before.pid === after.pid || before.pid === null) &&
    before.installed === after.installed
  if (same) return []
  const event: NewEvent = {
    type: 'server_state_update',
    serverId: after.id,
    data: {
      state,
      previousState,
      desired: after.desired,
      generation: after.generation,
      reason: after.reason,
      exitCode: after.lastExitCode,
      exitSignal: after.lastExitSignal,
      exitCause: after.lastExitCause,
      exitReason: after.lastExitReason,
      crashCount: after.crashCount,
      nextRestartAt: after.nextRestartAt,
    },
  }
  return [event]
}
