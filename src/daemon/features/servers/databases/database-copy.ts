import { randomBytes } from 'node:crypto'
import type { DatabaseEngine } from '../../../../shared/api/database-hosts.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Db } from '../../../db/db.ts'
import { type DatabaseRow, findRow } from './database-rows.ts'
import type { DatabaseDeps } from './deps.ts'
import type { HostAddress } from './driver.ts'
import { type Dump, type DumpFacts, PIECE_CHARS } from './dump.ts'
import { withHost } from './host-connection.ts'
import { HostFailure, hostFailure } from './host-failure.ts'
import { findHostRow, type HostRow } from './host-rows.ts'
import { dumpMysql } from './mysql-dump.ts'
import { dumpPostgres } from './postgresql-dump.ts'
import { addressOf, databasePlace, newPassword, opened } from './secrets.ts'
import { openMysql, openPostgres, type SqlSession } from './sql-session.ts'
import { statements } from './sql-statements.ts'

/** What copying databases needs. */
export type CopyDeps = Pick<DatabaseDeps, 'clock' | 'vault'> & { readonly db: Db }

const TRIGGER = /^CREATE\s{1,9}(?:OR\s{1,9}REPLACE\s{1,9})?TRIGGER\b/i

const ENGINES: Readonly<
  Record<DatabaseEngine, { open: (address: HostAddress, database: string) => Promise<SqlSession>; dump: Dump }>
> = {
  mysql: { open: openMysql, dump: dumpMysql },
  postgresql: { open: openPostgres, dump: dumpPostgres },
}

/** A database with its host. */
export interface KnownDatabase {
  readonly row: DatabaseRow
  readonly host: HostRow
}

/** The database of this id that is ready; throws DATABASE_NOT_FOUND. */
export async function knownDatabase({ db }: CopyDeps, id: string): Promise<KnownDatabase> {
  const row = await findRow(db.read, id)
  const host = row === undefined ? undefined : await findHostRow(db.read, row.hostId)
  if (row === undefined || host === undefined || row.state !== 'ready') {
    throw new PanelError('DATABASE_NOT_FOUND', 'The database is gone, or is being changed')
  }
  return { row, host }
}

/** The databases of a server that are ready, by their names. */
export async function databasesOfServer({ db }: CopyDeps, serverId: string): Promise<KnownDatabase[]> {
  const rows = await db.read
    .selectFrom('serverDatabase')
    .selectAll()
    .where('serverId', '=', serverId)
    .where('state', '=', 'ready')
    .orderBy('name')
    .execute()
  const known: KnownDatabase[] = []
  for (const row of rows) {
    const host = await findHostRow(db.read, row.hostId)
    if (host !== undefined) known.push({ row, host })
  }
  return known
}

/** A database as SQL, in pieces; `facts` is filled meanwhile. Failures of the host are PanelErrors that name it. */
export async function* dumpDatabase(
  deps: CopyDeps,
  known: KnownDatabase,
  { facts, signal }: { readonly facts: DumpFacts; readonly signal: AbortSignal },
): AsyncGenerator<Uint8Array> {
  const { host, row } = known
  const session = await openSession(deps, known, signal)
  try {
    let text = `-- ${host.engine} ${row.name}\n`
    for await (const piece of ENGINES[host.engine].dump(session, facts)) {
      text += piece
      if (text.length < PIECE_CHARS / 4) continue
      yield Buffer.from(text)
      text = ''
    }
    yield Buffer.from(`${text}-- end of the dump\n`)
  } catch (error) {
    throw failureOf(error, known, signal)
  } finally {
    await session.end()
  }
}

/**
 * A database of a host that is none of this panel's, as SQL, by the name and password of its own user; `facts` is filled meanwhile. Over TLS
 * where the host has it. Throws a {@link HostFailure}.
 */
export async function* dumpElsewhere(
  { name, ...place }: Omit<HostAddress, 'tls' | 'caCertificate'> & { readonly name: string },
  { facts, signal }: { readonly facts: DumpFacts; readonly signal: AbortSignal },
): AsyncGenerator<Uint8Array> {
  const { open, dump } = ENGINES[place.engine]
  const openBy = (tls: HostAddress['tls']) => open({ ...place, tls, caCertificate: null }, name)
  let session: SqlSession | undefined
  const close = (): void => session?.close()
  signal.addEventListener('abort', close)
  try {
    session = await openBy('require').catch((error: unknown) => {
      if (!(error instanceof Error) || !('code' in error) || error.code !== 'HANDSHAKE_NO_SSL_SUPPORT') throw error
      return openBy('off')
    })
    signal.throwIfAborted()
    for await (const piece of dump(session, facts)) yield Buffer.from(piece)
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof HostFailure) throw error
    throw hostFailure(error, place, true)
  } finally {
    signal.removeEventListener('abort', close)
    close()
  }
}

/**
 * Replaces all that a database holds by what a dump says, as the user of the database. PostgreSQL: all or nothing. MySQL: what fails in the
 * middle leaves what was read until then. Answers what was left out, as sentences.
 */
