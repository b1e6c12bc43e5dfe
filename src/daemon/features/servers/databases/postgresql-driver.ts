import { Socket } from 'node:net'
import type { Client } from 'pg'
import { type Driver, type HostAddress, tlsOf } from './driver.ts'

/** The database that every cluster has for connections like ours. */
const MAINTENANCE = 'postgres'

/** A connection to PostgreSQL. */
export function postgresqlDriver(address: HostAddress): Driver {
  const socket = new Socket()
  let client: Client | undefined
  return {
    open: async () => {
      // Loaded here, because most panels never need it.
      const { Client } = await import('pg')
      client = new Client({
        host: address.host,
        port: address.port,
        user: address.username,
        password: address.password,
        database: MAINTENANCE,
        application_name: 'panel',
        ssl: tlsOf(address) ?? false,
        stream: () => socket,
      })
      // Whoever waits for an answer gets the rejection; nobody waits for anything else.
      client.on('error', () => undefined)
      await client.connect()
    },
    query: async (sql) => {
      if (client === undefined) throw new Error('the connection is not open')
      return (await client.query<Record<string, unknown>>(sql)).rows
    },
    bytesRead: () => socket.bytesRead,
    close: async () => client?.end(),
    destroy: () => socket.destroy(),
  }
}
