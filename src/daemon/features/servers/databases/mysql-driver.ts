import { connect } from 'node:net'
import type { Connection } from 'mysql2/promise'
import { type Driver, type HostAddress, type Row, tlsOf } from './driver.ts'

/** A connection to MySQL or MariaDB. */
export function mysqlDriver(address: HostAddress): Driver {
  const tls = tlsOf(address)
  let connection: Connection | undefined
  let socket: ReturnType<typeof connect> | undefined
  return {
    open: async () => {
      // Loaded here, because most panels never need it.
      const { createConnection } = await import('mysql2/promise')
      socket = connect({ host: address.host, port: address.port, noDelay: true })
      connection = await createConnection({
        host: address.host,
        stream: socket,
        user: address.username,
        password: address.password,
        charset: 'utf8mb4',
        multipleStatements: false,
        ...(tls === undefined ? {} : { ssl: { ...tls, verifyIdentity: tls.rejectUnauthorized } }),
      })
      // Whoever waits for an answer gets the rejection; nobody waits for anything else.
      connection.on('error', () => undefined)
    },
    query: async (sql) => {
      if (connection === undefined) throw new Error('the connection is not open')
      const [rows] = await connection.query(sql)
      // The driver's type spans all kinds of answers; a list holds rows, for statements there is a single object.
      return Array.isArray(rows) ? (rows as Row[]) : []
    },
    bytesRead: () => socket?.bytesRead ?? 0,
    close: async () => connection?.end(),
    destroy: () => {
      connection?.destroy()
      socket?.destroy()
    },
  }
}
