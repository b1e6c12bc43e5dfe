import { readFileSync } from 'node:fs'
import type { Server, Socket } from 'node:net'
import type { Clock } from '../../shared/kernel/time.ts'
import { countedAddress } from '../../shared/platform/counted-address.ts'
import type { Log } from '../core/log.ts'

/** Open files that the database, logs, the unix socket, an agent in the same process and its games' starts need. */
const RESERVED_FILES = 512
/** The part of all places that the connections of one address may take. */
const SHARE = 4
const LOG_EVERY_MS = 60_000

/** How many connections a server takes. */
interface Limits {
  readonly most: number
  /** Connections of a proxy are those of many clients. */
  readonly perAddress: boolean
  readonly clock: Clock
  readonly log: Log
}

/** As many as the open files of this process allow. */
export function defaultMaxConnections(): number {
  const limits = readFileSync('/proc/self/limits', 'latin1')
  const files = Number(/^Max open files +(\d+)/m.exec(limits)?.[1] ?? 1024) // "unlimited" is none that Linux has
  return Math.max(64, files - Math.max(RESERVED_FILES, Math.ceil(files / 4)))
}

/**
 * Closes connections beyond the limit, and those of one address beyond its share: who opens thousands of them takes neither the
 * open files of this process nor the places of others. What comes by a unix socket has no address and is always taken.
 */
export function limitConnections(server: Server, { most, perAddress, clock, log }: Limits): void {
  const share = Math.max(1, Math.floor(most / SHARE))
  const counts = new Map<string, number>()
  let loggedMs = Number.NEGATIVE_INFINITY
  const report = (address: string | undefined): void => {
    if (clock.monotonicMs() - loggedMs < LOG_EVERY_MS) return
    loggedMs = clock.monotonicMs()
    log.warn({ maxConnections: most, address }, 'refusing connections, limit reached (http.maxConnections)')
  }
  server.maxConnections = most
  server.on('drop', (data) => report(data?.remoteAddress))
  if (!perAddress) return
  server.prependListener('connection', (socket: Socket) => {
    if (socket.remotePort === undefined) return
    const address = hostOf(socket.remoteAddress ?? '')
    const count = (counts.get(address) ?? 0) + 1
    if (count > share) {
      socket.destroy()
      return report(address)
    }
    counts.set(address, count)
    socket.once('close', () => {
      const left = (counts.get(address) ?? 1) - 1
      if (left > 0) counts.set(address, left)
      else counts.delete(address)
    })
  })
}

/** Any program may use every address of loopback. */
function hostOf(ip: string): string {
  const address = countedAddress(ip)
  return address === '::1' || address.startsWith('127.') ? 'loopback' : address
}
