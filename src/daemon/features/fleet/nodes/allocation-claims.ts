import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import type { PortProtocol, PortRole } from '../../../../shared/kernel/ports.ts'
import type { Clock, IsoTime } from '../../../../shared/kernel/time.ts'
import type { Tx } from '../../../db/db.ts'
import { statement } from '../../../db/statement.ts'
import { canonicalIp, isUnspecified } from './addresses.ts'
import { oneOfItsAddresses } from './own-addresses.ts'

/** An allocation that now belongs to the server. */
export interface ClaimedAllocation {
  readonly id: string
  readonly ip: string
  readonly port: number
}

/** What a server has a further port for. */
export interface PortUse {
  readonly name: string
  readonly role: PortRole
  readonly protocol: PortProtocol
}

/** For whom, on which node, and what: an allocation that exists, or an address and port (made when it does not). */
export interface AllocationClaim {
  readonly nodeId: string
  readonly serverId: string
  readonly clock: Clock
  readonly wanted: { readonly allocationId: string } | { readonly ip: string; readonly port: number }
  /** Absent: it is the primary one. */
  readonly use?: PortUse
}

/**
 * Gives an allocation to a server, in one statement: of many that want it at once one wins. The others get PORT_IN_USE
 * (asked for by address and port) or ALLOCATION_IN_USE (by id); an id that is not one of the node's is
 * ALLOCATION_NOT_FOUND. The row of the server may be written later in the same transaction, but must be by its end.
 */
export async function claimAllocation(tx: Tx, claim: AllocationClaim): Promise<ClaimedAllocation> {
  return 'allocationId' in claim.wanted
    ? claimById(tx, claim, claim.wanted.allocationId)
    : claimByAddress(tx, claim, claim.wanted)
}

async function claimById(
  tx: Tx,
  { nodeId, serverId, use }: AllocationClaim,
  allocationId: string,
): Promise<ClaimedAllocation> {
  const claimed = await tx.q
    .updateTable('allocation')
    .set({ serverId, ...usedFor(use), updatedAt: tx.now })
    .where('id', '=', allocationId)
    .where('nodeId', '=', nodeId)
    .where('serverId', 'is', null)
    .returning(['id', 'ip', 'port'])
    .executeTakeFirst()
  if (claimed !== undefined) return claimed
  const taken = await tx.q
    .selectFrom('allocation')
    .select(['ip', 'port'])
    .where('id', '=', allocationId)
    .where('nodeId', '=', nodeId)
    .executeTakeFirst()
  if (taken === undefined) throw new PanelError('ALLOCATION_NOT_FOUND', 'The node has no allocation with this id')
  throw new PanelError('ALLOCATION_IN_USE', `${addressText(taken)} belongs to another server`)
}

async function claimByAddress(
  tx: Tx,
  { nodeId, serverId, clock, use }: AllocationClaim,
  { ip: text, port }: { readonly ip: string; readonly port: number },
): Promise<ClaimedAllocation> {
  const ip = canonicalIp(text)
  if (ip === undefined || isUnspecified(ip)) throw fieldError('body.primaryIp', await oneOfItsAddresses(tx.q, nodeId))
  const id = newId('alc', clock)
  const [claimed] = await insertOrTake(tx.q, { id, nodeId, serverId, ip, port, ...usedFor(use), now: tx.now })
  if (claimed !== undefined) return claimed
  throw new PanelError('PORT_IN_USE', `${addressText({ ip, port })} belongs to another server`, { meta: { ip, port } })
}

interface Taking extends Readonly<Record<keyof PortUse, string | null>> {
  readonly [name: string]: string | number | null
  readonly id: string
  readonly nodeId: string
  readonly serverId: string
  readonly ip: string
  readonly port: number
  readonly name: string | null
  readonly role: PortRole | null
  readonly protocol: PortProtocol | null
  readonly now: IsoTime
}

const insertOrTake = statement((q, { id, nodeId, serverId, ip, port, name, role, protocol, now }: Taking) =>
  q
    .insertInto('allocation')
    .values({
      ...{ id, nodeId, serverId, ip, port, name, role, protocol },
      alias: null,
      notes: null,
      createdAt: now,
      updatedAt: now,
    })
    .onConflict((conflict) =>
      conflict
        .columns(['nodeId', 'ip', 'port'])
        .doUpdateSet({ serverId, name, role, protocol, updatedAt: now })
        .where('allocation.serverId', 'is', null),
    )
    .returning(['id', 'ip', 'port']),
)

function usedFor(use: PortUse | undefined): { [K in keyof PortUse]: PortUse[K] | null } {
  return { name: use?.name ?? null, role: use?.role ?? null, protocol: use?.protocol ?? null }
}

/** An address with its port, as people write it. */
export function addressText({ ip, port }: { readonly ip: string; readonly port: number }): string {
  return ip.includes(':') ? `[${ip}]:${port}` : `${ip}:${port}`
}
