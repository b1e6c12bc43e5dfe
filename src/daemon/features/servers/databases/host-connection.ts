import type { DatabaseEngine } from '../../../../shared/api/database-hosts.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Dialect, MakeDialect } from './dialect.ts'
import type { Driver, HostAddress } from './driver.ts'
import { HostFailure, hostFailure } from './host-failure.ts'
import { mysqlDialect } from './mysql-dialect.ts'
import { mysqlDriver } from './mysql-driver.ts'
import { postgresqlDialect } from './postgresql-dialect.ts'
import { postgresqlDriver } from './postgresql-driver.ts'

/** From the first packet to the end of the sign-in. */
const CONNECT_MS = 5000
/** The whole of it: the command line waits 30 s for an answer, and what fails is undone within it. */
const WHOLE_MS = 12_000
const GOODBYE_MS = 500
/** Our statements are answered with a few rows; drivers would take in, and hold, whatever comes. */
const MOST_BYTES = 1024 * 1024
/** Sockets are read in pieces of 64 KiB, and between them there is time to look. */
const LOOK_MS = 5

const ENGINES: Readonly<Record<DatabaseEngine, { driver: (address: HostAddress) => Driver; dialect: MakeDialect }>> = {
  mysql: { driver: mysqlDriver, dialect: mysqlDialect },
  postgresql: { driver: postgresqlDriver, dialect: postgresqlDialect },
}

/** A host to talk to. */
export interface HostCall {
  readonly clock: Clock
  readonly address: HostAddress
  /** Ends the connection at once. */
  readonly signal?: AbortSignal
  /** How long all of it may take; 12 s when absent. */
  readonly withinMs?: number
}

/**
 * Connects, makes sure that the host is one that the panel can use, does the work and disconnects, all in time. What
 * goes wrong with the host is a {@link HostFailure}.
 */
export async function withHost<T>(
  { clock, address, signal, withinMs = WHOLE_MS }: HostCall,
  work: (host: Dialect, version: string) => Promise<T>,
): Promise<T> {
  const { driver, dialect } = ENGINES[address.engine]
  const connection = driver(address)
  const over = new AbortController()
  const ask = asking(connection, address)
  const within = async <V>(ms: number, part: Promise<V>): Promise<V> => {
    const late = clock.sleep(ms, signal === undefined ? over.signal : AbortSignal.any([over.signal, signal]))
    return Promise.race([part, late.then(() => Promise.reject(lateness(address, signal, ask.isWaiting())))])
  }
  const flooded = async (): Promise<never> => {
    while (connection.bytesRead() <= MOST_BYTES) {
      await clock.sleep(LOOK_MS, over.signal)
      if (over.signal.aborted) return new Promise<never>(() => undefined) // nobody waits for it any more
    }
    connection.destroy()
    const much = `${address.host} sends more than the panel has asked for; check that it is a database host`
    throw new HostFailure('connection', much, { undone: !ask.isWaiting() })
  }
  const call = async (): Promise<T> => {
    await within(CONNECT_MS, connection.open()).catch((error: unknown) => {
      throw hostFailure(error, address, false)
    })
    const host = dialect(ask.query)
    return work(host, await host.version())
  }
  try {
    return await Promise.race([within(withinMs, call()), flooded()])
  } finally {
    over.abort()
    await Promise.race([connection.close(), clock.sleep(GOODBYE_MS)]).catch(() => undefined) // it is as good as gone
    connection.destroy()
  }
}

/** The driver's query with failures as those of the host. What is quoted in a statement may be a password: hosts repeat such things. */
function asking(connection: Driver, address: HostAddress): { query: Driver['query']; isWaiting(): boolean } {
  let waiting = false
  return {
    isWaiting: () => waiting,
    query: async (sql) => {
      waiting = true
      try {
        return await connection.query(sql)
      } catch (error) {
        const failure = hostFailure(error, address, true)
        const quoted = [...sql.matchAll(/'([^']{20,})'/g)].map(([, text = '']) => text)
        throw failure.without(quoted)
      } finally {
        waiting = false
      }
    },
  }
}

function lateness(address: HostAddress, signal: AbortSignal | undefined, waiting: boolean): HostFailure {
  if (signal?.aborted === true) return new HostFailure('connection', 'the daemon is stopping', { undone: !waiting })
  return hostFailure(Object.assign(new Error('timed out'), { code: 'ETIMEDOUT' }), address, waiting)
}
