import { closeSync, openSync, readSync } from 'node:fs'
import { isIPv4 } from 'node:net'
import { endianness } from 'node:os'

/** The two ends of a TCP connection, as its near end sees them. */
export interface Ends {
  readonly near: { readonly address: string; readonly port: number }
  readonly far: { readonly address: string; readonly port: number }
}

const LISTEN = '0A'
/** The columns of /proc/net/tcp, whose times and queues are joined by colons. */
const [LOCAL, REMOTE, STATE, UID, INODE] = [1, 2, 3, 7, 9]

/** How much of a table is asked for at once, in bytes: a few rows, because the kernel looks through all that it might have to find more. */
const PIECE = 512

/**
 * The users that the far end of a connection within this machine may belong to: whoever has taken this very connection, and everybody
 * who is seen to listen on that port for that address. Empty when nobody is seen to listen there.
 *
 * Reads as far as whoever has taken the connection, of which there is one; where nobody has yet, it may belong to any who listen,
 * and all is read. Does not wait for anything: the tables are memory of the kernel.
 */
export function usersOfFarEnd(ends: Ends): readonly number[] {
  const far = spelled(ends.far.address)
  const port = hexPort(ends.far.port)
  const near = spelled(ends.near.address).exact.map((it) => it + hexPort(ends.near.port))
  const [here, listens] = [far.exact.map((it) => it + port), far.listens.map((it) => it + port)]
  const listening = new Set<number>()
  for (const table of far.tables) {
    for (const { state, local, remote, inode, uid } of rowsAt(port, table)) {
      if (state === LISTEN && listens.includes(local)) listening.add(uid)
      // Until a program has accepted it, a connection belongs to those who listen.
      const isTaken = state !== LISTEN && inode !== '0' && here.includes(local) && near.includes(remote)
      if (isTaken) return listening.size === 0 ? [] : [...listening.add(uid)]
    }
  }
  return [...listening]
}

interface Row {
  readonly local: string
  readonly remote: string
  readonly state: string
  readonly uid: number
  readonly inode: string
}

/**
 * The rows whose near end has that port, of some thousand; those who listen come first. A kernel without IPv6 has no `tcp6`; without any
 * table nobody is seen to listen.
 */
function* rowsAt(port: string, table: string): Generator<Row> {
  let file: number
  try {
    file = openSync(`/proc/self/net/${table}`, 'r')
  } catch {
    return // who asks refuses what is not seen
  }
  try {
    const piece = Buffer.allocUnsafe(PIECE)
    let text = ''
    for (let size = readSync(file, piece); size > 0; size = readSync(file, piece)) {
      text += piece.toString('latin1', 0, size)
      const end = text.lastIndexOf('\n') + 1
      if (text.includes(`:${port} `)) yield* rowsIn(text.slice(0, end), port)
      text = text.slice(end)
    }
  } finally {
    closeSync(file)
  }
}

function rowsIn(text: string, port: string): Row[] {
  return text.split('\n').flatMap((line) => {
    const fields = line.trim().split(/\s+/)
    const uid = Number(fields[UID] ?? '')
    if (fields.length <= INODE || !Number.isInteger(uid) || !fields[LOCAL]?.endsWith(`:${port}`)) return []
    return [
      {
        local: fields[LOCAL] ?? '',
        remote: fields[REMOTE] ?? '',
        state: fields[STATE] ?? '',
        uid,
        inode: fields[INODE] ?? '',
      },
    ]
  })
}

/**
 * An address as the tables spell it: itself, and every address whose listeners it reaches, each with a colon at its end; and the tables
 * in which these are. One of IPv4 may be served by a socket of IPv6.
 */
function spelled(address: string): { exact: string[]; listens: string[]; tables: readonly string[] } {
  const plain = (address.split('%')[0] ?? '').replace(/^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i, '')
  if (isIPv4(plain)) {
    const bytes = plain.split('.').map(Number)
    const exact = [words(bytes), words([...Array<number>(10).fill(0), 0xff, 0xff, ...bytes])]
    return { exact, listens: [...exact, words([0, 0, 0, 0]), ANY_V6], tables: ['tcp', 'tcp6'] }
  }
  const exact = [words(bytesOfV6(plain))]
  return { exact, listens: [...exact, ANY_V6], tables: ['tcp6'] }
}

const ANY_V6 = `${'0'.repeat(32)}:`

/** The kernel prints each four bytes as a number of this machine. */
function words(bytes: readonly number[]): string {
  let text = ''
  for (let at = 0; at < bytes.length; at += 4) {
    const word = bytes.slice(at, at + 4)
    if (endianness() === 'LE') word.reverse()
    text += word.map((byte) => byte.toString(16).padStart(2, '0')).join('')
  }
  return `${text.toUpperCase()}:`
}

function bytesOfV6(address: string): number[] {
  // A URL spells every IPv6 address in one way, without an IPv4 tail.
  const text = new URL(`http://[${address}]`).hostname.slice(1, -1)
  const [left = '', right] = text.split('::')
  const groups = (part: string | undefined): string[] => (part === undefined || part === '' ? [] : part.split(':'))
  const [head, tail] = [groups(left), groups(right)]
  const all = [...head, ...Array<string>(8 - head.length - tail.length).fill('0'), ...tail]
  return all.flatMap((group) => {
    const value = Number.parseInt(group, 16)
    return [value >> 8, value & 0xff]
  })
}

function hexPort(port: number): string {
  return port.toString(16).toUpperCase().padStart(4, '0')
}
