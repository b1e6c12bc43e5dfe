import ipaddr from 'ipaddr.js'

const GLOBAL_V6 = ipaddr.IPv6.parseCIDR('2000::/3')

/**
 * Whether requests to the outside may go to this address: a public one, or one in the ranges that are allowed. Private, loopback,
 * link-local, shared, multicast, documentation, translated and reserved ones are not public.
 */
export function isReachable(address: string, allowed: readonly string[]): boolean {
  if (!ipaddr.isValid(address)) return false
  const parsed = ipaddr.process(address)
  if (isPublic(parsed)) return true
  return allowed.some((range) => {
    const [base, bits] = ipaddr.parseCIDR(range)
    return base.kind() === parsed.kind() && parsed.match(base, bits)
  })
}

/** Whether a text is a range of addresses, such as `10.0.0.0/8`. */
export function isRange(text: string): boolean {
  return ipaddr.isValidCIDR(text)
}

function isPublic(address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  if (address.range() !== 'unicast') return false
  return address instanceof ipaddr.IPv4 || address.match(GLOBAL_V6)
}
