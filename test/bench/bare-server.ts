import type { AddressInfo } from 'node:net'
import Fastify from 'fastify'
import { CamelCasePlugin, Kysely, type LogEvent } from 'kysely'
import sqlite3 from 'sqlite3'
import type { Schema } from '../../src/daemon/db/schema.ts'
import { Connection } from '../../src/daemon/db/sqlite/connection.ts'
import { sqliteDialect } from '../../src/daemon/db/sqlite/dialect.ts'
import { findServerRow, listServerRows } from '../../src/daemon/features/servers/servers/rows.ts'
import { answerAll } from './processes.ts'

/** What the bare server stands on: a daemon's database, and one of its own for durable inserts. */
export interface BareOptions {
  readonly database: string
  readonly scratch: string
  readonly serverId: string
  readonly listAnswer: string
  readonly getAnswer: string
}

interface Query {
  readonly sql: string
  readonly parameters: readonly unknown[]
}

answerAll(async (question) => {
  const options = question as BareOptions // from the bench, see Helper.ask
  return { url: await listen(options) }
})

/**
 * What a program without a panel would do: Fastify and the daemon's own SQL by prepared statements. Its payload is
 * `JSON.stringify` of the rows that these statements give, one array for each: for a page the count, the 50 servers with
 * what is joined to them, and each template once. The daemon answers more from the same rows (every server with its
 * template and the caller's permissions); `answer` and `bareAnswer` are the two sizes. `/…-bytes` sends the daemon's bytes.
 */
async function listen(options: BareOptions): Promise<string> {
  const { list, get } = await queriesOf(options)
  const readers = [await reader(options.database), await reader(options.database)]
  const app = Fastify({ logger: false })
  let turn = 0
  const rows = (statements: readonly Query[]) => {
    const read = readers[turn++ % readers.length]
    return Promise.all(statements.map((query) => read?.(query)))
  }
  app.get('/list', async (_, reply) => reply.type('application/json').send(JSON.stringify(await rows(list))))
  app.get('/get', async (_, reply) => reply.type('application/json').send(JSON.stringify(await rows(get))))
  app.get('/list-bytes', async (_, reply) => reply.type('application/json').send(options.listAnswer))
  app.get('/get-bytes', async (_, reply) => reply.type('application/json').send(options.getAnswer))
  app.get('/stream', (_, reply) => {
    reply.hijack()
    reply.raw.writeHead(200, { 'content-type': 'text/event-stream' })
    reply.raw.write('event: connected\ndata: {}\n\n')
  })
  const insert = await durableInsert(options.scratch)
  app.post('/insert', async (request, reply) => {
    await insert(JSON.stringify(request.body))
    return reply.status(202).type('application/json').send('{"success":true}')
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  return `http://127.0.0.1:${(app.server.address() as AddressInfo).port}` // a TCP listener has one
}

/** The SQL that the daemon runs for its list and its single read, recorded from its own functions. */
async function queriesOf({ database, serverId }: BareOptions): Promise<{ list: Query[]; get: Query[] }> {
  const connection = await Connection.open(database, 'existing')
  let recorded: Query[] = []
  const recorder = new Kysely<Schema>({
    dialect: sqliteDialect({ acquire: async () => connection, release: () => undefined }),
    plugins: [new CamelCasePlugin()],
    log: ({ query }: LogEvent): void => void recorded.push({ sql: query.sql, parameters: query.parameters }),
  })
  await listServerRows(recorder, 'all', { page: 1, limit: 50, sort: 'createdAt', order: 'desc' })
  const list = recorded
  recorded = []
  await findServerRow(recorder, serverId)
  await connection.close()
  return { list, get: recorded }
}

/** One bare connection with the daemon's pragmas and each statement prepared once. */
async function reader(file: string): Promise<(query: Query) => Promise<unknown[]>> {
  const db = await opened(file)
  await executed(db, 'PRAGMA busy_timeout = 5000; PRAGMA temp_store = MEMORY; PRAGMA query_only = ON')
  const prepared = new Map<string, sqlite3.Statement>()
  return ({ sql, parameters }) => {
    const statement = prepared.get(sql) ?? db.prepare(sql)
    prepared.set(sql, statement)
    return new Promise((resolve, reject) => {
      statement.all(parameters, (error: Error | null, rows: unknown[]) =>
        error === null ? resolve(rows) : reject(error),
      )
    })
  }
}

async function durableInsert(file: string): Promise<(text: string) => Promise<void>> {
  const db = await opened(file)
  await executed(
    db,
    'PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE IF NOT EXISTS entry (id integer primary key, data text)',
  )
  const statement = db.prepare('INSERT INTO entry (data) VALUES (?)')
  return (text) =>
    new Promise((resolve, reject) => {
      statement.run([text], (error: Error | null) => (error === null ? resolve() : reject(error)))
    })
}

function opened(file: string): Promise<sqlite3.Database> {
  return new Promise((resolve, reject) => {
    const db: sqlite3.Database = new sqlite3.Database(file, (error) => (error === null ? resolve(db) : reject(error)))
  })
}

function executed(db: sqlite3.Database, sql: string): Promise<void> {
  return new Promise((resolve, reject) => {
    db.exec(sql, (error) => (error === null ? resolve() : reject(error)))
  })
}
