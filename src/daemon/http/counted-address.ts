import { isIPv6 } from 'node:net'

/**
 * The address as it is counted by limits and lockouts: an IPv6 host owns its whole /64 and must not get a fresh count from
 * each address in it. An IPv4 address in IPv6 clothes is the IPv4 address.
 */
export function countedAddress(ip: string): string {
  if (!ip.includes(':')) return ip
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(ip)?.[1]
  if (mapped !== undefined) return mapped
  if (!isIPv6(ip)) return ip
  const [left = '', right] = ip.split('%')[0]?.split('::') ?? []
  const groups = left === '' ? [] : left.split(':')
  const tail = right === undefined || right === '' ? [] : right.split(':')
  const filled =
    right === undefined ? groups : [...groups, ...Array<string>(8 - groups.length - tail.length).fill('0'), ...tail]
  if (filled.slice(0, 4).every((group) => /^0+$/.test(group))) return ip // ::1 and its like are single hosts
  return `${filled
    .slice(0, 4)
    .map((group) => group.toLowerCase().replace(/^0+(?=.)/, ''))
    .join(':')}::/64`
}
