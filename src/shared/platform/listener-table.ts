import { readFile } from 'node:fs/promises'
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

/**
 * The users that the far end of a connection within this machine may belong to: everybody who listens on that port for that
 * address, and whoever has taken this very connection. Empty when nobody is seen to listen there.
 */
export async function usersOfFarEnd(ends: Ends): Promise<readonly number[]> {
  const far = spelled(ends.far.address)
  const port = hexPort(ends.far.port)
  const rows = (await Promise.all(['tcp', 'tcp6'].map((table) => rowsAt(port, table)))).flat()
  const listening = rows.filter(({ state, local }) => state === LISTEN && far.listens.some((it) => local === it + port))
  if (listening.length === 0) return []
  const near = spelled(ends.near.address).exact.map((it) => it + hexPort(ends.near.port))
  const here = far.exact.map((it) => it + port)
  // Until a program has accepted it, a connection belongs to those who listen.
  const taken = rows.filter(
    ({ state, local, remote, inode }) =>
      state !== LISTEN && inode !== '0' && here.includes(local) && near.includes(remote),
  )
  return [...new Set([...listening, ...taken].map(({ uid }) => uid))]
}

interface Row {
  readonly local: string
  readonly remote: string
  readonly state: string
  readonly uid: number
  readonly inode: string
}

/** The rows whose near end has that port, of some thousand. A kernel without IPv6 has no `tcp6`; without any table nobody is seen to listen. */
async function rowsAt(port: string, table: string): Promise<Row[]> {
  let text: string
  try {
    text = await readFile(`/proc/self/net/${table}`, 'latin1')
  } catch {
    return [] // who asks refuses what is not seen
  }
  return text
    .split('\n')
    .slice(1)
    .filter((line) => line.includes(`:${port} `))
    .flatMap((line) => {
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

/** An address as the tables spell it: itself, and every address whose listeners it reaches. Each ends in a colon. */
function spelled(address: string): { exact: string[]; listens: string[] } {
  const plain = (address.split('%')[0] ?? '').replace(/^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i, '')
  if (isIPv4(plain)) {
    const bytes = plain.split('.').map(Number)
    const exact = [words(bytes), words([...Array<number>(10).fill(0), 0xff, 0xff, ...bytes])]
    return { exact, listens: [...exact, words([0, 0, 0, 0]), ANY_V6] }
  }
  const exact = [words(bytesOfV6(plain))]
  return { exact, listens: [...exact, ANY_V6] }
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
