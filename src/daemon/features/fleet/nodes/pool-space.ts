import { z } from 'zod'
import type { Queries } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { formatIp, fromIpKey, ipKey, parseIp } from './ip-numbers.ts'

/** What must be known of a pool to say which of its addresses are free. */
export interface PoolSpace {
  readonly id: string
  readonly family: 4 | 6
  readonly rangeFirst: string
  readonly rangeLast: string
  readonly gateway: string | null
  readonly reserved: string
}

/** How many used addresses are read at once. */
const PAGE = 500

const Reserved = z.array(z.string())

/** The reserved addresses of a pool as they are stored. */
export function reservedOf(pool: Pick<PoolSpace, 'reserved'>): string[] {
  return parseJson(Reserved, pool.reserved)
}

/** The keys of the addresses in the range that are never given out: those that are reserved, and the gateway. */
export function withheld(pool: PoolSpace): ReadonlySet<string> {
  const texts = pool.gateway === null ? reservedOf(pool) : [...reservedOf(pool), pool.gateway]
  const keys = texts.flatMap((text) => parseIp(text)?.value ?? []).map(ipKey)
  return new Set(keys.filter((key) => key >= pool.rangeFirst && key <= pool.rangeLast))
}

/** The addresses of the range in number. */
export function sizeOf(pool: PoolSpace): bigint {
  return fromIpKey(pool.rangeLast) - fromIpKey(pool.rangeFirst) + 1n
}

/** The key of the address, when it is one that the pool gives out. */
export function placeIn(pool: PoolSpace, ip: string): string | undefined {
  const address = parseIp(ip)
  if (address === undefined || address.bits !== (pool.family === 4 ? 32 : 128)) return undefined
  const key = ipKey(address.value)
  return key >= pool.rangeFirst && key <= pool.rangeLast && !withheld(pool).has(key) ? key : undefined
}

/**
 * The lowest `count` free addresses. It walks along the used ones and looks into the gaps between them, so that the size
 * of the range costs nothing.
 */
export async function freeAddresses(q: Queries, pool: PoolSpace, count: number): Promise<string[]> {
  const closed = withheld(pool)
  const last = fromIpKey(pool.rangeLast)
  const found: string[] = []
  let next = fromIpKey(pool.rangeFirst)
  const fill = (end: bigint): void => {
    for (; next < end && found.length < count; next++) {
      if (!closed.has(ipKey(next))) found.push(formatIp({ bits: pool.family === 4 ? 32 : 128, value: next }))
    }
  }
  for (let used = PAGE; used === PAGE && found.length < count; ) {
    const rows = await q
      .selectFrom('ipPoolAddress')
      .select('position')
      .where('poolId', '=', pool.id)
      .where('position', '>=', ipKey(next))
      .where('position', '<=', pool.rangeLast)
      .orderBy('position')
      .limit(PAGE)
      .execute()
    used = rows.length
    for (const { position } of rows) {
      fill(fromIpKey(position))
      if (found.length === count) return found
      next = fromIpKey(position) + 1n
    }
  }
  fill(last + 1n)
  return found
}
