import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type Connection, createConnection, type RowDataPacket } from 'mysql2/promise'
import { quietPort } from './ports.ts'
import { clear, keep, kill, launch, prepare, servicePlace, whenReady } from './private-service.ts'

const PROGRAM = '/usr/sbin/mariadbd'
const INSTALL = '/usr/bin/mariadb-install-db'

/** Why tests with a real MariaDB cannot run on this machine; `undefined` when they can. */
export const NO_MARIADB = existsSync(PROGRAM) && existsSync(INSTALL) ? undefined : 'mariadbd is not installed'

/** A MariaDB of a test's own, on loopback, with an account `panel` that may make databases and users. */
export interface TestMariadb {
  readonly port: number
  readonly username: string
  readonly password: string
  /** Asks as root. */
  ask(sql: string): Promise<Record<string, unknown>[]>
  /** Signs in as somebody; the caller ends it. */
  connect(who: { user: string; password: string; database?: string }): Promise<Connection>
  /** Ends it without a goodbye; its data stays. */
  crash(): Promise<void>
  /** Begins again after a crash. */
  restart(): Promise<void>
  /** Ends it and begins again with TLS. */
  takeCertificate(certificate: { readonly cert: string; readonly key: string }): Promise<void>
  close(): Promise<void>
}

/** Installs and starts one; a few seconds. */
export async function startMariadb(): Promise<TestMariadb> {
  const place = await servicePlace('mariadb', ['mysql'])
  const data = join(place.folder, 'data')
  const socketPath = join(place.folder, 's')
  const [port, password] = [await quietPort(), 'Panel-pass-of-this-test-1']
  const small = ['--innodb-buffer-pool-size=8M', '--innodb-log-file-size=4M', '--innodb-flush-log-at-trx-commit=0']
  await prepare(place, INSTALL, [
    '--no-defaults', `--datadir=${data}`, '--skip-test-db', '--auth-root-authentication-method=normal', ...small,
  ]) // biome-ignore format: arguments
  const place_ = [`--datadir=${data}`, `--socket=${socketPath}`, `--pid-file=${join(place.folder, 'pid')}`]
  const net = ['--bind-address=127.0.0.1', `--port=${port}`, '--skip-name-resolve']
  const asRoot = () => createConnection({ socketPath, user: 'root' })
  let tls: string[] = []
  const start = async () => {
    const begun = launch(place, PROGRAM, ['--no-defaults', ...place_, ...net, ...small, ...tls])
    await whenReady(place, begun, async () => (await asRoot()).end())
    return begun
  }
  let child = await start()
  const ask = async (sql: string): Promise<Record<string, unknown>[]> => {
    const connection = await asRoot()
    try {
      const [rows] = await connection.query<RowDataPacket[]>(sql)
      return Array.isArray(rows) ? rows : []
    } finally {
      await connection.end()
    }
  }
  await ask(`CREATE USER 'panel'@'127.0.0.1' IDENTIFIED BY '${password}'`)
  await ask(`GRANT ALL PRIVILEGES ON *.* TO 'panel'@'127.0.0.1' WITH GRANT OPTION`)
  return {
    port,
    username: 'panel',
    password,
    ask,
    connect: (who) => createConnection({ host: '127.0.0.1', port, ...who }),
    crash: () => kill(child),
    restart: async () => {
      child = await start()
    },
    takeCertificate: async (certificate) => {
      const { cert, key } = await keep(place, place.folder, certificate)
      tls = [`--ssl-cert=${cert}`, `--ssl-key=${key}`]
      await kill(child)
      child = await start()
    },
    close: async () => {
      await kill(child)
      await clear(place)
    },
  }
}
