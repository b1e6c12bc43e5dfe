import { existsSync, readdirSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Client } from 'pg'
import { quietPort } from './ports.ts'
import { clear, keep, kill, launch, prepare, servicePlace, whenReady } from './private-service.ts'

/** Why tests with a real PostgreSQL cannot run on this machine; `undefined` when they can. */
export const NO_POSTGRES = programs() === undefined ? 'PostgreSQL is not installed' : undefined

/** A PostgreSQL of a test's own, on loopback, with a role `panel` that may make databases and roles and is no superuser. */
export interface TestPostgres {
  readonly port: number
  readonly username: string
  readonly password: string
  /** Asks as the superuser. */
  ask(sql: string, database?: string): Promise<Record<string, unknown>[]>
  /** Signs in as somebody; the caller ends it. */
  connect(who: { user: string; password: string; database: string }): Promise<Client>
  /** What it has logged: every statement. */
  log(): Promise<string>
  /** Ends it without a goodbye; its data stays. */
  crash(): Promise<void>
  /** Begins again after a crash. */
  restart(): Promise<void>
  /** Turns TLS on, for connections from now on. */
  takeCertificate(certificate: { readonly cert: string; readonly key: string }): Promise<void>
  close(): Promise<void>
}

/** Makes a cluster and starts it; about a second. */
export async function startPostgres(): Promise<TestPostgres> {
  const bin = programs()
  if (bin === undefined) throw new Error('PostgreSQL is not installed')
  const place = await servicePlace('postgres', ['postgres'])
  const data = join(place.folder, 'data')
  const [port, password] = [await quietPort(), 'Panel-pass-of-this-test-2']
  const auth = ['--auth-local=trust', '--auth-host=scram-sha-256']
  await prepare(place, join(bin, 'initdb'), ['-D', data, '-U', 'postgres', ...auth, '--no-sync', '-E', 'UTF8'])
  const settings = `listen_addresses = '127.0.0.1'\nport = ${port}\nunix_socket_directories = '${place.folder}'\nfsync = off\nlog_statement = all\n`
  await writeFile(join(data, 'postgresql.auto.conf'), settings)
  const asRoot = async (database = 'postgres'): Promise<Client> => {
    const client = new Client({ host: place.folder, port, user: 'postgres', database })
    client.on('error', () => undefined) // the tests end servers on purpose
    await client.connect()
    return client
  }
  const start = async () => {
    const begun = launch(place, join(bin, 'postgres'), ['-D', data])
    await whenReady(place, begun, async () => (await asRoot()).end())
    return begun
  }
  let child = await start()
  const ask = async (sql: string, database?: string): Promise<Record<string, unknown>[]> => {
    const client = await asRoot(database)
    try {
      return (await client.query(sql)).rows
    } finally {
      await client.end()
    }
  }
  await ask(`CREATE ROLE panel LOGIN CREATEDB CREATEROLE PASSWORD '${password}'`)
  return {
    port,
    username: 'panel',
    password,
    ask,
    connect: async (who) => {
      const client = new Client({ host: '127.0.0.1', port, ...who })
      client.on('error', () => undefined) // as above
      await client.connect()
      return client
    },
    log: () => readFile(join(place.folder, 'service.log'), 'utf8'),
    crash: () => kill(child),
    restart: async () => {
      child = await start()
    },
    takeCertificate: async (certificate) => {
      await keep(place, data, certificate)
      await ask('ALTER SYSTEM SET ssl = on')
      await ask('SELECT pg_reload_conf()')
    },
    close: async () => {
      await kill(child)
      await clear(place)
    },
  }
}

/** The folder of the newest version that is installed. */
function programs(): string | undefined {
  const all = '/usr/lib/postgresql'
  const versions = existsSync(all) ? readdirSync(all).sort((a, b) => Number(b) - Number(a)) : []
  return versions.map((version) => join(all, version, 'bin')).find((bin) => existsSync(join(bin, 'initdb')))
}
