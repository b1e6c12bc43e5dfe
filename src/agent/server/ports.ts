import { readdir, readFile, readlink } from 'node:fs/promises'
import { isIPv6 } from 'node:net'
import type { PortProtocol } from '../../shared/kernel/ports.ts'
import type { AgentErrorCode } from '../../shared/protocol/agent-error.ts'
import type { ServerSpec } from '../../shared/protocol/server-spec.ts'
import { NodeShortage } from '../failure.ts'
import { type Address, bindFailure, type Protocol } from '../runtime/bind.ts'
import { addressText, openSockets, reachedAt } from '../runtime/sockets.ts'

/** An address that cannot be bound now, and why. */
export interface TakenPort {
  readonly ip: string
  readonly port: number
  readonly protocol: Protocol
  readonly code: AgentErrorCode
  readonly message: string
  /** The process that holds it, where that is known; for the agent's log. */
  readonly holder: string | undefined
  /** Nobody listens there: the kernel keeps the port for connections that are closed or closing, and gives it free soon. */
  readonly passing: boolean
}

/** An address with what it is to be bound by; without a protocol it is both. */
export interface WantedPort extends Address {
  readonly protocol?: PortProtocol | undefined
}

/**
 * Which of these addresses cannot be bound now. Each is bound for a moment and freed again. What others run on the node is not
 * the affair of a server's owner: the process that holds a port is named in the agent's log only. `namesHolders: false`: nobody is to be
 * named, which spares a look at all open files of the node.
 */
export async function takenPorts(ports: readonly WantedPort[], { namesHolders = true } = {}): Promise<TakenPort[]> {
  const taken: TakenPort[] = []
  for (const { ip, port, protocol: wanted } of ports) {
    const address = { ip, port }
    for (const protocol of wanted === 'tcp' || wanted === 'udp' ? [wanted] : BOTH) {
      const errno = await bindFailure(address, protocol)
      if (errno === undefined) continue
      taken.push(await describe(address, protocol, errno, namesHolders))
      break
    }
  }
  return taken
}

const BOTH: readonly Protocol[] = ['tcp', 'udp']

/**
 * What a server's game will bind: its primary port by what its template says that it listens on, the others by their protocol. The
 * ports of a game that binds all addresses are looked at there as well, after the one that the node may not have.
 */
export function portsOf({
  ports,
  listens,
  bindsAll,
}: Pick<ServerSpec, 'ports' | 'listens' | 'bindsAll'>): WantedPort[] {
  const said = listens === 'tcp' || listens === 'udp' ? listens : undefined
  return ports.flatMap(({ ip, port, primary, protocol = primary ? said : undefined }) => {
    const own = { ip, port, protocol }
    return bindsAll === true ? [own, { ...own, ip: isIPv6(ip) ? '::' : '0.0.0.0' }] : [own]
  })
}

/** The program that has a port open, as a person would name it; `undefined` when nobody listens there. */
export async function listenerOf(address: Address, protocol: Protocol, isNamed = true): Promise<string | undefined> {
  const open = (await openSockets(address.port)).filter((socket) => socket.protocol === protocol)
  const sockets = await reachedAt(open, address)
  if (sockets.length === 0) return undefined
  const owner = isNamed ? await ownerOf(new Set(sockets.map(({ inode }) => `socket:[${inode}]`))) : undefined
  return owner ?? 'another program'
}

async function describe(address: Address, protocol: Protocol, errno: string, namesHolder: boolean): Promise<TakenPort> {
  const at = addressText(address)
  if (errno === 'EADDRINUSE') {
    const holder = await listenerOf(address, protocol, namesHolder)
    const what = `Port ${at} (${protocol.toUpperCase()})`
    const message =
      holder === undefined
        ? `${what} is still held by connections that are closed or closing, though nobody listens on it`
        : `${what} is in use by another program`
    return { ...address, protocol, code: 'PORT_IN_USE', message, holder, passing: holder === undefined }
  }
  if (SHORTAGES.has(errno)) throw new NodeShortage(errno)
  const why = errno === 'EACCES' ? 'the agent may not use ports this low' : errno
  const message = `Port ${at} cannot be used on this node: ${why}`
  return { ...address, protocol, code: 'ADDRESS_UNAVAILABLE', message, holder: undefined, passing: false }
}

/** What the machine has too little of: no fault of the address. */
const SHORTAGES: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'ENOBUFS'])

/** Name and number of the process that holds one of these sockets, when /proc lets the agent see it. */
async function ownerOf(links: ReadonlySet<string>): Promise<string | undefined> {
  for (const entry of await list('/proc')) {
    if (!/^\d+$/.test(entry)) continue
    for (const fd of await list(`/proc/${entry}/fd`)) {
      const target = await readlink(`/proc/${entry}/fd/${fd}`).catch(() => '') // gone or not ours to see
      if (!links.has(target)) continue
      const name = (await readFile(`/proc/${entry}/comm`, 'utf8').catch(() => '')).trim() // likewise
      return `${name === '' ? 'a process' : name} (process ${entry})`
    }
  }
  return undefined
}

async function list(folder: string): Promise<string[]> {
  return await readdir(folder).catch(() => []) // not there any more, or closed to the agent: nothing to be seen
}
