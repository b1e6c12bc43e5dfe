import { madeAtMs } from '../../../../shared/kernel/ids.ts'
import type { AgentError } from '../../../../shared/protocol/agent-error.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import { acceptedOrders } from './joining-rows.ts'
import type { LinkedServers } from './link.ts'

/** The orders of a node that its agent has accepted and of which it does not say any more that they are under way. */
export async function unlistedOrders(q: Queries, nodeId: string, listed: readonly string[]): Promise<OpenOrder[]> {
  const accepted = await acceptedOrders(q, { nodeId })
  const living = new Set(listed)
  return accepted.filter(({ id }) => !living.has(id))
}

/** An order whose end has not been reported. */
export interface OpenOrder {
  readonly id: string
  readonly serverId: string
}

/** Ends orders of which no end will ever be reported; one whose end came meanwhile is left alone. */
export async function endLostOrders(
  tx: Tx,
  servers: Pick<LinkedServers, 'finishCommand'>,
  lost: { readonly nodeId: string; readonly orders: readonly OpenOrder[]; readonly message: string },
): Promise<void> {
  const error: AgentError = { code: 'INTERRUPTED', message: lost.message }
  for (const { id: commandId, serverId } of lost.orders) {
    const done = { type: 'command.done' as const, commandId, serverId, ok: false, noop: false, error }
    await servers.finishCommand(tx, lost.nodeId, done)
  }
}

/** How many days the rows of ended orders are kept. */
export const ORDER_DAYS = 7

/**
 * Those of an agent's unfinished orders that are over here: an agent with an older journal would carry them out once more.
 * One without a row was ended so long ago that it is gone, unless it was given after this database was copied.
 */
export async function endedOrders(
  q: Queries,
  about: { readonly nodeId: string; readonly listed: readonly string[]; readonly nowMs: number },
): Promise<string[]> {
  const { nodeId, listed, nowMs } = about
  const known = new Map<string, string | null>()
  for (let from = 0; from < listed.length; from += 500) {
    const rows = await q
      .selectFrom('command')
      .select(['id', 'endedAt'])
      .where('nodeId', '=', nodeId)
      .where('id', 'in', listed.slice(from, from + 500))
      .execute()
    for (const { id, endedAt } of rows) known.set(id, endedAt)
  }
  const oldest = nowMs - ORDER_DAYS * 24 * 3600 * 1000
  return listed.filter((id) => {
    const endedAt = known.get(id)
    return endedAt === undefined ? (madeAtMs(id) ?? nowMs) < oldest : endedAt !== null
  })
}
