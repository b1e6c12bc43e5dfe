import { createReadStream } from 'node:fs'
import { chmod, lchown, mkdir, open, readFile, rename, rm } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { PanelError } from '../shared/kernel/errors.ts'
import { newIdSuffix } from '../shared/kernel/ids.ts'
import { isoTime, systemClock } from '../shared/kernel/time.ts'
import { FolderInUse } from '../shared/platform/folder-lock.ts'
import { defaultDataDir } from './config/config.ts'
import { newestFirst } from './core/newest-first.ts'
import { SCHEMA_VERSION } from './db/migrations.ts'
import { Connection } from './db/sqlite/connection.ts'
import { clearFolder, type Manifest, type Unpacked } from './features/operations/self-backups/archive.ts'
import { examineBackup, exists } from './features/operations/self-backups/backup-file.ts'
import { type BackupPlace, dateIn, folderPlace, objectPlace } from './features/operations/self-backups/places.ts'
import { fingerprintOf, openKey } from './features/operations/self-backups/sealed-key.ts'
import { createS3Store, type S3Place } from './object-store/s3-store.ts'
import { inDataFolder, lockDataFolder, makeDataFolder, ownerOf } from './start/data-folder.ts'

/** Which backup is meant. `name` is a file, or in a bucket the name of an archive or `latest`. */
export interface SelfBackupSource {
  readonly name: string
  readonly s3: S3Place | undefined
}

/** A backup of a panel as it was found. */
export interface ExaminedSelfBackup extends Omit<Manifest, 'format' | 'database'> {
  readonly name: string
  readonly bytes: number
  readonly sha256: string
  /** What is dated ahead of this machine's clock, which `latest` therefore is not. */
  readonly passedOver: readonly string[]
}

/** What a restoration has done. */
export interface RestoredPanel extends ExaminedSelfBackup {
  readonly dataDir: string
  /** The file with the credential key; `null`: it is not in the backup, or was not asked for. */
  readonly keyFile: string | null
}

const KEY_FILE = 'credential.key'
/** Why work that was under way when the backup was made does not go on. */
const INTERRUPTED = 'the panel was restored from a backup that was made while this was under way'

/** Reads a backup through without a panel: hashes, manifest, and the database in it. Fails with VALIDATION_ERROR for what is none. */
export async function examineSelfBackup({
  source,
  folder,
  signal,
}: {
  readonly source: SelfBackupSource
  readonly folder: string
  readonly signal: AbortSignal
}): Promise<ExaminedSelfBackup> {
  try {
    return await opened(source, folder, signal, async (chosen, unpacked) => described(chosen, unpacked))
  } finally {
    await clearFolder(folder)
  }
}

/**
 * Makes a panel of a backup in a data folder that has none: database, settings and, by its passphrase, the credential key. The folder
 * gets its database in the last step; a kill before leaves nothing that a daemon would start with, and it can be done again.
 */
export async function restorePanel(options: {
  readonly source: SelfBackupSource
  readonly dataDir: string | undefined
  /** Opens the credential key, where the backup has one. */
  readonly passphrase: string | undefined
  /** The credential key is left in the backup. */
  readonly withoutKey: boolean
  readonly signal: AbortSignal
}): Promise<RestoredPanel> {
  const { source, passphrase, withoutKey, signal } = options
  const dataDir = resolve(options.dataDir ?? defaultDataDir())
  await makeDataFolder(dataDir)
  const lock = await lockDataFolder(dataDir, isoTime(systemClock.nowMs())).catch((error: unknown) => {
    throw error instanceof FolderInUse ? new PanelError('CONFLICT', error.message, { cause: error }) : error
  })
  const work = join(dataDir, 'restoring')
  try {
    const database = join(dataDir, 'db', 'panel.db')
    if (await exists(database)) {
      const instead =
        'name an empty folder with --data-dir, or move it away; panel db restore replaces a database alone'
      throw new PanelError('CONFLICT', `There is a panel in ${dataDir} already: ${instead}`)
    }
    return await inDataFolder(dataDir, () =>
      opened(source, work, signal, async (chosen, unpacked) => {
        const { schemaVersion } = unpacked.manifest
        if (schemaVersion > SCHEMA_VERSION) {
          const known = `this panel knows versions up to ${SCHEMA_VERSION}; restore it with panel ${unpacked.manifest.panelVersion} or a newer one`
          throw new PanelError('VALIDATION_ERROR', `The schema version of this backup is ${schemaVersion}, ${known}`)
        }
        const key = withoutKey ? undefined : await keyOf(unpacked, passphrase)
        await beginAnew(unpacked.database)
        const owner = await ownerOf(dataDir)
        const keyFile = key === undefined ? null : join(dataDir, KEY_FILE)
        if (keyFile !== null && key !== undefined) await writeKey(keyFile, key, owner)
        await mkdir(dirname(database), { recursive: true, mode: 0o700 })
        await chmod(dirname(database), 0o700)
        if (owner !== undefined) {
          await lchown(dirname(database), owner.uid, owner.gid)
          await lchown(unpacked.database, owner.uid, owner.gid)
        }
        await sync(unpacked.database)
        // A log without its database would be taken for that of the one that comes.
        for (const suffix of ['-wal', '-shm']) await rm(database + suffix, { force: true })
        await rename(unpacked.database, database)
        await sync(dirname(database))
        return { ...described(chosen, unpacked), dataDir, keyFile }
      }),
    )
  } finally {
    await clearFolder(work).catch(() => undefined) // what has failed says why
    await lock.release()
  }
}

