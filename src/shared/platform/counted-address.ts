import { isIP, isIPv6 } from 'node:net'
import ipaddr from 'ipaddr.js'

/**
 * The address as limits and lockouts count it: an IPv6 host owns its whole /64 and must not get a fresh count from each address in it. An
 * IPv4 address in IPv6 clothes is the IPv4 address, however it is written.
 */
export function countedAddress(text: string | undefined): string {
  const ip = withoutPort(text)
  // Node's pattern for IPv6 takes 5 ms when it is used first: most addresses do without.
  if (!ip.includes(':') || !isIPv6(ip)) return ip
  const address = ipaddr.IPv6.parse(ip)
  if (address.isIPv4MappedAddress()) return address.toIPv4Address().toString()
  const network = address.parts.slice(0, 4)
  if (network.every((group) => group === 0)) return address.toString() // ::1 and its like are single hosts
  return `${network.map((group) => group.toString(16)).join(':')}::/64`
}

/**
 * The address of what a proxy says of a client: some write the port of its connection too (`203.0.113.9:40100`, `[2001:db8::1]:443`).
 * Empty for a connection that is gone already.
 */
export function withoutPort(text: string | undefined): string {
  if (text === undefined || isIP(text) !== 0) return text ?? ''
  const host = text.startsWith('[') ? text.slice(1, text.indexOf(']')) : text.slice(0, text.lastIndexOf(':'))
  return isIP(host) === 0 ? text : host
}
