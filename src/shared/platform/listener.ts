import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { usersOfFarEnd } from './listener-table.ts'

/** Where to connect, and whom to trust there. */
export interface TrustedConnect {
  readonly host: string
  readonly port: number
  readonly timeoutMs: number
  /** The user that was accepted beside root and one's own, by sign-in, enrolment or flag. */
  readonly listenerUid: number | undefined
  /** Refuse an address outside this machine: the name of the host said that it is this one. */
  readonly onlyHere: boolean
}

/** What listens belongs to somebody who is not trusted with credentials; nothing was sent. */
export class UntrustedListener extends Error {
  override readonly name = 'UntrustedListener'
  readonly code = 'UNTRUSTED_LISTENER'
  /** The users that are not trusted; empty when it cannot be seen who listens. */
  readonly uids: readonly number[]

  constructor(place: string, uids: readonly number[], who: string) {
    super(
      uids.length === 0
        ? `it cannot be seen whose program listens on ${place}; nothing was sent`
        : `${place} is served by a program of ${who}, who is neither root, nor you, nor the user accepted before; nothing was sent`,
    )
    this.uids = uids
  }
}

/** What was to stay on this machine would have left it; nothing was sent. */
export class LeftMachine extends Error {
  override readonly name = 'LeftMachine'
  readonly code = 'LEFT_MACHINE'
}

/**
 * Connects by TCP. When the other end is on this machine, its user must be root, one's own or the accepted one: a port
 * beyond 1023 belongs to whoever was first. Checked on the standing connection, before its first byte.
 */
export async function connectTrusted(options: TrustedConnect): Promise<Socket> {
  const socket = await connected(options)
  try {
    checkFarEnd(socket, options)
    if (socket.destroyed) throw Object.assign(new Error('the connection was cut'), { code: 'ECONNRESET' })
    return socket
  } catch (error) {
    socket.destroy()
    throw error
  }
}

/** The users that serve an address of this machine; `undefined` for one elsewhere. Nothing is sent. */
export async function listenersAt(
  options: Omit<TrustedConnect, 'listenerUid'>,
): Promise<readonly number[] | undefined> {
  const socket = await connected(options)
  try {
    return isHere(socket) ? usersOfFarEnd(endsOf(socket)) : undefined
  } finally {
    socket.destroy()
  }
}

/** Those of these users who get no credentials. */
export function untrustedOf(uids: readonly number[], listenerUid: number | undefined): number[] {
  const own = process.getuid?.()
  const stranger = userOfStrangers()
  return uids.filter((uid) => uid === stranger || (uid !== 0 && uid !== own && uid !== listenerUid))
}

/** Whether the host of a URL is this machine by its name. */
export function isLoopbackHost(hostname: string): boolean {
  return /^(?:localhost|\[::1?\]|\[::ffff:7f[0-9a-f]{2}:[0-9a-f]{1,4}\]|127\.\d+\.\d+\.\d+|0\.0\.0\.0)$/.test(hostname)
}

/** A user for people: the name in /etc/passwd with its number. */
export function userName(uid: number): string {
  const passwd = textOf('/etc/passwd') // without it the number says enough
  const name = passwd
    .split('\n')
    .find((line) => line.split(':')[2] === String(uid))
    ?.split(':')[0]
  return name === undefined || !/^[\w.-]{1,64}$/.test(name) ? `uid ${uid}` : `${name} (uid ${uid})`
}

function connected({ host, port, timeoutMs, onlyHere }: Omit<TrustedConnect, 'listenerUid'>): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: host.replace(/^\[|\]$/g, ''), port, noDelay: true, keepAlive: true })
    const late = setTimeout(
      () => socket.destroy(Object.assign(new Error('the host does not answer'), { code: 'ETIMEDOUT' })),
      timeoutMs,
    )
    // Stays on: a cut until the connection is handed on shows in `destroyed`.
    socket.on('error', reject)
    socket.once('close', () => clearTimeout(late))
    socket.once('connect', () => {
      clearTimeout(late)
      if (!onlyHere || isHere(socket)) return resolve(socket)
      socket.destroy(new LeftMachine(`${host} is ${socket.remoteAddress}, which is not this machine; nothing was sent`))
    })
  })
}

function checkFarEnd(socket: Socket, { listenerUid, host, port }: TrustedConnect): void {
  if (!isHere(socket)) return
  const uids = usersOfFarEnd(endsOf(socket))
  const strangers = untrustedOf(uids, listenerUid)
  if (uids.length > 0 && strangers.length === 0) return
  const names = strangers.map(userName)
  throw new UntrustedListener(`${host}:${port}`, strangers, names.join(' and '))
}

/** Whether the connection has not left this machine. */
function isHere({ remoteAddress = '', localAddress }: Socket): boolean {
  return /^(?:::ffff:)?127\.|^::1$/i.test(remoteAddress) || remoteAddress === localAddress
}

function endsOf(socket: Socket) {
  const { localAddress = '', localPort = 0, remoteAddress = '', remotePort = 0 } = socket
  return { near: { address: localAddress, port: localPort }, far: { address: remoteAddress, port: remotePort } }
}

/** Within a user namespace everybody outside is shown as one user, whom nobody can be trusted by. */
function userOfStrangers(): number | undefined {
  const map = textOf('/proc/self/uid_map').trim().split(/\s+/)
  if (map.length <= 1 || map.join(' ') === '0 0 4294967295') return undefined
  return Number(textOf('/proc/sys/kernel/overflowuid').trim() || '65534')
}

/** A small file of the system; '' where there is none, as in a kernel without namespaces. */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
