import { connect, Socket } from 'node:net'
import { type HostAddress, tlsOf } from './driver.ts'

/** A value as the host writes it; `null`: none. */
export type SqlValue = Uint8Array | string | null

/** A connection into one database, as the user of that database: what stands in it can do no more than that user. */
export interface SqlSession {
  /** A statement with a small answer. */
  query(sql: string): Promise<readonly Readonly<Record<string, unknown>>[]>
  /** Rows in their order, as they come: a few at a time are in memory. */
  rows(sql: string): AsyncIterable<readonly SqlValue[]>
  /** Ends it at once, whatever it waits for. */
  close(): void
}

const CONNECT_MS = 10_000
const FETCH_ROWS = 200

/** Opens one on MySQL or MariaDB; the address has the user's name and password. */
export async function openMysql(address: HostAddress, database: string): Promise<SqlSession> {
  // Loaded here, because most panels never need it.
  const { createConnection } = await import('mysql2')
  const tls = tlsOf(address)
  const socket = connect({ host: address.host, port: address.port, noDelay: true })
  const connection = createConnection({
    host: address.host,
    stream: socket,
    user: address.username,
    password: address.password,
    database,
    charset: 'utf8mb4',
    connectTimeout: CONNECT_MS,
    multipleStatements: false,
    ...(tls === undefined ? {} : { ssl: { ...tls, verifyIdentity: tls.rejectUnauthorized } }),
  })
  const close = (): void => {
    connection.destroy()
    socket.destroy()
  }
  try {
    await new Promise<void>((resolve, reject) => {
      connection.connect((error) => (error === null ? resolve() : reject(error)))
    })
  } catch (error) {
    close()
    throw error
  }
  connection.on('error', () => undefined) // whoever waits for an answer gets it
  return {
    query: (sql) =>
      new Promise((resolve, reject) => {
        connection.query(sql, (error, rows) => {
          if (error !== null) reject(error)
          else resolve(Array.isArray(rows) ? (rows as Readonly<Record<string, unknown>>[]) : []) // of one statement
        })
      }),
    rows: (sql) =>
      connection
        .query({ sql, rowsAsArray: true, typeCast: (field) => field.buffer() })
        .stream({ highWaterMark: FETCH_ROWS }) as AsyncIterable<readonly SqlValue[]>,
    close,
  }
}

/** Opens one on PostgreSQL. {@link SqlSession.rows} needs a transaction. */
export async function openPostgres(address: HostAddress, database: string): Promise<SqlSession> {
  const { Client } = await import('pg')
  const socket = new Socket()
  const client = new Client({
    host: address.host,
    port: address.port,
    user: address.username,
    password: address.password,
    database,
    application_name: 'panel backup',
    connectionTimeoutMillis: CONNECT_MS,
    ssl: tlsOf(address) ?? false,
    stream: () => socket,
  })
  client.on('error', () => undefined)
  try {
    await client.connect()
  } catch (error) {
    socket.destroy()
    throw error
  }
  const asText = { getTypeParser: () => (value: string) => value }
  return {
    query: async (sql) => (await client.query<Record<string, unknown>>(sql)).rows ?? [],
    rows: async function* (sql) {
      await client.query(`DECLARE panel_rows NO SCROLL CURSOR FOR ${sql}`)
      for (;;) {
        const text = `FETCH ${FETCH_ROWS} FROM panel_rows`
        const { rows } = await client.query<SqlValue[]>({ text, rowMode: 'array', types: asText as never })
        yield* rows
        if (rows.length < FETCH_ROWS) break
      }
      await client.query('CLOSE panel_rows')
    },
    close: () => socket.destroy(),
  }
}
