import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Done, WorkOver } from '../../../access/operation.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Tx } from '../../../db/db.ts'
import { replaceQueuedApplies } from './edit.ts'
import { stateUpdate } from './observe.ts'
import { addCommand, nextGeneration, type OrderDeps } from './orders.ts'
import { findServerRow, type ServerRow } from './rows.ts'
import { statusOf } from './view.ts'

/** What belongs to servers elsewhere; called in the transaction that suspends a server, or ends that. */
export type OnSuspension = readonly ((tx: Tx, serverId: string, isSuspended: boolean) => Promise<void>)[]

/** What suspensions need. */
export type SuspensionDeps = OrderDeps & { readonly bus: Bus; readonly onSuspension: OnSuspension }

/** How a suspension is requested. */
export interface Suspension {
  readonly serverId: string
  readonly reason: string | null
  readonly stopServer: boolean
  /** One of several: its event says so. */
  readonly bulk?: true
}

/**
 * Suspends a server: from here on it refuses orders, edits and live views. Its node learns it by a new specification, which
 * no start gets past, and stops what runs; a node that is away does so when it is back. Everything that can refuse comes
 * before the first write. `commandId` is the stop.
 */
export async function suspend(
  { tx, deps, userId: suspendedBy }: WorkOver<SuspensionDeps>,
  suspension: Suspension,
): Promise<{ commandId: string | undefined; done: Done }> {
  const row = await suspendable(tx, suspension.serverId)
  if (row.suspendedAt !== null) throw new PanelError('SERVER_ALREADY_SUSPENDED', 'This server is suspended already')
  const desired = suspension.stopServer ? 'stopped' : row.desired
  const columns = {
    suspendedAt: tx.now,
    suspendedByUserId: suspendedBy,
    suspensionReason: suspension.reason,
    desired,
  } as const
  const changed = { ...row, ...columns, generation: await specify(tx, deps, row, columns) }
  for (const follow of deps.onSuspension) await follow(tx, row.id, true)
  const commandId = suspension.stopServer ? await stop(tx, deps, changed) : undefined
  const { reason, stopServer, bulk } = suspension
  const data = { serverName: row.name, suspendedBy, reason, ...(bulk ? { bulk } : {}) }
  const done: Done = {
    audit: {
      resourceId: row.id,
      details: { name: row.name, reason, stopServer },
    },
    events: [{ type: 'server_suspended', serverId: row.id, data }, ...stateUpdate(row, changed)],
  }
  return { commandId, done }
}

/** Ends a suspension. The server stays as it is: stopped, or running where the suspension let it run on. */
export async function unsuspend(
  { tx, deps, userId: unsuspendedBy }: WorkOver<SuspensionDeps>,
  { serverId, bulk }: Pick<Suspension, 'serverId' | 'bulk'>,
): Promise<Done> {
  const row = await suspendable(tx, serverId)
  if (row.suspendedAt === null) throw new PanelError('SERVER_NOT_SUSPENDED', 'This server is not suspended')
  const columns = { suspendedAt: null, suspendedByUserId: null, suspensionReason: null }
  const generation = await specify(tx, deps, row, columns)
  for (const follow of deps.onSuspension) await follow(tx, row.id, false)
  const data = { serverName: row.name, unsuspendedBy, ...(bulk ? { bulk } : {}) }
  return {
    audit: {
      resourceId: row.id,
      details: { name: row.name, suspendedAt: row.suspendedAt, reason: row.suspensionReason },
    },
    events: [
      { type: 'server_unsuspended', serverId: row.id, data },
      ...stateUpdate(row, { ...row, ...columns, generation }),
    ],
  }
}

async function suspendable(tx: Tx, serverId: string): Promise<ServerRow> {
  const row = await findServerRow(tx.q, serverId)
  if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
  const currentStatus = statusOf(row)
  if (currentStatus === 'deleting' || currentStatus === 'archived') {
    throw new PanelError(
      'SERVER_INVALID_STATE',
      `A server that is ${currentStatus} is neither suspended nor unsuspended`,
      {
        meta: { currentStatus },
      },
    )
  }
  return row
}

/** Writes the columns and sends the specification that follows from them; answers its generation. */
async function specify(
  tx: Tx,
  deps: SuspensionDeps,
  row: ServerRow,
  columns: Parameters<typeof nextGeneration>[2],
): Promise<number> {
  const generation = await nextGeneration(tx, row, columns)
  await replaceQueuedApplies(tx, deps.bus, row)
  await addCommand(tx, deps, { row, generation, op: 'apply', args: {} })
  return generation
}

/** Stops what runs, and calls off what would start by itself after a crash. */
async function stop(tx: Tx, deps: SuspensionDeps, row: ServerRow): Promise<string> {
  const generation = await nextGeneration(tx, row, {})
  return addCommand(tx, deps, { row, generation, op: 'stop', args: {} })
}
