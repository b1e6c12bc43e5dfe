import { PanelError } from '../../shared/errors.ts'
import { newId } from '../../shared/ids.ts'
import { ACTION_GATES, type DesiredState, type PowerAction, type ServerStatus } from '../../shared/server-life.ts'
import type { Clock } from '../../shared/time.ts'
import type { Actor, Audit } from '../core/audit.ts'
import type { Db, Tx } from '../core/db.ts'
import { findServerRow, type ServerRow } from './repo.ts'
import { statusOf } from './view.ts'

/** What orders need of the rest of the daemon. */
export interface OrderDeps {
  readonly db: Db
  readonly audit: Audit
  readonly clock: Clock
  readonly isOnline: (nodeId: string) => boolean
  /** Sends what is queued for the node; called after the commit. */
  readonly wake: (nodeId: string) => void
}

/** What an accepted order answers. */
export interface Accepted {
  readonly action: string
  readonly status: ServerStatus
  readonly desired: DesiredState
  readonly generation: number
  readonly commandId: string
}

/** An order as it is asked for. */
interface Order {
  readonly serverId: string
  readonly action: PowerAction | 'install' | 'reinstall'
  readonly args: Readonly<Record<string, unknown>>
  readonly auditAction: string
  readonly actor: Actor
}

const DESIRED: Partial<Record<Order['action'], DesiredState>> = {
  start: 'running',
  restart: 'running',
  stop: 'stopped',
  kill: 'stopped',
}
const OP: Record<Order['action'], string> = {
  start: 'start',
  stop: 'stop',
  restart: 'restart',
  kill: 'kill',
  install: 'install',
  reinstall: 'install',
}

/**
 * Accepts an order: intent, generation, command and audit in one transaction; the agent hears of it after the commit.
 * Refuses by the server's status (409), suspension (423) or an absent node (503), and then writes nothing.
 */
export function accept(deps: OrderDeps, order: Order): Promise<Accepted> {
  return deps.db.write(async (tx) => {
    const row = await findServerRow(tx.q, order.serverId)
    if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
    const running = await sameInstallation(tx, row, order)
    if (running !== undefined) return running
    refuseByStatus(row, order.action, deps.isOnline(row.nodeId))
    const desired = DESIRED[order.action] ?? (order.args['thenStart'] === true ? 'running' : row.desired)
    const generation = await nextGeneration(tx, row, { desired })
    const commandId = await addCommand(tx, deps, { row, generation, op: OP[order.action], args: order.args })
    await deps.audit.record(tx, order.actor, {
      action: order.auditAction,
      resource: 'server',
      resourceId: row.id,
      details: { action: order.action, generation, commandId, ...order.args },
    })
    return { action: order.action, status: statusOf(row), desired, generation, commandId }
  })
}

/** Raises the generation of a server together with other columns; of two that race, one is refused by the caller's checks. */
export async function nextGeneration(
  tx: Tx,
  row: ServerRow,
  columns: { desired?: DesiredState; deletingAt?: ServerRow['deletingAt'] },
): Promise<number> {
  const generation = row.generation + 1
  await tx.q
    .updateTable('server')
    .set({ ...columns, generation, updatedAt: tx.now })
    .where('id', '=', row.id)
    .where('generation', '=', row.generation)
    .execute()
  return generation
}

/** Queues an order for the node of a server. */
export async function addCommand(
  tx: Tx,
  deps: Pick<OrderDeps, 'clock' | 'wake'>,
  order: {
    row: Pick<ServerRow, 'id' | 'nodeId'>
    generation: number
    op: string
    args: Readonly<Record<string, unknown>>
  },
): Promise<string> {
  const { row } = order
  const id = newId('cmd', deps.clock)
  await tx.q
    .insertInto('command')
    .values({
      id,
      nodeId: row.nodeId,
      serverId: row.id,
      generation: order.generation,
      op: order.op,
      args: JSON.stringify(order.args),
      state: 'queued',
      error: null,
      noop: 0,
      createdAt: tx.now,
      acceptedAt: null,
      endedAt: null,
    })
    .execute()
  tx.onCommit(() => deps.wake(row.nodeId))
  return id
}

/** Refuses what the status does not allow (api.md §5.1). */
export function refuseByStatus(row: ServerRow, action: keyof typeof ACTION_GATES, online: boolean): void {
  refuseSuspended(row)
  const status = statusOf(row)
  if (status === 'unknown' && !online) throw offline(row)
  const allowed: readonly ServerStatus[] = ACTION_GATES[action]
  if (!allowed.includes(status)) {
    throw new PanelError('SERVER_INVALID_STATE', `A server that is ${status} cannot be asked to ${action}`, {
      meta: { currentStatus: status, allowed },
    })
  }
  if (!online) throw offline(row)
}

/** A suspended server refuses every write and live view (api.md §4.6). */
export function refuseSuspended(row: Pick<ServerRow, 'suspendedAt' | 'suspensionReason'>): void {
  if (row.suspendedAt === null) return
  throw new PanelError('SERVER_SUSPENDED', 'This server is suspended', {
    meta: { suspendedAt: row.suspendedAt, suspensionReason: row.suspensionReason },
  })
}

function offline(row: ServerRow): PanelError {
  return new PanelError('NODE_OFFLINE', `The node ${row.nodeName} is not connected; nothing was changed`, {
    meta: { nodeId: row.nodeId },
  })
}

/** An installation that is under way already is the answer to a second wish for it (decisions §3.2). */
async function sameInstallation(tx: Tx, row: ServerRow, order: Order): Promise<Accepted | undefined> {
  if (order.action !== 'install' || row.suspendedAt !== null) return undefined
  const open = await tx.q
    .selectFrom('command')
    .select(['id', 'generation'])
    .where('nodeId', '=', row.nodeId)
    .where('serverId', '=', row.id)
    .where('op', '=', 'install')
    .where('state', 'in', ['queued', 'accepted'])
    .executeTakeFirst()
  if (open === undefined) return undefined
  return {
    action: 'install',
    status: statusOf(row),
    desired: row.desired,
    generation: open.generation,
    commandId: open.id,
  }
}
