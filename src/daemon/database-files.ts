import { access, copyFile, link, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { PanelError } from '../shared/errors.ts'
import { FolderInUse } from '../shared/platform/folder-lock.ts'
import { isoTime, systemClock } from '../shared/time.ts'
import { defaultDataDir } from './config.ts'
import { snapshotsOf } from './core/db-health.ts'
import { SCHEMA_VERSION } from './core/migrations.ts'
import { Connection } from './core/sqlite/connection.ts'
import { findHolder, lockDataFolder } from './data-folder.ts'

/** A file with a database, as it was found. */
export interface DatabaseFile {
  readonly file: string
  readonly status: 'ok' | 'damaged' | 'newer' | 'missing'
  /** What is wrong with it, twenty sentences at most. */
  readonly problems: readonly string[]
  readonly schemaVersion: number | null
  readonly bytes: number | null
  readonly modifiedAt: string | null
}

/** The database of a data folder and the copies that a panel can go back to, the newest first. */
export interface DatabaseCheck extends DatabaseFile {
  readonly running: boolean
  readonly copies: readonly DatabaseFile[]
}

/** What a restoration has done. */
export interface Restored {
  readonly file: string
  readonly from: string
  readonly schemaVersion: number
  /** Where the database is that was there before. */
  readonly replaced: string
}

/** Where a command looks: the usual data folder when none is named. */
interface Place {
  readonly dataDir: string | undefined
}

const PROBLEMS = 20

/** Reads the whole database and all copies through. Changes nothing, and may run beside a daemon. */
export async function checkDatabase({ dataDir }: Place): Promise<DatabaseCheck> {
  const folder = resolve(dataDir ?? defaultDataDir())
  const file = databaseIn(folder)
  const copies: DatabaseFile[] = []
  for (const name of await namesIn(snapshotsOf(file))) copies.push(await examine(join(snapshotsOf(file), name)))
  copies.sort((a, b) => (b.modifiedAt ?? '').localeCompare(a.modifiedAt ?? ''))
  return { ...(await examine(file)), running: (await findHolder(folder)) !== undefined, copies }
}

/**
 * Puts a copy in the place of the database of a panel that is stopped; the database that was there is kept beside it. A
 * kill in the midst of it leaves the one or the other.
 */
export async function restoreDatabase({ dataDir, copy }: Place & { readonly copy: string }): Promise<Restored> {
  const folder = resolve(dataDir ?? defaultDataDir())
  const file = databaseIn(folder)
  const from = await findCopy(copy, file)
  const lock = await lockDataFolder(folder, isoTime(systemClock.nowMs())).catch((error: unknown) => {
    throw error instanceof FolderInUse ? new PanelError('CONFLICT', error.message, { cause: error }) : error
  })
  try {
    const { status, problems, schemaVersion } = await examine(from)
    if (status !== 'ok' || schemaVersion === null || schemaVersion === 0) {
      const why = status === 'ok' ? 'it is not the database of a panel' : (problems[0] ?? status)
      throw new PanelError('VALIDATION_ERROR', `${from} cannot be restored: ${why}`)
    }
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
    const whole = `${file}.restoring`
    await rm(whole, { force: true })
    await copyWhole(from, whole)
    const replaced = await keepAside(file)
    // The log belongs to the database that goes: SQLite must not take it for that of the one that comes.
    for (const suffix of ['-wal', '-shm']) await rm(file + suffix, { force: true })
    await rename(whole, file)
    await sync(dirname(file))
    return { file, from, schemaVersion, replaced }
  } finally {
    await lock.release()
  }
}

function databaseIn(dataDir: string): string {
  return join(dataDir, 'db', 'panel.db')
}

/** A path, or the name of a copy among those that upgrades have made. */
async function findCopy(copy: string, file: string): Promise<string> {
  const places = copy === basename(copy) ? [join(snapshotsOf(file), copy), resolve(copy)] : [resolve(copy)]
  for (const place of places) if (await exists(place)) return place
  throw new PanelError('NOT_FOUND', `There is no copy ${copy}, neither here nor in ${snapshotsOf(file)}`)
}

async function examine(file: string): Promise<DatabaseFile> {
  if (!(await exists(file))) {
    const problems = [`there is no file ${file}`]
    return { file, status: 'missing', problems, schemaVersion: null, bytes: null, modifiedAt: null }
  }
  const { size: bytes, mtime } = await stat(file)
  const about = { file, bytes, modifiedAt: isoTime(mtime.getTime()) }
  try {
    const { problems, schemaVersion } = await readThrough(file)
    if (problems.length > 0) return { ...about, status: 'damaged', problems, schemaVersion }
    if (schemaVersion <= SCHEMA_VERSION) return { ...about, status: 'ok', problems: [], schemaVersion }
    const newer = `its schema version is ${schemaVersion}, this panel knows versions up to ${SCHEMA_VERSION}`
    return { ...about, status: 'newer', problems: [newer], schemaVersion }
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error)
    return { ...about, status: 'damaged', problems: [problem], schemaVersion: null }
  }
}

async function readThrough(file: string): Promise<{ problems: string[]; schemaVersion: number }> {
  const connection = await Connection.open(file, 'read')
  try {
    await connection.exec('PRAGMA busy_timeout = 5000')
    const found = await connection.all(`PRAGMA integrity_check(${PROBLEMS})`)
    const problems = found.map((row) => String(row['integrity_check'])).filter((text) => text !== 'ok')
    const [row] = await connection.all('PRAGMA user_version')
    return { problems, schemaVersion: Number(row?.['user_version']) }
  } finally {
    await connection.close()
  }
}

/** With what its log holds, when it has one. */
async function copyWhole(from: string, to: string): Promise<void> {
  await (await open(to, 'w', 0o600)).close()
  const connection = await Connection.open(from, 'read')
  try {
    await connection.run('VACUUM INTO ?', [to])
  } finally {
    await connection.close()
  }
  await sync(to)
}

/** Gives the present files a second name each, so that the database is never without a file while it is replaced. */
async function keepAside(file: string): Promise<string> {
  const folder = join(dirname(file), `replaced-${isoTime(systemClock.nowMs()).replace(/[:.]/g, '-')}`)
  await mkdir(folder, { mode: 0o700 })
  for (const suffix of ['', '-wal', '-shm']) {
    if (!(await exists(file + suffix))) continue
    const aside = join(folder, basename(file) + suffix)
    // Not every file system has second names.
    await link(file + suffix, aside).catch(() => copyFile(file + suffix, aside))
  }
  await sync(folder)
  return folder
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return (await readdir(folder)).filter((name) => name.endsWith('.db'))
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return []
    throw error
  }
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}

async function sync(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
