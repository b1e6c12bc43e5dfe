import { isIPv6 } from 'node:net'
import ipaddr from 'ipaddr.js'

/**
 * The address as limits and lockouts count it: an IPv6 host owns its whole /64 and must not get a fresh count from each address in it. An
 * IPv4 address in IPv6 clothes is the IPv4 address, however it is written.
 */
export function countedAddress(ip: string): string {
  if (!isIPv6(ip)) return ip
  const address = ipaddr.IPv6.parse(ip)
  if (address.isIPv4MappedAddress()) return address.toIPv4Address().toString()
  const network = address.parts.slice(0, 4)
  if (network.every((group) => group === 0)) return address.toString() // ::1 and its like are single hosts
  return `${network.map((group) => group.toString(16)).join(':')}::/64`
}
