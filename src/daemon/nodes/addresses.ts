import { isIPv4, isIPv6 } from 'node:net'

/** An IP address as a number. */
interface Address {
  readonly bits: 32 | 128
  readonly value: bigint
}

const MAPPED = 0xffffn

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

/** Orders addresses: IPv4 before IPv6, each by its number; what is none comes last. */
export function compareIps(left: string, right: string): number {
  const [a, b] = [parseIp(left), parseIp(right)]
  if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined)
  if (a.bits !== b.bits) return a.bits - b.bits
  return a.value < b.value ? -1 : Number(a.value > b.value)
}

/**
 * The addresses of a list of addresses and CIDR ranges, each once, in canonical form. A range stands for every address
 * in it. A string says what is wrong; more than `max` are refused before they are made.
 */
export function expandIps(text: string, max: number): readonly string[] | string {
  const ranges: { first: Address; count: bigint }[] = []
  for (const word of words(text)) {
    const range = parseRange(word)
    if (range === undefined) return `has '${word}', which is neither an address nor a CIDR range`
    ranges.push(range)
  }
  if (ranges.length === 0) return 'must name an address'
  if (ranges.reduce((sum, { count }) => sum + count, 0n) > BigInt(max)) return `must be at most ${max} addresses`
  const found = new Set<string>()
  for (const { first, count } of ranges) {
    for (let i = 0n; i < count; i++) {
      const address = { bits: first.bits, value: first.value + i }
      if (address.value === 0n)
        return `has ${formatIp(address)}, which stands for all addresses: name the ones of the node`
      found.add(formatIp(address))
    }
  }
  return [...found]
}

/** The ports of a list such as `25565,25570-25580`, each once; a string says what is wrong. */
export function expandPorts(text: string, max: number): readonly number[] | string {
  const found = new Set<number>()
  for (const word of words(text.replace(/\s*-\s*/g, '-'))) {
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

function parseRange(word: string): { first: Address; count: bigint } | undefined {
  const [ip = '', prefix, ...rest] = word.split('/')
  const address = parseIp(ip)
  if (address === undefined || rest.length > 0) return undefined
  if (prefix === undefined) return { first: address, count: 1n }
  if (!/^\d{1,3}$/.test(prefix) || Number(prefix) > address.bits) return undefined
  const host = BigInt(address.bits - Number(prefix))
  return { first: { bits: address.bits, value: (address.value >> host) << host }, count: 1n << host }
}

function parseIp(text: string): Address | undefined {
  if (isIPv4(text)) return { bits: 32, value: parseIpv4(text) }
  if (!isIPv6(text) || text.includes('%')) return undefined
  const value = parseIpv6(text)
  return value >> 32n === MAPPED ? { bits: 32, value: value & 0xffff_ffffn } : { bits: 128, value }
}

function parseIpv4(text: string): bigint {
  return text.split('.').reduce((value, byte) => value * 256n + BigInt(byte), 0n)
}

function parseIpv6(text: string): bigint {
  const tail = /[^:]*\.[^:]*$/.exec(text)?.[0]
  const v4 = tail === undefined ? undefined : parseIpv4(tail)
  const hex =
    tail === undefined || v4 === undefined
      ? text
      : `${text.slice(0, -tail.length)}${(v4 >> 16n).toString(16)}:${(v4 & 0xffffn).toString(16)}`
  const [left = [], right] = hex.split('::').map((part) => part.split(':').filter((group) => group !== ''))
  const zeros = Array<string>(8 - left.length - (right?.length ?? 0)).fill('0')
  return [...left, ...zeros, ...(right ?? [])].reduce((value, group) => value * 65_536n + BigInt(`0x${group}`), 0n)
}

function formatIp({ bits, value }: Address): string {
  if (bits === 32) return [24n, 16n, 8n, 0n].map((shift) => String((value >> shift) & 255n)).join('.')
  const groups = Array.from({ length: 8 }, (_, i) => ((value >> BigInt(112 - 16 * i)) & 0xffffn).toString(16))
  const longest = groups
    .map((_, start) => groups.slice(start).findIndex((group) => group !== '0'))
    .map((length, start) => ({ start, length: length === -1 ? groups.length - start : length }))
    .reduce((best, run) => (run.length > best.length ? run : best))
  if (longest.length < 2) return groups.join(':')
  const after = groups.slice(longest.start + longest.length)
  return `${groups.slice(0, longest.start).join(':')}::${after.join(':')}`
}
