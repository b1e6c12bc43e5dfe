import { createSocket } from 'node:dgram'
import { readdir, readFile, readlink } from 'node:fs/promises'
import { createServer, isIPv6 } from 'node:net'
import type { AgentErrorCode } from '../shared/frames.ts'

/** An address that cannot be bound now, and why. */
export interface TakenPort {
  readonly ip: string
  readonly port: number
  readonly code: AgentErrorCode
  readonly message: string
  /** The process that holds it, where that is known; for the agent's log. */
  readonly holder: string | undefined
}

/**
 * Which of these addresses cannot be bound now, over TCP and UDP. Each is bound for a moment and freed again. What others
 * run on the node is not the affair of a server's owner: the process that holds a port is named in the agent's log only.
 */
export async function takenPorts(ports: readonly { ip: string; port: number }[]): Promise<TakenPort[]> {
  const taken: TakenPort[] = []
  for (const { ip, port } of ports) {
    const problem = (await bindTcp(ip, port)) ?? (await bindUdp(ip, port))
    if (problem !== undefined) taken.push(await describe(ip, port, problem))
  }
  return taken
}

interface BindProblem {
  readonly protocol: 'TCP' | 'UDP'
  readonly errno: string
}

function bindTcp(ip: string, port: number): Promise<BindProblem | undefined> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', (error) => resolve({ protocol: 'TCP', errno: errnoOf(error) }))
    server.listen({ host: ip, port, exclusive: true }, () => server.close(() => resolve(undefined)))
  })
}

function bindUdp(ip: string, port: number): Promise<BindProblem | undefined> {
  return new Promise((resolve) => {
    const socket = createSocket({ type: isIPv6(ip) ? 'udp6' : 'udp4' })
    socket.once('error', (error) => {
      socket.close()
      resolve({ protocol: 'UDP', errno: errnoOf(error) })
    })
    socket.bind({ address: ip, port, exclusive: true }, () => socket.close(() => resolve(undefined)))
  })
}

function errnoOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : error.message
}

async function describe(ip: string, port: number, problem: BindProblem): Promise<TakenPort> {
  const at = `${isIPv6(ip) ? `[${ip}]` : ip}:${port}`
  if (problem.errno === 'EADDRINUSE') {
    const message = `Port ${at} (${problem.protocol}) is in use by another program`
    return { ip, port, code: 'PORT_IN_USE', message, holder: await ownerOf(port, problem.protocol) }
  }
  const why = problem.errno === 'EACCES' ? 'the agent may not use ports this low' : problem.errno
  return {
    ip,
    port,
    code: 'ADDRESS_UNAVAILABLE',
    message: `Port ${at} cannot be used on this node: ${why}`,
    holder: undefined,
  }
}

/** Name and number of the process that holds a port, when /proc lets the agent see it. */
async function ownerOf(port: number, protocol: 'TCP' | 'UDP'): Promise<string | undefined> {
  const inodes = await socketInodes(port, protocol.toLowerCase())
  if (inodes.size === 0) return undefined
  for (const entry of await list('/proc')) {
    if (!/^\d+$/.test(entry)) continue
    for (const fd of await list(`/proc/${entry}/fd`)) {
      const target = await readlink(`/proc/${entry}/fd/${fd}`).catch(() => '') // gone or not ours to see
      if (!inodes.has(target)) continue
      const name = (await readFile(`/proc/${entry}/comm`, 'utf8').catch(() => '')).trim() // likewise
      return `${name === '' ? 'a process' : name} (process ${entry})`
    }
  }
  return undefined
}

async function socketInodes(port: number, protocol: string): Promise<Set<string>> {
  const hex = port.toString(16).toUpperCase().padStart(4, '0')
  const inodes = new Set<string>()
  for (const table of [protocol, `${protocol}6`]) {
    const text = await readFile(`/proc/net/${table}`, 'utf8').catch(() => '') // a machine without IPv6 has no such table
    for (const line of text.split('\n').slice(1)) {
      const fields = line.trim().split(/\s+/)
      const listening = protocol === 'udp' || fields[3] === '0A'
      if (listening && fields[1]?.endsWith(`:${hex}`)) inodes.add(`socket:[${fields[9]}]`)
    }
  }
  return inodes
}

async function list(folder: string): Promise<string[]> {
  return await readdir(folder).catch(() => []) // not there any more, or closed to the agent: nothing to be seen
}
