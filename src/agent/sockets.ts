import { readFile } from 'node:fs/promises'
import { isIPv6 } from 'node:net'
import type { Clock } from '../shared/time.ts'

export type Protocol = 'tcp' | 'udp'

/** A socket that takes what comes from outside: TCP that listens, or UDP that is bound and not connected to one peer. */
export interface OpenSocket {
  readonly protocol: Protocol
  readonly ip: string
  readonly port: number
  /** The kernel's number of it, by which its processes are found. */
  readonly inode: string
}

/** How long a reading of the kernel's tables serves: many servers are looked at in the same moment. */
const FRESH_MS = 1000
const TCP_LISTEN = '0A'
const NO_PEER = '0000'

/** The open sockets of this machine, as the kernel lists them. Nothing is ever connected to. */
export class SocketTable {
  readonly #clock: Clock
  #read: { readonly atMs: number; readonly sockets: Promise<OpenSocket[]> } | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  async sockets(): Promise<readonly OpenSocket[]> {
    const nowMs = this.#clock.monotonicMs()
    if (this.#read === undefined || nowMs - this.#read.atMs > FRESH_MS) {
      this.#read = { atMs: nowMs, sockets: openSockets() }
    }
    return await this.#read.sockets
  }
}

/** Reads the open sockets of this machine now. */
export async function openSockets(): Promise<OpenSocket[]> {
  const tables = await Promise.all([
    openIn('tcp', '/proc/net/tcp'),
    openIn('tcp', '/proc/net/tcp6'),
    openIn('udp', '/proc/net/udp'),
    openIn('udp', '/proc/net/udp6'),
  ])
  return tables.flat()
}

/** Whether what is sent to ip:port reaches the socket; a server on the wildcard is reached by any address. */
export function takes(socket: OpenSocket, { ip, port }: { readonly ip: string; readonly port: number }): boolean {
  return socket.port === port && (isWildcard(socket.ip) || isWildcard(ip) || socket.ip === canonical(ip))
}

/** An address with its port, as people write it. */
export function addressText({ ip, port }: { readonly ip: string; readonly port: number }): string {
  return `${isIPv6(ip) ? `[${ip}]` : ip}:${port}`
}

async function openIn(protocol: Protocol, table: string): Promise<OpenSocket[]> {
  const text = await readFile(table, 'latin1').catch(() => '') // a machine without IPv6 has no such table
  const found: OpenSocket[] = []
  for (const line of text.split('\n').slice(1)) {
    const [, local, remote, state, , , , , , inode] = line.trim().split(/\s+/)
    if (local === undefined || remote === undefined || inode === undefined) continue
    // Connections have their local port in the same column, and are not what is looked for.
    if (protocol === 'tcp' ? state !== TCP_LISTEN : !remote.endsWith(`:${NO_PEER}`)) continue
    const [address = '', port = ''] = local.split(':')
    found.push({ protocol, ip: addressOf(address), port: Number.parseInt(port, 16), inode })
  }
  return found
}

/** The kernel writes an address as words of 32 bits, each with its last byte first. */
function addressOf(hex: string): string {
  const bytes = (hex.match(/.{8}/g) ?? []).flatMap((word) => [...Buffer.from(word, 'hex')].reverse())
  if (bytes.length === 4) return bytes.join('.')
  const isMapped = bytes.slice(0, 10).every((byte) => byte === 0) && bytes[10] === 0xff && bytes[11] === 0xff
  if (isMapped) return bytes.slice(12).join('.')
  return canonical((Buffer.from(bytes).toString('hex').match(/.{4}/g) ?? []).join(':'))
}

/** One spelling for each address. */
function canonical(ip: string): string {
  return isIPv6(ip) ? new URL(`http://[${ip}]`).hostname.slice(1, -1) : ip
}

function isWildcard(ip: string): boolean {
  return ip === '0.0.0.0' || ip === '::'
}
