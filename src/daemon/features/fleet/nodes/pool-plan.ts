import { type FieldProblem, PanelError } from '../../../../shared/kernel/errors.ts'
import { type Address, formatIp, ipKey, type Network, parseIp, parseNetwork } from './ip-numbers.ts'

/** What an operator says of a pool, in any spelling of the addresses. */
export interface PoolFields {
  readonly cidr: string
  readonly gateway: string | null
  readonly startIp: string | null
  readonly endIp: string | null
  readonly reserved: readonly string[]
}

/** The same in canonical spelling, with the bounds as the database compares them. */
export interface PoolPlan extends PoolFields {
  readonly family: 4 | 6
  readonly networkFirst: string
  readonly networkLast: string
  readonly rangeFirst: string
  readonly rangeLast: string
}

/**
 * Checks the fields of a pool against each other: everything lies inside the network, and an address that is given out is
 * one that a host may have (not the network's own, nor the broadcast of IPv4, nor the routers' of IPv6).
 */
export function planOf(fields: PoolFields): PoolPlan {
  const network = parseNetwork(fields.cidr)
  if (network === undefined) throw refused([{ field: 'body.cidr', message: 'must be a network such as 10.0.0.0/24' }])
  const problems: FieldProblem[] = []
  const last = network.first.value + network.count - 1n
  const [usableFirst, usableLast] = usable(network)
  if (usableFirst === 0n) problems.push({ field: 'body.cidr', message: 'has addresses that no host can have' })
  const inside = (field: string, text: string | null, first: bigint, end: bigint): Address | null => {
    if (text === null) return null
    const address = parseIp(text)
    if (address?.bits === network.first.bits && address.value >= first && address.value <= end) return address
    const [low, high] = [first, end].map((value) => formatIp({ ...network.first, value }))
    problems.push({ field: `body.${field}`, message: `must be an address from ${low} to ${high}` })
    return null
  }
  const gateway = inside('gateway', fields.gateway, usableFirst, usableLast)
  const start = inside('startIp', fields.startIp, usableFirst, usableLast)
  const end = inside('endIp', fields.endIp, usableFirst, usableLast)
  const reserved = fields.reserved.map((text, i) => inside(`reserved.${i}`, text, network.first.value, last))
  const rangeFirst = start?.value ?? usableFirst
  const rangeLast = end?.value ?? usableLast
  if (problems.length === 0 && rangeFirst > rangeLast) {
    problems.push({ field: 'body.endIp', message: 'must not lie before the first address that is given out' })
  }
  if (problems.length > 0) throw refused(problems)
  const text = (address: Address | null): string | null => (address === null ? null : formatIp(address))
  return {
    cidr: `${formatIp(network.first)}/${network.prefix}`,
    gateway: text(gateway),
    startIp: text(start),
    endIp: text(end),
    reserved: [...new Set(reserved.flatMap((address) => (address === null ? [] : [formatIp(address)])))],
    family: network.first.bits === 32 ? 4 : 6,
    networkFirst: ipKey(network.first.value),
    networkLast: ipKey(last),
    rangeFirst: ipKey(rangeFirst),
    rangeLast: ipKey(rangeLast),
  }
}

/** The addresses that hosts may have; in a network of one or two addresses all of them (RFC 3021, RFC 6164). */
function usable({ first, count }: Network): readonly [bigint, bigint] {
  const last = first.value + count - 1n
  if (count <= 2n) return [first.value, last]
  return [first.value + 1n, first.bits === 32 ? last - 1n : last]
}

function refused(details: readonly FieldProblem[]): PanelError {
  const said = details.map(({ field, message }) => `${field} ${message}`).join('; ')
  return new PanelError('VALIDATION_ERROR', `The request is not valid: ${said}`, { details })
}
