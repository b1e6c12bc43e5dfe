import { PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import {
  ACTION_GATES,
  type DesiredState,
  type PowerAction,
  type ServerStatus,
} from '../../../../shared/kernel/server-life.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Capability } from '../../../../shared/protocol/define.ts'
import type { CommandOrder } from '../../../../shared/protocol/server.ts'
import { specCapabilities } from '../../../../shared/protocol/spec-capabilities.ts'
import type { Done, OperationDeps, WorkOver } from '../../../access/operation.ts'
import type { Tx } from '../../../db/db.ts'
import { resultOf, type Settled } from '../../../db/gather.ts'
import { isStorageFailure } from '../../../db/sqlite/failures.ts'
import {
  findNewestOrder,
  findOrderRows,
  type Intent,
  insertCommands,
  type NewCommand,
  type OrderRow,
  writeIntents,
} from './order-rows.ts'
import type { ServerRow } from './rows.ts'
import { launchOf, readOrder, type StoredOrder } from './spec.ts'
import type { UnstoredOrders } from './unstored-orders.ts'
import { type LifeRow, statusOf } from './view.ts'

/** What orders need of the rest of the daemon. */
export interface OrderDeps extends OperationDeps {
  readonly clock: Clock
  readonly isOnline: (nodeId: string) => boolean
  /** Why the agent of a node cannot do what needs these; `undefined`: it can. */
  readonly refusalOf: (nodeId: string, capabilities: readonly Capability[]) => string | undefined
  /** Sends what is queued for the node; called after the commit. */
  readonly wake: (nodeId: string) => void
  readonly unstored: Pick<UnstoredOrders, 'mayGive' | 'give'>
}

/** What an accepted order answers. */
export interface Accepted {
  readonly action: string
  readonly status: ServerStatus
  readonly desired: DesiredState
  readonly generation: number
  readonly commandId: string
  /** `false`: the database could not be written, and the order went straight to the node. */
  readonly stored: boolean
}

/** An order as it is asked for: `timeoutMs` overrides how long a stop may take, and means nothing to a start or a kill. */
export type Order = { readonly serverId: string } & (
  | { readonly action: PowerAction; readonly args: { readonly timeoutMs?: number } }
  | { readonly action: 'install' | 'reinstall' | 'rebuild'; readonly args: { readonly thenStart: boolean } }
)

const DESIRED: Partial<Record<Order['action'], DesiredState>> = {
  start: 'running',
  restart: 'running',
  stop: 'stopped',
  kill: 'stopped',
}

/** The command that carries an order out. */
export function commandFor(order: Order): Exclude<CommandOrder, { op: 'delete' }> {
  switch (order.action) {
    case 'start':
    case 'kill':
      return { op: order.action, args: {} }
    case 'stop':
    case 'restart':
      return { op: order.action, args: order.args }
    case 'install':
    case 'reinstall':
      return { op: 'install', args: { ...order.args, wipe: order.action === 'reinstall' } }
    case 'rebuild':
      return { op: 'rebuild', args: order.args }
  }
}

/** What an accepted order answers, and what it leaves. */
export interface Acceptance {
  readonly accepted: Accepted
  readonly done: Done
}

/**
 * Accepts an order: intent, generation and command; the agent hears of it after the commit. Refuses by the server's status
 * (409), suspension (423) or an absent node (503), and then writes nothing.
 */
export async function accept(
  { tx, deps }: Pick<WorkOver<OrderDeps>, 'tx' | 'deps'>,
  order: Order,
): Promise<Acceptance> {
  const [settled] = await acceptAll({ tx, deps }, [order])
  return resultOf(settled)
}

/** The same for orders that are given together: each is accepted or refused by itself, and their rows are written together. */
export async function acceptAll(
  work: Pick<WorkOver<OrderDeps>, 'tx' | 'deps'>,
  orders: readonly Order[],
): Promise<Settled<Acceptance>[]> {
  const settled = new Map<Order, Settled<Acceptance>>()
  for (let left = orders; left.length > 0; left = left.filter((order) => !settled.has(order))) {
    // One for each server: the next must see what this one has written.
    const round = [...new Map([...left].reverse().map((order) => [order.serverId, order])).values()].reverse()
    await acceptRound(work, round, settled)
  }
  return orders.map((order) => settled.get(order) ?? { error: new Error('an order was left out') })
}

async function acceptRound(
  { tx, deps }: Pick<WorkOver<OrderDeps>, 'tx' | 'deps'>,
  orders: readonly Order[],
  settled: Map<Order, Settled<Acceptance>>,
): Promise<void> {
  const found = await findOrderRows(tx.q, orders.map(({ serverId }) => serverId)) // biome-ignore format: one line
  const rows = new Map(found.map((row) => [row.id, row]))
  const intents: Intent[] = []
  const commands: NewCommand[] = []
  for (const order of orders) {
    try {
      const row = rows.get(order.serverId)
      if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
      const running = await sameInstallation(tx, row, order)
      if (running !== undefined) {
        settled.set(order, { value: { accepted: running, done: {} } })
        continue
      }
      const { intent, command } = decide(deps, row, order)
      intents.push(intent)
      commands.push(command)
      const { desired, generation } = intent
      const { action } = order
      const accepted = { action, status: statusOf(row), desired, generation, commandId: command.id, stored: true }
      const details = { action, generation, commandId: command.id, ...order.args }
      settled.set(order, { value: { accepted, done: { audit: { resourceId: row.id, details } } } })
    } catch (error) {
      if (!(error instanceof PanelError) || isStorageFailure(error)) throw error
      settled.set(order, { error })
    }
  }
  if (commands.length === 0) return
  await writeIntents(tx.q, intents, tx.now)
  await queueCommands(tx, deps, commands)
}

/** What an order writes; throws its refusal. */
function decide(deps: OrderDeps, row: OrderRow, order: Order): { intent: Intent; command: NewCommand } {
  const online = deps.isOnline(row.nodeId)
  if (order.action === 'rebuild') refuseProcess(row)
  refuseByStatus(row, order.action, online, online ? statusAfter(row, row.newest) : statusOf(row))
  if (order.action !== 'stop' && order.action !== 'kill') refuseByAgent(deps, row)
  const desired = DESIRED[order.action] ?? ('thenStart' in order.args && order.args.thenStart ? 'running' : 'stopped')
  const generation = row.generation + 1
  return {
    intent: { id: row.id, before: row.generation, generation, desired },
    command: newCommand(deps, { row, generation, ...commandFor(order) }),
  }
}

/** Raises the generation of a server together with other columns; of two that race, one is refused by the caller's checks. */
export async function nextGeneration(
  tx: Tx,
  row: ServerRow,
  columns: Partial<
    Pick<ServerRow, 'desired' | 'deletingAt' | 'suspendedAt' | 'suspendedByUserId' | 'suspensionReason'>
  >,
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

/** An order for the node of a server. */
export interface CommandOf {
  readonly row: Pick<ServerRow, 'id' | 'nodeId'>
  readonly generation: number
}

/** Queues an order for the node of a server. */
export async function addCommand(
  tx: Tx,
  deps: Pick<OrderDeps, 'clock' | 'wake'>,
  order: CommandOf & StoredOrder,
): Promise<string> {
  const [id] = await addCommands(tx, deps, [order])
  if (id === undefined) throw new Error('an order was left out')
  return id
}

/** The same for several, in this order. */
export async function addCommands(
  tx: Tx,
  deps: Pick<OrderDeps, 'clock' | 'wake'>,
  orders: readonly (CommandOf & StoredOrder)[],
): Promise<string[]> {
  const commands = orders.map((order) => newCommand(deps, order))
  await queueCommands(tx, deps, commands)
  return commands.map(({ id }) => id)
}

function newCommand({ clock }: Pick<OrderDeps, 'clock'>, order: CommandOf & StoredOrder): NewCommand {
  const { row, generation, op } = order
  const id = newId('cmd', clock)
  return { id, nodeId: row.nodeId, serverId: row.id, generation, op, args: JSON.stringify(order.args) }
}

async function queueCommands(
  tx: Tx,
  { wake }: Pick<OrderDeps, 'wake'>,
  commands: readonly NewCommand[],
): Promise<void> {
  await insertCommands(tx.q, commands, tx.now)
  const nodes = new Set(commands.map(({ nodeId }) => nodeId))
  tx.onCommit(() => {
    for (const nodeId of nodes) wake(nodeId)
  })
}

/**
 * The status with what the newest order is about to make of it. The observed one lags an accepted order by the way to the
 * node and back: taken alone it would let two starts through, and refuse a stop right after a start as if there were
 * nothing to stop.
 */
export async function pendingStatus(tx: Tx, row: ServerRow): Promise<ServerStatus> {
  return statusAfter(row, await findNewestOrder(tx.q, row.id))
}

function statusAfter(row: LifeRow, newest: OrderRow['newest']): ServerStatus {
  const status = statusOf(row)
  const atRest = status === 'stopped' || status === 'crashed' || status === 'error'
  if (atRest && (newest === 'install' || newest === 'rebuild')) return 'installing'
  if (atRest && (newest === 'start' || newest === 'restart')) return 'starting'
  const alive = status === 'starting' || status === 'running'
  return alive && (newest === 'stop' || newest === 'kill') ? 'stopping' : status
}

/** Refuses what the status does not allow. */
export function refuseByStatus(
  row: LifeRow & Pick<ServerRow, 'suspensionReason' | 'nodeId' | 'nodeName'>,
  action: keyof typeof ACTION_GATES,
  online: boolean,
  status: ServerStatus = statusOf(row),
): void {
  refuseSuspended(row)
  if (status === 'unknown' && !online) throw offline(row)
  const allowed = ACTION_GATES[action]
  if (!isOneOf(allowed, status)) {
    throw new PanelError('SERVER_INVALID_STATE', `A server that is ${status} cannot be asked to ${action}`, {
      meta: { currentStatus: status, allowed },
    })
  }
  if (!online) throw offline(row)
}

/** Refuses what the agent would do otherwise than the server's specification says. */
function refuseByAgent(deps: OrderDeps, row: OrderRow): void {
  const refusal = deps.refusalOf(row.nodeId, specCapabilities(launchOf(row, row.launch)))
  if (refusal !== undefined) throw new PanelError('AGENT_VERSION', refusal, { meta: { nodeId: row.nodeId } })
}

/** A suspended server refuses every write and live view. */
export function refuseSuspended(row: Pick<ServerRow, 'suspendedAt' | 'suspensionReason'>): void {
  if (row.suspendedAt === null) return
  throw new PanelError('SERVER_SUSPENDED', 'This server is suspended', {
    meta: { suspendedAt: row.suspendedAt, suspensionReason: row.suspensionReason },
  })
}

/** Only a container is made of something that can be fetched anew. */
function refuseProcess({ runtime }: Pick<ServerRow, 'runtime'>): void {
  if (runtime === 'docker') return
  throw new PanelError(
    'CONFLICT',
    'This server runs as a process of its node, without a container; install or reinstall it to renew its files',
    { meta: { runtime } },
  )
}

/** The refusal of what only a connected node can do. */
export function offline(row: Pick<ServerRow, 'nodeId' | 'nodeName'>): PanelError {
  return new PanelError('NODE_OFFLINE', `The node ${row.nodeName} is not connected; nothing was changed`, {
    meta: { nodeId: row.nodeId },
  })
}

/**
 * An installation that is under way already is the answer to a second request for it, unless that one wants
 * a start behind it and the first one does not.
 */
async function sameInstallation(tx: Tx, row: OrderRow, order: Order): Promise<Accepted | undefined> {
  const status = statusOf(row)
  // A server that is up has its installation behind it, though not yet the start that was ordered with it.
  if (order.action !== 'install' || (status !== 'installing' && !isOneOf(ACTION_GATES.install, status)))
    return undefined
  const open = await tx.q
    .selectFrom('command')
    .select(['id', 'generation', 'op', 'args'])
    .where('nodeId', '=', row.nodeId)
    .where('serverId', '=', row.id)
    .where('op', '=', 'install')
    .where('endedAt', 'is', null)
    .executeTakeFirst()
  if (open === undefined) return undefined
  const known = readOrder(open)
  const starts = known?.op === 'install' && known.args.thenStart
  if (order.args.thenStart && !starts) return undefined
  return {
    action: 'install',
    status,
    desired: row.desired,
    generation: open.generation,
    commandId: open.id,
    stored: true,
  }
}

function isOneOf(statuses: readonly ServerStatus[], status: ServerStatus): boolean {
  return statuses.includes(status)
}
