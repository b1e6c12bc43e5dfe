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
  /** Bytes that `/bytes/<name>` sends. */
  readonly answers: Readonly<Record<string, string>>
}

/** Transactions that the daemon commits together at most. */
const GROUP = 64

type Reader = (query: Query) => Promise<unknown[]>

interface Query {
  readonly sql: string
  readonly parameters: readonly unknown[]
}

answerAll(async (question) => {
  const options = question as BareOptions // from the bench, see Helper.ask
  return { url: await listen(options) }
})

/**
 * What a program without a panel would do: Fastify and the daemon's own SQL by prepared statements. `/list` and `/get` send
 * `JSON.stringify` of the rows that these statements give, one array for each: for a page the count, the 50 servers with
 * what is joined to them, and each template once. `/list-json` and `/get-json` have SQLite write the same rows, as one text of
 * arrays for each statement. `/bytes/<name>` sends the daemon's own bytes without asking anything. `/insert` answers when
 * its row is on disk, committed as the daemon commits: what has come meanwhile in one transaction, one statement for each.
 */
async function listen(options: BareOptions): Promise<string> {
  const { list, get } = await queriesOf(options)
  const readers = [await reader(options.database), await reader(options.database)]
  const app = Fastify({ logger: false })
  let turn = 0
  const rows = (statements: readonly Query[]): Promise<unknown[][]> => {
    const read = readers[turn++ % readers.length] ?? readers[0]
    return Promise.all(statements.map((query) => (read as Reader)(query))) // there are two
  }
  const texts = async (statements: readonly Query[]): Promise<string> => {
    const found = await rows(statements)
    return `[${found.map(([row]) => (row as { rows: string }).rows).join(',')}]` // see asJson
  }
  const [listJson, getJson] = [await asJson(list, rows), await asJson(get, rows)]
  app.get('/list', async (_, reply) => reply.type('application/json').send(JSON.stringify(await rows(list))))
  app.get('/get', async (_, reply) => reply.type('application/json').send(JSON.stringify(await rows(get))))
  app.get('/list-json', async (_, reply) => reply.type('application/json').send(await texts(listJson)))
  app.get('/get-json', async (_, reply) => reply.type('application/json').send(await texts(getJson)))
  for (const [name, answer] of Object.entries(options.answers)) {
    app.route({
      method: ['GET', 'POST', 'PATCH'],
      url: `/bytes/${name}`,
      handler: async (_, reply) => reply.type('application/json').send(answer),
    })
  }
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

/** The statements with their rows as one text each; the names of their columns are those of the rows that they give. */
async function asJson(
  statements: readonly Query[],
  rows: (statements: readonly Query[]) => Promise<unknown[][]>,
): Promise<Query[]> {
  const found = await rows(statements)
  return statements.map(({ sql, parameters }, i) => {
    const columns = Object.keys((found[i]?.[0] as object | undefined) ?? {})
    if (columns.length === 0) throw new Error(`a statement of the floor gives no row: ${sql}`)
    const names = columns.map((name) => `"${name}"`).join(', ')
    return { sql: `select json_group_array(json_array(${names})) as rows from (${sql})`, parameters }
  })
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
async function reader(file: string): Promise<Reader> {
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

/** With the pragmas and the group commit of the daemon's writer (src/daemon/db/write-queue.ts). */
async function durableInsert(file: string): Promise<(text: string) => Promise<void>> {
  const db = await opened(file)
  await executed(
    db,
    'PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE IF NOT EXISTS entry (id integer primary key, data text)',
  )
  const [begin, entry, commit] = ['BEGIN IMMEDIATE', 'INSERT INTO entry (data) VALUES (?)', 'COMMIT'].map((sql) =>
    run(db.prepare(sql)),
  ) as [Run, Run, Run] // three statements
  const waiting: { text: string; resolve: () => void; reject: (error: unknown) => void }[] = []
  let isDraining = false
  const drain = async (): Promise<void> => {
    isDraining = true
    await Promise.resolve() // so that calls of the same turn share a commit
    while (waiting.length > 0) {
      const group = waiting.splice(0, GROUP)
      try {
        await begin()
        for (const { text } of group) await entry(text)
        await commit()
        for (const { resolve } of group) resolve()
      } catch (error) {
        for (const { reject } of group) reject(error)
      }
    }
    isDraining = false
  }
  return (text) =>
    new Promise((resolve, reject) => {
      waiting.push({ text, resolve, reject })
      if (!isDraining) void drain()
    })
}

type Run = (...values: readonly string[]) => Promise<void>

function run(statement: sqlite3.Statement): Run {
  return (...values) =>
    new Promise((resolve, reject) => {
      statement.run(values, (error: Error | null) => (error === null ? resolve() : reject(error)))
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
