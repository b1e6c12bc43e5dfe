import { isIPv4, isIPv6 } from 'node:net'
import ipaddr from 'ipaddr.js'

/** An IP address as a number. An IPv4 address inside IPv6 is the IPv4 address that it is. */
export interface Address {
  readonly bits: 32 | 128
  readonly value: bigint
}

/** The addresses of a CIDR. */
export interface Network {
  readonly first: Address
  readonly prefix: number
  readonly count: bigint
}

/** `undefined` for what is no address; an IPv6 zone (`%eth0`) makes it none, since it means another one on every machine. */
export function parseIp(text: string): Address | undefined {
  if (isIPv4(text)) return { bits: 32, value: numberOf(ipaddr.IPv4.parse(text).toByteArray()) }
  if (!isIPv6(text) || text.includes('%')) return undefined
  const address = ipaddr.IPv6.parse(text)
  if (address.isIPv4MappedAddress()) return { bits: 32, value: numberOf(address.toIPv4Address().toByteArray()) }
  return { bits: 128, value: numberOf(address.toByteArray()) }
}

/** The one way to write an address: IPv6 in lower case and compressed (RFC 5952). */
export function formatIp({ bits, value }: Address): string {
  const bytes = Array.from({ length: bits / 8 }, (_, i) => Number((value >> BigInt(bits - 8 - 8 * i)) & 0xffn))
  return ipaddr.fromByteArray(bytes).toString()
}

/** A CIDR, or a single address as one of full length; bits behind the prefix count for nothing. */
export function parseNetwork(text: string): Network | undefined {
  const [ip = '', prefix, ...rest] = text.split('/')
  const address = parseIp(ip)
  if (address === undefined || rest.length > 0) return undefined
  const { bits, value } = address
  if (prefix === undefined) return { first: address, prefix: bits, count: 1n }
  if (!/^\d{1,3}$/.test(prefix) || Number(prefix) > bits) return undefined
  const host = BigInt(bits - Number(prefix))
  return { first: { bits, value: (value >> host) << host }, prefix: Number(prefix), count: 1n << host }
}

/** The number as text that sorts as the numbers do. */
export function ipKey(value: bigint): string {
  return value.toString(16).padStart(32, '0')
}

/** The number behind {@link ipKey}. */
export function fromIpKey(key: string): bigint {
  return BigInt(`0x${key}`)
}

function numberOf(bytes: readonly number[]): bigint {
  return bytes.reduce((value, byte) => value * 256n + BigInt(byte), 0n)
}
