import { mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { firstSchema } from './migrations/0001-first-schema.ts'
import { access } from './migrations/0002-access.ts'
import { records } from './migrations/0003-records.ts'
import { selfService } from './migrations/0004-self-service.ts'
import { ipPools } from './migrations/0005-ip-pools.ts'
import { identities } from './migrations/0006-identities.ts'
import { alerts } from './migrations/0007-alerts.ts'
import { databases } from './migrations/0008-databases.ts'
import { plugins } from './migrations/0009-plugins.ts'
import { listIndexes } from './migrations/0010-list-indexes.ts'
import { auditTime } from './migrations/0011-audit-time.ts'
import { reportRight } from './migrations/0012-report-right.ts'
import { nodeMachine } from './migrations/0013-node-machine.ts'
import { exitCause } from './migrations/0014-exit-cause.ts'
import { nodeKeys } from './migrations/0015-node-keys.ts'
import { jobs } from './migrations/0016-jobs.ts'
import { templateEggs } from './migrations/0017-template-eggs.ts'
import { serverLife } from './migrations/0018-server-life.ts'
import { sftp } from './migrations/0019-sftp.ts'
import { backupStores } from './migrations/0020-backup-stores.ts'
import { backups } from './migrations/0021-backups.ts'
import { schedules } from './migrations/0022-schedules.ts'
import { migration } from './migrations/0023-migration.ts'
import { databaseManaged } from './migrations/0024-database-managed.ts'
import { sftpTokenKey } from './migrations/0025-sftp-token-key.ts'
import { claimIndexes } from './migrations/0026-claim-indexes.ts'
import { commandIndexes } from './migrations/0027-command-indexes.ts'
import { fewerIndexes } from './migrations/0028-fewer-indexes.ts'
import { templateRows } from './migrations/0029-template-rows.ts'
import { Connection } from './sqlite/connection.ts'
import { troubleOf } from './sqlite/failures.ts'

/** One step of the schema: a script that takes version `id` - 1 to `id`. Steps are never edited once released. */
export interface Migration {
  readonly id: number
  readonly name: string
  readonly sql: string
}

/** All steps in order. */
export const MIGRATIONS: readonly Migration[] = [
  firstSchema,
  access,
  records,
  selfService,
  ipPools,
  identities,
  alerts,
  databases,
  plugins,
  listIndexes,
  auditTime,
  reportRight,
  nodeMachine,
  exitCause,
  nodeKeys,
  jobs,
  templateEggs,
  serverLife,
  sftp,
  backupStores,
  backups,
  schedules,
  migration,
  databaseManaged,
  sftpTokenKey,
  claimIndexes,
  commandIndexes,
  fewerIndexes,
  templateRows,
]

/** The newest version that this program knows. */
export const SCHEMA_VERSION = MIGRATIONS.length

/** The database was written by a newer program; this one must not touch it. */
export class NewerDatabaseError extends Error {
  override readonly name = 'NewerDatabaseError'
  constructor(file: string, version: number, known: number) {
    super(
      `the database ${file} has schema version ${version}, this panel knows versions up to ${known}: ` +
        'start the newer panel, or restore the snapshot that its upgrade made',
    )
  }
}

const SNAPSHOTS_KEPT = 5
const UNFINISHED = '.unfinished'

/** What was done to the schema: the versions before and after, and the copy that was made before. */
export interface Migrated {
  readonly from: number
  readonly to: number
  readonly snapshot: string | undefined
}

/**
 * Brings the database at `file` to the newest schema, all steps in one transaction together with the version number
 * (`PRAGMA user_version`): a migration that is killed or fails leaves a database that the program before still opens. Before the first
 * step an existing database is copied to `snapshots/`. Nobody else may have it open.
 */
export async function migrate(file: string, migrations: readonly Migration[] = MIGRATIONS): Promise<Migrated> {
  return (await beginMigration(file, migrations)).done
}

/**
 * The same, for who has something else to do meanwhile: resolves when the work is under way, of which all steps of a new database go on beside
 * this thread.
 */
export async function beginMigration(
  file: string,
  migrations: readonly Migration[] = MIGRATIONS,
): Promise<{ readonly done: Promise<Migrated> }> {
  const connection = await Connection.open(file, 'create')
  try {
    const [row] = await connection.all('PRAGMA user_version')
    const from = Number(row?.['user_version'] ?? 0)
    if (from > migrations.length) throw new NewerDatabaseError(file, from, migrations.length)
    return { done: migrateFrom(connection, { file, from, migrations }) }
  } catch (error) {
    await connection.close()
    throw error
  }
}

async function migrateFrom(
  connection: Connection,
  { file, from, migrations }: { file: string; from: number; migrations: readonly Migration[] },
): Promise<Migrated> {
  const to = migrations.length
  try {
    if (from === to || (from === 0 && (await applyAll(connection, migrations))))
      return { from, to, snapshot: undefined }
    const snapshot = from === 0 ? undefined : await takeSnapshot(connection, file, from)
    await connection.exec(DURABLE)
    await applyEach(connection, migrations.slice(from)).catch(async (error: unknown) => {
      // The database is as it was, and a copy of it would only take the room that the next attempt needs.
      if (snapshot !== undefined && isDiskFull(error)) await rm(snapshot, { force: true })
      throw error
    })
    return { from, to, snapshot }
  } finally {
    await connection.close()
  }
}

function isDiskFull(error: unknown): boolean {
  return error instanceof Error && (troubleOf(error) === 'full' || isDiskFull(error.cause))
}

const DURABLE = 'PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;'

/** Fails where a row refers to one that there is not. */
const WHOLE = `
CREATE TEMP TABLE broken (n INTEGER CHECK (n = 0)) STRICT;
INSERT INTO broken SELECT count(*) FROM pragma_foreign_key_check;
DROP TABLE temp.broken;`

/**
 * A new database in one script, which takes about half of the time. `false`: it is as it was, and which step
 * it is that fails is known by giving them one by one.
 */
async function applyAll(connection: Connection, migrations: readonly Migration[]): Promise<boolean> {
  const steps = migrations.map(({ sql }) => sql).join('\n;')
  try {
    const version = `PRAGMA user_version = ${migrations.length}`
    await connection.exec(
      `${DURABLE} PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE; ${steps}\n;${WHOLE} ${version}; COMMIT`,
    )
    return true
  } catch {
    await connection.exec('ROLLBACK').catch(() => undefined) // SQLite may have ended the transaction by itself
    return false
  }
}

async function applyEach(connection: Connection, steps: readonly Migration[]): Promise<void> {
  await connection.exec('PRAGMA foreign_keys = OFF')
  await connection.exec('BEGIN IMMEDIATE')
  let step: Migration | undefined
  try {
    for (step of steps) await apply(connection, step)
    await connection.exec('COMMIT')
  } catch (error) {
    await connection.exec('ROLLBACK').catch(() => undefined) // SQLite may have ended the transaction by itself
    const which = step === undefined ? 'the migration' : `migration ${step.id} (${step.name})`
    throw new Error(`${which} failed; the database is as it was`, { cause: error })
  }
}

async function apply(connection: Connection, migration: Migration): Promise<void> {
  await connection.exec(migration.sql)
  const broken = await connection.all('PRAGMA foreign_key_check')
  if (broken.length > 0) throw new Error(`migration ${migration.name} leaves ${broken.length} broken references`)
  await connection.exec(`PRAGMA user_version = ${migration.id}`)
}

/**
 * A copy has its name only when all of it is on the disk: a killed or failed copying leaves none that looks whole. One that fails
 * leaves nothing: on a full disk it would hold what little room is left, also from the program before.
 */
async function takeSnapshot(connection: Connection, file: string, version: number): Promise<string> {
  const folder = join(dirname(file), 'snapshots')
  await mkdir(folder, { recursive: true, mode: 0o700 })
  for (const name of await readdir(folder)) if (name.endsWith(UNFINISHED)) await rm(join(folder, name))
  const snapshot = join(folder, `before-v${version + 1}-${new Date().toISOString().replace(/[:.]/g, '-')}.db`)
  try {
    await (await open(snapshot + UNFINISHED, 'w', 0o600)).close()
    await connection.run('VACUUM INTO ?', [snapshot + UNFINISHED])
    await sync(snapshot + UNFINISHED)
    await rename(snapshot + UNFINISHED, snapshot)
  } catch (error) {
    await rm(snapshot + UNFINISHED, { force: true })
    throw error
  }
  await sync(folder)
  const all = (await readdir(folder)).filter((name) => name.startsWith('before-v')).sort()
  for (const old of all.slice(0, -SNAPSHOTS_KEPT)) await rm(join(folder, old))
  return snapshot
}

async function sync(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
