import { type Dialect, literal, type MakeDialect, type Target, versionNumbers } from './dialect.ts'
import { HostFailure } from './host-failure.ts'

/** All that an application does in a database of its own; nothing that reaches beyond it, and no right to hand on. */
const PRIVILEGES = [
  'SELECT', 'INSERT', 'UPDATE', 'DELETE', 'CREATE', 'DROP', 'ALTER', 'INDEX', 'REFERENCES', 'CREATE TEMPORARY TABLES',
  'LOCK TABLES', 'CREATE VIEW', 'SHOW VIEW', 'CREATE ROUTINE', 'ALTER ROUTINE', 'EXECUTE', 'EVENT', 'TRIGGER',
].join(', ') // biome-ignore format: words

const OLDEST = { MariaDB: [10, 3], MySQL: [5, 7] } as const

/** MySQL and MariaDB. */
export const mysqlDialect: MakeDialect = (query): Dialect => ({
  version: async () => {
    const [row] = await query('SELECT VERSION() AS version')
    const version = String(row?.['version'])
    const product = /mariadb/i.test(version) ? 'MariaDB' : 'MySQL'
    const [major, minor] = versionNumbers(version)
    const [oldestMajor, oldestMinor] = OLDEST[product]
    if (major < oldestMajor || (major === oldestMajor && minor < oldestMinor)) {
      throw new HostFailure('version', `it is ${product} ${version}; ${oldestMajor}.${oldestMinor} is needed`, {
        undone: true,
      })
    }
    return product === 'MySQL' ? `MySQL ${version}` : version
  },
  exists: async ({ name }) => {
    const sql = `SELECT 1 AS one FROM information_schema.schemata WHERE schema_name = ${literal(name)}`
    return (await query(sql)).length > 0
  },
  create: async (target, password) => {
    await query(`CREATE DATABASE ${identifier(target.name)} CHARACTER SET utf8mb4`)
    await query(`CREATE USER ${account(target)} IDENTIFIED BY ${literal(password)}`)
    await query(`GRANT ${PRIVILEGES} ON ${pattern(target.name)}.* TO ${account(target)}`)
  },
  setPassword: async (target, password) => {
    await query(`ALTER USER ${account(target)} IDENTIFIED BY ${literal(password)}`)
  },
  lend: async (target, password) => {
    await query(`CREATE USER ${account(target)} IDENTIFIED BY ${literal(password)}`)
    await query(`GRANT ${PRIVILEGES} ON ${pattern(target.name)}.* TO ${account(target)}`)
  },
  takeBack: async (target) => {
    await query(`DROP USER IF EXISTS ${account(target)}`)
    await endSessions(query, target.username)
  },
  remove: async (target, whole) => {
    await query(`DROP USER IF EXISTS ${account(target)}`)
    await endSessions(query, target.username)
    const tables = `SELECT 1 AS one FROM information_schema.tables WHERE table_schema = ${literal(target.name)} LIMIT 1`
    // Nobody has ever had the password of a database that was not made whole: what holds tables is a stranger's.
    if (!whole && (await query(tables)).length > 0) return
    await query(`DROP DATABASE IF EXISTS ${identifier(target.name)}`)
  },
})

/** A dropped user's sessions would go on, with the rights that they had. */
async function endSessions(query: Parameters<MakeDialect>[0], username: string): Promise<void> {
  const rows = await query(`SELECT id AS session FROM information_schema.processlist WHERE user = ${literal(username)}`)
  for (const { session } of rows) {
    await query(`KILL ${Number(session)}`).catch((error: unknown) => {
      const codes = error instanceof HostFailure ? error.codes : []
      // 1094: it has ended by itself. 1095, 1227: the panel's user may not; the session cannot come back when it ends.
      if (!codes.some((code) => ['1094', '1095', '1227'].includes(code))) throw error
    })
  }
}

function identifier(name: string): string {
  return `\`${name.replaceAll('`', '``')}\``
}

/** In GRANT the name of a database is a pattern: `_` would stand for any character, and so for databases of others. */
function pattern(name: string): string {
  return identifier(name.replace(/[\\_%]/g, '\\$&'))
}

function account({ username, remote }: Target): string {
  return `${literal(username)}@${literal(hostPattern(remote))}`
}

/** `10.1.2.3/8` is `10.0.0.0/255.0.0.0` to MySQL. */
function hostPattern(remote: string): string {
  const [address = '', bits] = remote.split('/')
  if (bits === undefined) return remote
  const mask = Number(bits) === 0 ? 0 : (0xffff_ffff << (32 - Number(bits))) >>> 0
  const number = address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
  return `${dotted((number & mask) >>> 0)}/${dotted(mask)}`
}

function dotted(number: number): string {
  return [24, 16, 8, 0].map((shift) => (number >>> shift) & 255).join('.')
}
