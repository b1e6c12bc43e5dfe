import { closeSync, openSync, readSync } from 'node:fs'
import { isIPv6 } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import type { Clock } from '../../shared/kernel/time.ts'
import { SerialQueue } from '../server/serial-queue.ts'
import { type Address, bindFailure, type Protocol } from './bind.ts'

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
/** After so many rows of a table other work has its turn. */
const ROWS_AT_ONCE = 500
/** What nobody has but who has the IPv4 wildcard: a bind tries it without being in a game's way. */
const UNUSED_IP = '127.77.77.77'
const MAX_CACHED = 1000
/** The kernel gives a table in pieces of a page; between some of them other work has its turn. */
const PIECE_BYTES = 16 * 1024
const PIECES_AT_ONCE = 64

/** A table as the kernel writes it. */
type Table = readonly [protocol: Protocol, text: string]

/** The tables as they were when their reading ended. */
interface Reading {
  readonly tables: Promise<Table[]>
  endMs: number
}

/** The open sockets of this machine, as the kernel lists them. Nothing is ever connected to. */
export class SocketTable {
  readonly #clock: Clock
  readonly #ipv4Takers: Ipv4Takers = new Map()
  /** Looks at the files of processes, one after the other. */
  readonly turns = new SerialQueue()
  #read: Reading | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Those that are reached at the address. */
  async at(address: Address): Promise<OpenSocket[]> {
    return await reachedAt(await socketsIn(await this.#tables(), address.port), address, this.#ipv4Takers)
  }

  async all(): Promise<OpenSocket[]> {
    return await socketsIn(await this.#tables())
  }

  async #tables(): Promise<Table[]> {
    const read = this.#read
    if (read !== undefined && this.#clock.monotonicMs() - read.endMs <= FRESH_MS) return await read.tables
    // Large tables take the kernel seconds: whoever looks in between waits for the same ones.
    const next: Reading = { tables: readTables(), endMs: Number.POSITIVE_INFINITY }
    this.#read = next
    const tables = await next.tables
    next.endMs = this.#clock.monotonicMs()
    return tables
  }
}

/** Reads the open sockets of a process's network now: those on a port, or all. Nothing when the process is gone. */
export async function socketsOfNetwork(pid: number, port?: number): Promise<OpenSocket[]> {
  return await socketsIn(await readTables(`/proc/${pid}/net`), port)
}

/** Reads the open sockets of this machine on a port now. */
export async function openSockets(port: number): Promise<OpenSocket[]> {
  return await socketsIn(await readTables(), port)
}

/** Which sockets on `::` take IPv4 as well, by their inodes: what a socket is once stays so. */
type Ipv4Takers = Map<string, Promise<boolean>>

/** Those of the sockets that get what is sent to the address; a server on the wildcard is reached by any address. */
export async function reachedAt(
  sockets: readonly OpenSocket[],
  address: Address,
  known: Ipv4Takers = new Map(),
): Promise<OpenSocket[]> {
  const there = sockets.filter((socket) => takes(socket, address))
  if (isIPv6(address.ip)) return there
  const ipv4 = there.filter(({ ip }) => !isIPv6(ip))
  const reached: OpenSocket[] = [...ipv4]
  for (const socket of there) {
    // Where an IPv4 socket has the port, what comes by IPv4 is its.
    if (!isIPv6(socket.ip) || ipv4.some(({ protocol }) => protocol === socket.protocol)) continue
    if (known.size >= MAX_CACHED) known.clear()
    const key = `${socket.protocol} ${socket.inode}`
    const takesIpv4 = known.get(key) ?? refusesIpv4(socket)
    known.set(key, takesIpv4)
    if (await takesIpv4) reached.push(socket)
  }
  return reached
}

/** Whether the kernel refuses an IPv4 bind of the port of a socket on `::`: no table says whether it is for IPv6 alone. */
async function refusesIpv4({ port, protocol }: OpenSocket): Promise<boolean> {
  return (await bindFailure({ ip: UNUSED_IP, port }, protocol)) !== undefined
}

function takes(socket: OpenSocket, { ip, port }: Address): boolean {
  if (socket.port !== port) return false
  if (isWildcard(socket.ip) || socket.ip === canonical(ip)) return true
  return isWildcard(ip) && (isIPv6(ip) || !isIPv6(socket.ip))
}

/** An address with its port, as people write it. */
export function addressText({ ip, port }: Address): string {
  return `${isIPv6(ip) ? `[${ip}]` : ip}:${port}`
}

async function readTables(folder = '/proc/net'): Promise<Table[]> {
  return [
    ['tcp', await readTable(`${folder}/tcp`)],
    ['tcp', await readTable(`${folder}/tcp6`)],
    ['udp', await readTable(`${folder}/udp`)],
    ['udp', await readTable(`${folder}/udp6`)],
  ]
}

/** Reads a table piece by piece: threads that wait for disks would be woken several times for each, and a large one takes seconds. */
async function readTable(table: string): Promise<string> {
  let fd: number
  try {
    fd = openSync(table, 'r')
  } catch {
    return '' // a machine without IPv6 has no such table, a process that has ended none at all
  }
  try {
    const piece = Buffer.allocUnsafe(PIECE_BYTES)
    const pieces: string[] = []
    for (let length = 1; length > 0; ) {
      length = readSync(fd, piece)
      pieces.push(piece.toString('latin1', 0, length))
      if (pieces.length % PIECES_AT_ONCE === 0) await setImmediate()
    }
    return pieces.join('')
  } catch {
    return '' // it has ended meanwhile
  } finally {
    closeSync(fd)
  }
}

/** The open sockets of the tables, or those on a port. Rows of other ports are passed over as they are: one game may have many. */
async function socketsIn(tables: readonly Table[], port?: number): Promise<OpenSocket[]> {
  const sought = port === undefined ? '\n' : `:${port.toString(16).toUpperCase().padStart(4, '0')} `
  const found: OpenSocket[] = []
  let rows = 0
  for (const [protocol, text] of tables) {
    for (let at = text.indexOf(sought); at >= 0; at = text.indexOf(sought, at + 1)) {
      const begin = port === undefined ? at + 1 : text.lastIndexOf('\n', at) + 1
      const end = text.indexOf('\n', begin)
      const socket = socketOf(protocol, text.slice(begin, end < 0 ? text.length : end))
      // The port may be that of the other side.
      if (socket !== undefined && (port === undefined || socket.port === port)) found.push(socket)
      if (++rows % ROWS_AT_ONCE === 0) await setImmediate()
      if (end < 0) break
      at = Math.max(at, end - 1)
    }
  }
  return found
}

function socketOf(protocol: Protocol, row: string): OpenSocket | undefined {
  const [, local, remote, state, , , , , , inode] = row.trim().split(/\s+/)
  if (local === undefined || remote === undefined || inode === undefined) return undefined
  // Connections have their local port in the same column, and are not what is looked for.
  if (protocol === 'tcp' ? state !== TCP_LISTEN : !remote.endsWith(`:${NO_PEER}`)) return undefined
  const [address = '', port = ''] = local.split(':')
  return { protocol, ip: addressOf(address), port: Number.parseInt(port, 16), inode }
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
