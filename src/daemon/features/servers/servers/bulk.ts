import type { z } from 'zod'
import type { BulkAction, BulkResult } from '../../../../shared/api/bulk-servers.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Permission } from '../../../../shared/kernel/permissions.ts'
import { POWER_PERMISSIONS, type ServerStatus } from '../../../../shared/kernel/server-life.ts'
import type { Done, WorkOver } from '../../../access/operation.ts'
import { serverPermissions } from '../../../access/permit.ts'
import { accept } from './orders.ts'
import { type RemovalDeps, remove } from './remove.ts'
import { type SuspensionDeps, suspend, unsuspend } from './suspend.ts'

type Result = z.input<typeof BulkResult>

/** An action on several servers. */
export interface BulkOrder {
  readonly serverIds: readonly string[]
  readonly action: BulkAction
  readonly reason: string | null
  readonly stopServer: boolean
}

/** What bulk actions need. */
export type BulkDeps = RemovalDeps & SuspensionDeps

type BulkWork = WorkOver<BulkDeps>

/** What the action needs on its target; a restart needs as much as a single one does. */
const NEEDED: Readonly<Record<BulkAction, readonly Permission[]>> = {
  ...POWER_PERMISSIONS,
  suspend: ['server.suspend'],
  unsuspend: ['server.suspend'],
  delete: ['server.delete'],
}

/** Statuses in which there is nothing left to do. */
const THERE: Readonly<Partial<Record<BulkAction, readonly ServerStatus[]>>> = {
  start: ['running', 'starting'],
  stop: ['stopped', 'stopping'],
  kill: ['stopped'],
}

/**
 * Does the action to each target on which the caller may do it, in one transaction: either the whole answer holds or none
 * of it. A target that refuses has written nothing. A caller who may on none of them gets PERMISSION_DENIED; ids of no
 * server are NOT_FOUND for the whole call.
 */
export async function actOnServers(work: BulkWork, order: BulkOrder): Promise<Result[]> {
  const { tx, holder } = work
  const needed = NEEDED[order.action]
  const allowed = new Set<string>()
  for (const id of order.serverIds) {
    const held = await serverPermissions(tx, holder, id, needed)
    if (held.length === needed.length) allowed.add(id)
  }
  if (allowed.size === 0) throw denied(needed)
  const known = await tx.q.selectFrom('server').select('id').where('id', 'in', order.serverIds).execute()
  const found = new Set<string>(known.map(({ id }) => id))
  const missing = order.serverIds.filter((id) => !found.has(id))
  if (missing.length > 0) {
    throw new PanelError('NOT_FOUND', 'Some of these servers do not exist; nothing was done', { meta: { missing } })
  }
  const results: Result[] = []
  for (const serverId of order.serverIds) {
    results.push(
      await outcomeOf(order.action, serverId, () => {
        if (!allowed.has(serverId)) throw denied(needed)
        return act(work, order, serverId)
      }),
    )
  }
  return results
}

/** The same where the whole call needs the permission panel-wide: a target that is not there fails alone. */
export async function actOnEach(work: BulkWork, order: BulkOrder): Promise<Result[]> {
  const results: Result[] = []
  for (const serverId of order.serverIds) {
    results.push(await outcomeOf(order.action, serverId, () => act(work, order, serverId)))
  }
  return results
}

async function outcomeOf(
  action: BulkAction,
  serverId: string,
  work: () => Promise<string | undefined>,
): Promise<Result> {
  try {
    const commandId = await work()
    return { serverId, status: 'success', ...(commandId === undefined ? {} : { commandId }) }
  } catch (error) {
    if (!(error instanceof PanelError)) throw error
    return { serverId, status: isThere(action, error) ? 'skipped' : 'failed', error: error.message, code: error.code }
  }
}

function isThere(action: BulkAction, { code, meta }: PanelError): boolean {
  if (action === 'suspend') return code === 'SERVER_ALREADY_SUSPENDED'
  if (action === 'unsuspend') return code === 'SERVER_NOT_SUSPENDED'
  const there = THERE[action] ?? []
  return code === 'SERVER_INVALID_STATE' && there.some((status) => status === meta['currentStatus'])
}

/** One of the targets, with an audit row and events of its own. */
async function act(work: BulkWork, order: BulkOrder, serverId: string): Promise<string | undefined> {
  const { action, reason, stopServer } = order
  const record = ({ audit, ...done }: Done): Promise<void> =>
    work.record({ ...done, audit: audit && { ...audit, action: `server.bulk_${action}` } })
  switch (action) {
    case 'suspend': {
      const { commandId, done } = await suspend(work, { serverId, reason, stopServer, bulk: true })
      await record(done)
      return commandId
    }
    case 'unsuspend':
      await record(await unsuspend(work, { serverId, bulk: true }))
      return undefined
    case 'delete':
      await record(await remove(work, { serverId, force: false, keepFiles: false }))
      return undefined
    default: {
      const { accepted, done } = await accept(work, { serverId, action, args: {} })
      await record(done)
      return accepted.commandId
    }
  }
}

function denied(needed: readonly Permission[]): PanelError {
  return new PanelError('PERMISSION_DENIED', `This needs the permission ${needed.join(' and ')}`, {
    meta: { missing: [...needed] },
  })
}
