import { isIPv4 } from 'node:net'
import { hostname, type NetworkInterfaceInfo, networkInterfaces } from 'node:os'

type Interfaces = NodeJS.Dict<readonly NetworkInterfaceInfo[]>

/**
 * The address by which others reach a daemon that listens at `url`: the same, unless that means all addresses of the machine.
 * Then it is the first one that is not loopback, IPv4 before IPv6, or the name of the machine where it has none.
 */
export function reachableUrl(url: string, interfaces: Interfaces = networkInterfaces()): string {
  const parsed = new URL(url)
  if (!['0.0.0.0', '[::]'].includes(parsed.hostname)) return url
  const outward = Object.values(interfaces)
    .flatMap((all) => all ?? [])
    .filter(({ address, internal }) => !internal && !address.startsWith('fe80:'))
    .map(({ address }) => address)
  const found = outward.find((address) => isIPv4(address)) ?? outward[0] ?? hostname()
  parsed.hostname = found.includes(':') ? `[${found}]` : found
  return parsed.origin
}
