import { access, copyFile, lchown, link, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { PanelError } from '../shared/kernel/errors.ts'
import { isoTime, systemClock } from '../shared/kernel/time.ts'
import { FolderInUse } from '../shared/platform/folder-lock.ts'
import { defaultDataDir } from './config/config.ts'
import { snapshotsOf } from './db/db-health.ts'
import { SCHEMA_VERSION } from './db/migrations.ts'
import { Connection } from './db/sqlite/connection.ts'
import { findHolder, inDataFolder, lockDataFolder, ownerOf, UnusableDataFolder } from './start/data-folder.ts'

/** A file with a database, as it was found. */
export interface DatabaseFile {
  readonly file: string
  /** `foreign`: sound, and not the database of a panel. */
  readonly status: 'ok' | 'damaged' | 'foreign' | 'newer' | 'missing'
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
  if (!(await exists(dirname(file)))) throw noDataFolder(folder)
  const from = await findCopy(copy, file)
  const lock = await lockDataFolder(folder, isoTime(systemClock.nowMs())).catch((error: unknown) => {
    throw error instanceof FolderInUse ? new PanelError('CONFLICT', error.message, { cause: error }) : error
  })
  try {
    const { status, problems, schemaVersion } = await examine(from)
    if (status !== 'ok' || schemaVersion === null || schemaVersion === 0) {
      const why = status === 'ok' ? FOREIGN : (problems[0] ?? status)
      throw new PanelError('VALIDATION_ERROR', `${from} cannot be restored: ${why}`)
    }
    const replaced = await inDataFolder(folder, () => replace(file, from, folder))
    return { file, from, schemaVersion, replaced }
  } finally {
    await lock.release()
  }
}

async function replace(file: string, from: string, dataDir: string): Promise<string> {
  const owner = await ownerOf(dataDir)
  const whole = `${file}.restoring`
  await rm(whole, { force: true })
  await copyWhole(from, whole, owner)
  const replaced = await keepAside(file, owner)
  // The log belongs to the database that goes: SQLite must not take it for that of the one that comes.
  for (const suffix of ['-wal', '-shm']) await rm(file + suffix, { force: true })
  await rename(whole, file)
  await sync(dirname(file))
  return replaced
}

type Owner = Awaited<ReturnType<typeof ownerOf>>

/** A mistyped folder must not become a panel's. */
function noDataFolder(folder: string): UnusableDataFolder {
  const whole = join(folder, 'db')
  return new UnusableDataFolder(
    `${folder} is no data folder of a panel: there is no ${whole}. Name the panel's with --data-dir; on a new machine ` +
      `make it first, as the user who runs the panel: mkdir -p -m 700 ${whole}`,
  )
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
  const found = await stat(file)
  const about = { file, bytes: found.size, modifiedAt: isoTime(found.mtime.getTime()) }
  const damaged = (problem: string): DatabaseFile => ({
    ...about,
    ...{ status: 'damaged', problems: [problem], schemaVersion: null },
  })
  // SQLite calls a folder an error of the disk, and a pipe would keep it waiting.
  if (!found.isFile()) return damaged(`it is a ${found.isDirectory() ? 'folder' : 'device or pipe'}, not a file`)
  try {
    if (!(await isDatabase(file))) return damaged('it is no SQLite database')
    const { problems, schemaVersion, isOurs } = await readThrough(file)
    if (problems.length > 0) return { ...about, status: 'damaged', problems, schemaVersion }
    if (schemaVersion > SCHEMA_VERSION) {
      const newer = `its schema version is ${schemaVersion}, this panel knows versions up to ${SCHEMA_VERSION}`
      return { ...about, status: 'newer', problems: [newer], schemaVersion }
    }
    if (!isOurs) return { ...about, status: 'foreign', problems: [FOREIGN], schemaVersion }
    return { ...about, status: 'ok', problems: [], schemaVersion }
  } catch (error) {
    return damaged(error instanceof Error ? error.message : String(error))
  }
}

const FOREIGN = 'it is not the database of a panel'

/** Tables that every version has. */
const OURS = ['user', 'role', 'session', 'node', 'template', 'server', 'allocation', 'command', 'audit_log', 'setting']

/** Whether the file begins as SQLite's do; one that was just made is empty. */
async function isDatabase(file: string): Promise<boolean> {
  const handle = await open(file, 'r')
  try {
    const head = Buffer.alloc(HEAD.length)
    const { bytesRead } = await handle.read(head, 0, head.length, 0)
    return bytesRead === 0 || head.equals(HEAD)
  } finally {
    await handle.close()
  }
}

const HEAD = Buffer.from('SQLite format 3\0')

async function readThrough(file: string): Promise<{ problems: string[]; schemaVersion: number; isOurs: boolean }> {
  const connection = await Connection.open(file, 'read')
  try {
    await connection.exec('PRAGMA busy_timeout = 5000')
    const found = await connection.all(`PRAGMA integrity_check(${PROBLEMS})`)
    const problems = found.map((row) => String(row['integrity_check'])).filter((text) => text !== 'ok')
    const [row] = await connection.all('PRAGMA user_version')
    const schemaVersion = Number(row?.['user_version'])
    const rows = await connection.all("SELECT name FROM sqlite_schema WHERE type = 'table'")
    const tables = rows.map(({ name }) => String(name))
    // A daemon that was killed at its first start leaves one without anything.
    const isFresh = schemaVersion === 0 && tables.length === 0
    return { problems, schemaVersion, isOurs: isFresh || OURS.every((name) => tables.includes(name)) }
  } finally {
    await connection.close()
  }
}

/** With what its log holds, when it has one. */
async function copyWhole(from: string, to: string, owner: Owner): Promise<void> {
  const file = await open(to, 'wx', 0o600)
  try {
    if (owner !== undefined) await file.chown(owner.uid, owner.gid)
  } finally {
    await file.close()
  }
  const connection = await Connection.open(from, 'read')
  try {
    await connection.run('VACUUM INTO ?', [to])
  } finally {
    await connection.close()
  }
  await sync(to)
}

/** Gives the present files a second name each, so that the database is never without a file while it is replaced. */
async function keepAside(file: string, owner: Owner): Promise<string> {
  const folder = join(dirname(file), `replaced-${isoTime(systemClock.nowMs()).replace(/[:.]/g, '-')}`)
  await mkdir(folder, { mode: 0o700 })
  if (owner !== undefined) await lchown(folder, owner.uid, owner.gid)
  for (const suffix of ['', '-wal', '-shm']) {
    if (!(await exists(file + suffix))) continue
    const aside = join(folder, basename(file) + suffix)
    // Not every file system has second names.
    await link(file + suffix, aside).catch(async () => {
      await copyFile(file + suffix, aside)
      if (owner !== undefined) await lchown(aside, owner.uid, owner.gid)
    })
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
