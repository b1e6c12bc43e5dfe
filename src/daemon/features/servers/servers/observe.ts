import type { DesiredState } from '../../../../shared/kernel/server-life.ts'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import type { AgentEvent } from '../../../../shared/protocol/frames.ts'
import { COMMANDS, type CommandName, type ServerReport } from '../../../../shared/protocol/server.ts'
import type { Bus, NewEvent } from '../../../core/bus.ts'
import type { Tx } from '../../../db/db.ts'
import type { CommandRow, ReportedAt } from '../../../gateway/handlers.ts'
import { eulaAsked, eulaColumn } from './eula.ts'
import { findServerRow, type ServerRow } from './rows.ts'
import { statusOf } from './view.ts'

/**
 * Writes what an agent reports of a server of its own: the only writer of observed state. Returns false
 * when the node has no such server.
 */
export async function observe(
  tx: Tx,
  bus: Bus,
  nodeId: string,
  report: ServerReport,
  at: ReportedAt,
): Promise<boolean> {
  const row = await findServerRow(tx.q, report.serverId)
  if (row === undefined || row.nodeId !== nodeId) return false
  const seen = observedColumns(row, report, at)
  const desired = await desiredAfter(tx, row, report)
  await tx.q
    .updateTable('server')
    .set({ ...seen, desired, observedAt: tx.now })
    .where('id', '=', row.id)
    .execute()
  await emitState(tx, bus, row, { ...row, ...seen, desired })
  for (const event of eulaAsked(row, seen.eula)) await bus.append(tx, event)
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
  for (const { id, power, activity, nextRestartAt } of rows) {
    const isAtRest = power === 'offline' && activity === null && nextRestartAt === null
    if (absence.present.has(id) || isAtRest) continue
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

/** Writes and reports the end of an order, once; answers the order, `undefined` when its end was reported before. */
export async function finishCommand(
  tx: Tx,
  bus: Bus,
  nodeId: string,
  done: Pick<Extract<AgentEvent, { type: 'command.done' }>, 'commandId' | 'ok' | 'noop' | 'error' | 'result'>,
): Promise<Pick<CommandRow, 'op' | 'serverId' | 'args'> | undefined> {
  const command = await tx.q
    .updateTable('command')
    .set({
      state: done.ok ? 'done' : 'failed',
      error: done.error === null ? null : JSON.stringify(done.error),
      noop: done.noop ? 1 : 0,
      endedAt: tx.now,
    })
    .where('id', '=', done.commandId)
    .where('nodeId', '=', nodeId)
    .where('endedAt', 'is', null)
    .returning(['op', 'serverId', 'args'])
    .executeTakeFirst()
  if (command === undefined) return undefined
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
  if (STARTS.has(command.op)) await followRest(tx, bus, command.serverId)
  return command
}

/** What a command answers, as far as it fits its definition; most answer nothing, and older agents never do. */
function resultOf(op: CommandName, result: unknown): Readonly<Record<string, unknown>> | null {
  const parsed = COMMANDS.find((command) => command.op === op)?.result.safeParse(result)
  return parsed?.success === true && parsed.data !== undefined ? { ...parsed.data } : null
}

/** The columns of a server that its agent's report says. */
export function observedColumns(row: ServerRow, report: ServerReport, at: ReportedAt) {
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
    startedAt: report.uptimeMs === null ? null : sameStart(row, report, instant(report.uptimeMs)),
    pid: report.pid,
    lastExitCode: report.lastExit?.code ?? null,
    lastExitSignal: report.lastExit?.signal ?? null,
    lastExitCause: report.lastExit?.cause ?? null,
    lastExitReason: report.lastExit?.message ?? null,
    lastCrashAt: crashed ? instant(0) : row.lastCrashAt,
    nextRestartAt: nextRestartMs === null ? null : instant(-nextRestartMs),
    eula: eulaColumn(row, report.eula, instant(0)),
  } as const
}

/** A server without an install script counts as installed although its agent has never installed it. */
function isInstalled(row: ServerRow, report: ServerReport): boolean {
  if (report.installed) return true
  return row.installed === 1 && report.installError === null && report.activity !== 'installing'
}

/** The same process keeps its start; else every report would move it by its travel time. */
function sameStart(row: ServerRow, report: ServerReport, computed: IsoTime): IsoTime {
  return row.startedAt !== null && row.pid === report.pid ? row.startedAt : computed
}

/**
 * The intent follows what a person did at the game itself: a clean end by itself means stopped, a process means running.
 * Only when the agent has seen the newest intent and no order is under way.
 */
async function desiredAfter(tx: Tx, row: ServerRow, report: ServerReport): Promise<DesiredState> {
  if (report.generation < row.generation || report.activity !== null) return row.desired
  if (await isOrderOpen(tx, row)) return row.desired
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
async function followRest(tx: Tx, bus: Bus, serverId: string): Promise<void> {
  const row = await findServerRow(tx.q, serverId)
  if (row === undefined || row.desired === 'stopped' || row.observedGeneration < row.generation) return
  const atRest = row.power === 'offline' && row.activity === null && row.crashed === 0 && row.nextRestartAt === null
  if (!atRest || (await isOrderOpen(tx, row))) return
  await tx.q.updateTable('server').set({ desired: 'stopped' }).where('id', '=', serverId).execute()
  await emitState(tx, bus, row, { ...row, desired: 'stopped' })
}

/** Whether an order is under way that says what is wanted; an edit does not. */
async function isOrderOpen(tx: Tx, row: Pick<ServerRow, 'id' | 'nodeId'>): Promise<boolean> {
  const open = await tx.q
    .selectFrom('command')
    .select('id')
    .where('nodeId', '=', row.nodeId)
    .where('serverId', '=', row.id)
    .where('op', '!=', 'apply')
    .where('state', 'in', ['queued', 'accepted'])
    .limit(1)
    .executeTakeFirst()
  return open !== undefined
}

/** Reports what has changed about a server's state, if anything has. */
export async function emitState(tx: Tx, bus: Bus, before: ServerRow, after: ServerRow): Promise<void> {
  for (const event of stateUpdate(before, after)) await bus.append(tx, event)
}

/** The event of a state that has changed; none where nothing has that anybody sees. */
export function stateUpdate(before: ServerRow, after: ServerRow): NewEvent[] {
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