async function opened<T>(
  source: SelfBackupSource,
  folder: string,
  signal: AbortSignal,
  work: (chosen: Chosen, unpacked: Unpacked) => Promise<T>,
): Promise<T> {
  const store = source.s3 === undefined ? undefined : createS3Store(source.s3, systemClock)
  try {
    const path = resolve(source.name)
    const place = store === undefined ? folderPlace(dirname(path)) : objectPlace(() => store, source.s3?.bucket ?? '')
    const chosen =
      store === undefined ? { name: basename(path), passedOver: [] } : await chosenIn(place, source.name, signal)
    const content = store === undefined ? fileOf(path) : await place.read(chosen.name, null, signal)
    return await work(chosen, await examineBackup(content, folder, signal))
  } finally {
    await store?.close()
  }
}

function fileOf(path: string): AsyncIterable<Uint8Array> {
  return (async function* () {
    try {
      yield* createReadStream(path)
    } catch (cause) {
      const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
      if (code === 'ENOENT') throw new PanelError('NOT_FOUND', `There is no file ${path}`, { cause })
      if (code === 'EISDIR')
        throw new PanelError('VALIDATION_ERROR', `${path} is a folder: name the archive in it`, { cause })
      throw cause
    }
  })()
}

/** An archive in a bucket, with what would be the latest by its name alone. */
type Chosen = Pick<ExaminedSelfBackup, 'name' | 'passedOver'>

/**
 * The archive of this name, or the newest one; a refusal names what there is. What a clock has dated that was ahead is the newest only where
 * there is no other: nobody knows whether it was made before the others or after them.
 */
async function chosenIn(place: BackupPlace, name: string, signal: AbortSignal): Promise<Chosen> {
  const names = await place.names(signal)
  const dated = names.toReversed().map((one) => ({ name: one, createdAt: dateIn(one) }))
  const latest = newestFirst(dated, systemClock.nowMs())[0]?.name
  const found = name === 'latest' ? latest : names.find((one) => one === name)
  if (found !== undefined) {
    return { name: found, passedOver: name === 'latest' ? names.slice(names.indexOf(found) + 1).toReversed() : [] }
  }
  const there = names.length === 0 ? 'none of a panel' : `these: ${names.slice(-10).toReversed().join(', ')}`
  throw new PanelError('NOT_FOUND', `There is no backup ${name} at ${place.address('')}; there are ${there}`)
}

function described({ name, passedOver }: Chosen, { manifest, bytes, sha256 }: Unpacked): ExaminedSelfBackup {
  const { format: _, database: __, ...rest } = manifest
  return { name, ...rest, bytes, sha256, passedOver }
}

async function keyOf({ key, manifest }: Unpacked, passphrase: string | undefined): Promise<string | undefined> {
  if (key === undefined) return undefined
  if (passphrase === undefined) {
    const what = 'The credential key is in this backup: give its passphrase (--passphrase-file, --passphrase-stdin)'
    throw new PanelError('VALIDATION_ERROR', `${what}, or --without-key`)
  }
  const credentialKey = await openKey(passphrase, key)
  if (fingerprintOf(credentialKey) === manifest.keyFingerprint) return credentialKey
  throw new PanelError('VALIDATION_ERROR', 'The credential key in this backup is not that of its database')
}

/** A key that is there already is never replaced: something else may be sealed by it. */
async function writeKey(file: string, key: string, owner: Awaited<ReturnType<typeof ownerOf>>): Promise<void> {
  const there = await readFile(file, 'utf8').catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  })
  if (there?.trim() === key) return
  if (there !== undefined) {
    throw new PanelError('CONFLICT', `${file} holds another credential key; move it away, or leave the passphrase out`)
  }
  const handle = await open(file, 'wx', 0o600)
  try {
    if (owner !== undefined) await handle.chown(owner.uid, owner.gid)
    await handle.writeFile(`${key}\n`)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/**
 * What was so at the time of the backup and must not be taken for the present: work that people had begun does not go on by itself,
 * and markers of events name another installation, so that no client takes new events for ones that it has seen.
 */
async function beginAnew(file: string): Promise<void> {
  const connection = await Connection.open(file, 'existing')
  const nowText = isoTime(systemClock.nowMs())
  try {
    await connection.exec('BEGIN IMMEDIATE')
    const epoch = JSON.stringify(newIdSuffix(systemClock))
    await connection.run("UPDATE setting SET value = ? WHERE key = 'install.epoch'", [epoch])
    // The engine ends them as cancelled at its start, with all that belongs to that.
    await connection.run(
      "UPDATE job SET status = 'queued', requested = 'cancel', due_at = ?, error = ? WHERE ended_at IS NULL AND background = 0",
      [nowText, INTERRUPTED],
    )
    await connection.exec('COMMIT')
  } finally {
    await connection.close()
  }
}

async function sync(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
