import { sql } from 'kysely'
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
  /** Where it is written together with others; what cannot be claimed in this way is {@link NotTogether}. */
  readonly together?: ClaimsTogether | undefined
}

/** A claim that needs a transaction of its own. */
export class NotTogether extends Error {}

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
  { nodeId, serverId, use, together }: AllocationClaim,
  allocationId: string,
): Promise<ClaimedAllocation> {
  if (together !== undefined) throw new NotTogether('an allocation is claimed by its id')
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
  { nodeId, serverId, clock, use, together }: AllocationClaim,
  { ip: text, port }: { readonly ip: string; readonly port: number },
): Promise<ClaimedAllocation> {
  const ip = canonicalIp(text)
  if (ip === undefined || isUnspecified(ip)) throw fieldError('body.primaryIp', await oneOfItsAddresses(tx.q, nodeId))
  const taking = { id: newId('alc', clock), nodeId, serverId, ip, port, ...usedFor(use) }
  if (together !== undefined) return together.add(taking)
  const [claimed] = await insertOrTake(tx.q, { rows: rowsOf([taking]), now: tx.now })
  if (claimed !== undefined) return { id: claimed.id, ip, port }
  throw new PanelError('PORT_IN_USE', `${addressText({ ip, port })} is taken already; choose another port`, {
    meta: { ip, port },
  })
}

interface Taking extends Record<keyof PortUse, string | null> {
  readonly id: string
  readonly nodeId: string
  readonly serverId: string
  readonly ip: string
  readonly port: number
}

/** Claims by address that are written in one statement, when it is known that nobody has any of them. */
export class ClaimsTogether {
  readonly #takings: Taking[] = []

  /** `id` of what it answers stands for the one that {@link write} gives. */
  add(taking: Taking): ClaimedAllocation {
    this.#takings.push(taking)
    return { id: taking.id, ip: taking.ip, port: taking.port }
  }

  /** Writes these after others. */
  addTo(claims: ClaimsTogether): void {
    for (const taking of this.#takings) claims.add(taking)
  }

  /** Writes them all; answers which allocation the id of each stands for: there may have been one at the address. */
  async write({ q, now }: Tx): Promise<(id: string) => string> {
    const written = await insertOrTake(q, { rows: rowsOf(this.#takings), now })
    const at = new Map(written.map((row) => [placeOf(row), row.id]))
    const ids = new Map(this.#takings.map((taking) => [taking.id, at.get(placeOf(taking))]))
    return (id) => {
      const known = ids.get(id)
      if (known === undefined) throw new Error(`the address of ${id} belongs to a server that nobody has seen`)
      return known
    }
  }
}

function placeOf({ nodeId, ip, port }: Pick<Taking, 'nodeId' | 'ip' | 'port'>): string {
  return `${nodeId} ${ip} ${port}`
}

function rowsOf(takings: readonly Taking[]): string {
  return JSON.stringify(
    takings.map(({ id, nodeId, serverId, ip, port, name, role, protocol }) =>
      [id, nodeId, serverId, ip, port, name, role, protocol]),
  ) // biome-ignore format: a list
}

/** Of those that others have nothing is answered. */
const insertOrTake = statement<{ rows: string; now: IsoTime }, Pick<Taking, 'id' | 'nodeId' | 'ip' | 'port'>>(
  (q, { rows, now }) => ({
    compile: () =>
      sql<Pick<Taking, 'id' | 'nodeId' | 'ip' | 'port'>>`
        insert into allocation (id, node_id, server_id, ip, port, name, role, protocol, created_at, updated_at)
        select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, ${now}, ${now}
        from json_each(${rows}) where true order by key
        on conflict (node_id, ip, port) do update
        set server_id = excluded.server_id, name = excluded.name, role = excluded.role, protocol = excluded.protocol,
          updated_at = excluded.updated_at
        where allocation.server_id is null
        returning id, node_id, ip, port`.compile(q),
  }),
)

function usedFor(use: PortUse | undefined): { [K in keyof PortUse]: PortUse[K] | null } {
  return { name: use?.name ?? null, role: use?.role ?? null, protocol: use?.protocol ?? null }
}

/** An address with its port, as people write it. */
export function addressText({ ip, port }: { readonly ip: string; readonly port: number }): string {
  return ip.includes(':') ? `[${ip}]:${port}` : `${ip}:${port}`
}
