import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto'
import { type Dialect, literal, type MakeDialect, type Target, versionNumbers } from './dialect.ts'
import { HostFailure } from './host-failure.ts'

type Query = Parameters<MakeDialect>[0]

/** The first that can drop a database with sessions in it. */
const OLDEST = 13

/** PostgreSQL. From where a role may connect is said by pg_hba.conf alone. */
export const postgresqlDialect: MakeDialect = (query): Dialect => ({
  version: async () => {
    const [row] = await query('SHOW server_version')
    const version = String(row?.['server_version'])
    if (versionNumbers(version)[0] < OLDEST) {
      throw new HostFailure('version', `it is PostgreSQL ${version}; ${OLDEST} is needed`, { undone: true })
    }
    return `PostgreSQL ${version}`
  },
  exists: async ({ name }) => (await ownerOf(query, name)) !== undefined,
  create: async (target, password) => {
    const role = identifier(target.username)
    await query(`CREATE ROLE ${role} LOGIN PASSWORD ${literal(verifier(password))}`)
    const [me] = await query('SELECT rolsuper FROM pg_roles WHERE rolname = current_user')
    // Others than superusers give databases only to roles that they are members of.
    if (me?.['rolsuper'] !== true) await query(`GRANT ${role} TO CURRENT_USER`)
    const database = identifier(target.name)
    try {
      await query(`CREATE DATABASE ${database} OWNER ${role} TEMPLATE template0`)
    } catch (error) {
      if (error instanceof HostFailure && error.reason === 'exists') await query(`DROP ROLE ${role}`)
      throw error
    }
    await query(`REVOKE ALL ON DATABASE ${database} FROM PUBLIC`)
  },
  setPassword: async ({ username }, password) => {
    await query(`ALTER ROLE ${identifier(username)} PASSWORD ${literal(verifier(password))}`)
  },
  remove: async (target, whole) => {
    const owner = await ownerOf(query, target.name)
    if (owner !== undefined && (whole || owner === target.username)) {
      await query(`DROP DATABASE IF EXISTS ${identifier(target.name)} WITH (FORCE)`)
    }
    await dropRole(query, target)
  },
})

async function ownerOf(query: Query, name: string): Promise<string | undefined> {
  const [row] = await query(
    `SELECT pg_get_userbyid(datdba)::text AS owner FROM pg_database WHERE datname = ${literal(name)}`,
  )
  return row === undefined ? undefined : String(row['owner'])
}

async function dropRole(query: Query, { username }: Target): Promise<void> {
  const role = identifier(username)
  const known = await query(`SELECT 1 AS one FROM pg_roles WHERE rolname = ${literal(username)}`)
  if (known.length === 0) return
  await query(`ALTER ROLE ${role} NOLOGIN`)
  await query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = ${literal(username)}`)
  // What it was let own here would keep it from being dropped.
  await query(`DROP OWNED BY ${role}`)
  await query(`DROP ROLE IF EXISTS ${role}`)
}

function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** What PostgreSQL would keep of the password (RFC 5803): the password itself never stands in a statement that it may log. */
function verifier(password: string): string {
  const rounds = 4096
  const salt = randomBytes(16)
  const salted = pbkdf2Sync(password, salt, rounds, 32, 'sha256')
  const keyed = (text: string): Buffer => createHmac('sha256', salted).update(text).digest()
  const stored = createHash('sha256').update(keyed('Client Key')).digest('base64')
  return `SCRAM-SHA-256$${rounds}:${salt.toString('base64')}$${stored}:${keyed('Server Key').toString('base64')}`
}