export async function loadDatabase(
  deps: CopyDeps,
  known: KnownDatabase,
  {
    content,
    signal,
    report,
  }: {
    readonly content: AsyncIterable<Uint8Array>
    readonly signal: AbortSignal
    readonly report: (bytes: number) => void
  },
): Promise<string[]> {
  const { host, row } = known
  const isPostgres = host.engine === 'postgresql'
  const session = await openSession(deps, known, signal)
  try {
    if (isPostgres) await session.query('BEGIN')
    await (isPostgres ? clearPostgres(session) : clearMysql(session))
    let triggers = 0
    for await (const statement of statements(textOf(content, report), host.engine)) {
      signal.throwIfAborted()
      // It would run as the user who makes it, and that one is gone afterwards.
      if (session.isLent && TRIGGER.test(statement.slice(0, 100))) triggers += 1
      else await session.query(statement)
    }
    if (isPostgres) await session.query('COMMIT')
    if (triggers === 0) return []
    const why = `its user may only connect from ${row.remote}; allow % and restore again`
    return [`${triggers} triggers of the database ${row.name} were left out: ${why}`]
  } catch (error) {
    throw failureOf(error, known, signal)
  } finally {
    await session.end()
  }
}

async function* textOf(content: AsyncIterable<Uint8Array>, report: (bytes: number) => void): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let bytes = 0
  for await (const piece of content) {
    bytes += piece.length
    report(bytes)
    yield decoder.decode(piece, { stream: true })
  }
  yield decoder.decode()
}

async function clearMysql(session: SqlSession): Promise<void> {
  await session.query('SET FOREIGN_KEY_CHECKS=0')
  const found = await session.query(
    'SELECT table_name AS name, table_type AS type FROM information_schema.tables WHERE table_schema = DATABASE()',
  )
  for (const { name, type } of found) {
    const what = type === 'VIEW' ? 'VIEW' : type === 'SEQUENCE' ? 'SEQUENCE' : 'TABLE'
    await session.query(`DROP ${what} IF EXISTS \`${String(name).replaceAll('`', '``')}\``)
  }
}

async function clearPostgres(session: SqlSession): Promise<void> {
  const ours = `n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND NOT EXISTS (SELECT 1 FROM pg_depend e WHERE e.objid = x.oid AND e.deptype = 'e')`
  const name = (column: string): string => `quote_ident(n.nspname) || '.' || quote_ident(x.${column})`
  const drops = await session.query(
    `SELECT 'DROP ' || CASE x.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE' WHEN 'f' THEN 'FOREIGN TABLE'
       ELSE 'TABLE' END || ' IF EXISTS ' || ${name('relname')} || ' CASCADE' AS sql, 1 AS place
     FROM pg_class x JOIN pg_namespace n ON n.oid = x.relnamespace WHERE x.relkind IN ('v', 'm', 'r', 'p', 'S', 'f') AND ${ours}
     UNION ALL SELECT 'DROP ROUTINE IF EXISTS ' || x.oid::regprocedure::text || ' CASCADE', 2
     FROM pg_proc x JOIN pg_namespace n ON n.oid = x.pronamespace WHERE ${ours}
     UNION ALL SELECT 'DROP TYPE IF EXISTS ' || ${name('typname')} || ' CASCADE', 3
     FROM pg_type x JOIN pg_namespace n ON n.oid = x.typnamespace WHERE x.typtype = 'e' AND ${ours} ORDER BY place`,
  )
  for (const { sql } of drops) await session.query(String(sql))
}

type OwnSession = SqlSession & { readonly isLent: boolean; end(): Promise<void> }

/**
 * A session as the user of the database: what a dump says, and what stands in the database, has no more rights than that. Where that user
 * may only connect from elsewhere, one with the same rights is made for so long (MySQL).
 */
async function openSession(deps: CopyDeps, known: KnownDatabase, signal: AbortSignal): Promise<OwnSession> {
  const { row, host } = known
  const own = addressOf(deps.vault, host)
  const isLent = host.engine === 'mysql' && row.remote !== '%'
  const username = isLent ? `pnl_${randomBytes(8).toString('hex')}` : row.username
  const password = isLent ? newPassword() : opened(deps.vault, databasePlace(row.id), row.password)
  const call = { clock: deps.clock, address: own }
  const target = { name: row.name, username, remote: '%' }
  if (isLent) await withHost(call, (dialect) => dialect.lend?.(target, password) ?? Promise.resolve())
  const giveBack = async (): Promise<void> => {
    if (isLent) await withHost(call, (dialect) => dialect.takeBack?.(target) ?? Promise.resolve())
  }
  try {
    const session = await ENGINES[host.engine].open({ ...own, username, password }, row.name)
    const close = (): void => session.close()
    signal.addEventListener('abort', close)
    return {
      ...session,
      isLent,
      end: async () => {
        signal.removeEventListener('abort', close)
        session.close()
        await giveBack()
      },
    }
  } catch (error) {
    await giveBack()
    throw failureOf(error, known, signal)
  }
}

function failureOf(error: unknown, { row, host }: KnownDatabase, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason ?? error
  if (error instanceof PanelError) return error
  const { username } = row
  const failure =
    error instanceof HostFailure
      ? error
      : hostFailure(error, { engine: host.engine, host: host.host, port: host.port, username }, true)
  const message = `The database ${row.name} on ${host.name}: ${failure.message}`
  return new PanelError('DATABASE_PROVISION_FAILED', message.slice(0, 500), {
    meta: { reason: failure.reason },
    cause: error,
  })
}
