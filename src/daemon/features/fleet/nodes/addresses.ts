import ipaddr from 'ipaddr.js'
import { type Address, formatIp, type Network, parseIp, parseNetwork } from './ip-numbers.ts'

/**
 * The one way to write an address: IPv6 in lower case and compressed (RFC 5952), IPv4 inside IPv6 as the IPv4 it is.
 * `undefined` when the text is no address.
 */
export function canonicalIp(text: string): string | undefined {
  const address = parseIp(text)
  return address === undefined ? undefined : formatIp(address)
}

/** Whether the address stands for "all addresses": such a one is no allocation. */
export function isUnspecified(ip: string): boolean {
  return parseIp(ip)?.value === 0n
}

/** Kinds of addresses that lead others to no machine, or to any. */
const NOWHERE: ReadonlySet<string> = new Set(['unspecified', 'broadcast', 'multicast', 'linkLocal', 'loopback'])

/** Whether other machines could reach this one at the address. */
export function isReachable(ip: string): boolean {
  const address = parseIp(ip)
  return address !== undefined && !NOWHERE.has(ipaddr.parse(formatIp(address)).range())
}

/** Orders addresses: IPv4 before IPv6, each by its number; what is none comes last. */
export function compareIps(left: string, right: string): number {
  const [a, b] = [parseIp(left), parseIp(right)]
  if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined)
  if (a.bits !== b.bits) return a.bits - b.bits
  return a.value < b.value ? -1 : Number(a.value > b.value)
}

/**
 * The addresses of a list of addresses and CIDR ranges, each once, in canonical form. A range stands for every address
 * in it. A string says what is wrong, with `instead` where all addresses of the node are meant; more than `max` are refused
 * before they are made.
 */
export function expandIps(text: string, max: number, instead: string): readonly string[] | string {
  const ranges: Network[] = []
  for (const word of words(text)) {
    const range = parseNetwork(word)
    if (range === undefined) return `has '${word}', which is neither an address nor a CIDR range`
    ranges.push(range)
  }
  if (ranges.length === 0) return 'must name an address'
  if (ranges.reduce((sum, { count }) => sum + count, 0n) > BigInt(max)) return `must be at most ${max} addresses`
  const found = new Set<string>()
  for (const { first, count } of ranges) {
    for (let i = 0n; i < count; i++) {
      const address: Address = { bits: first.bits, value: first.value + i }
      if (address.value === 0n) return `has ${formatIp(address)}, which stands for all addresses; it ${instead}`
      found.add(formatIp(address))
    }
  }
  return [...found]
}

/** The ports of a list such as `25565,25570-25580`, each once; a string says what is wrong. */
export function expandPorts(text: string, max: number): readonly number[] | string {
  const found = new Set<number>()
  for (const word of words(
    text
      .split('-')
      .map((part) => part.trim())
      .join('-'),
  )) {
    const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(word)
    if (match === null) return `has '${word}', which is neither a port nor a range of ports`
    const first = Number(match[1])
    const last = Number(match[2] ?? match[1])
    if (first < 1 || last > 65_535 || first > last) return `has '${word}'; ports go from 1 to 65535`
    for (let port = first; port <= last; port++) found.add(port)
    if (found.size > max) return `must be at most ${max} ports`
  }
  return found.size === 0 ? 'must name a port' : [...found]
}

function words(text: string): string[] {
  return text.split(/[\s,]+/).filter((word) => word !== '')
}
