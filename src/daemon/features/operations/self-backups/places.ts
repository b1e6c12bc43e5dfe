import { createReadStream } from 'node:fs'
import { copyFile, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import { readBytes, storeBytes } from '../../../object-store/bytes-in-store.ts'
import type { ObjectStore } from '../../../object-store/object-store.ts'
import type { ObjectStores } from '../stores/object-stores.ts'
import { type StoreRow, settingsOf } from '../stores/rows.ts'

/** Where backups of the panel lie in one store. `name` is that of an archive, as {@link BACKUP_NAME} has it. */
export interface BackupPlace {
  /** How a person finds an archive there without the panel: a path, or bucket and key. */
  address(name: string): string
  /** Takes over a file, which is gone from its place afterwards; nothing has the name before all of it is there. */
  take(name: string, file: { readonly path: string; readonly bytes: number }, watch: Watch): Promise<void>
  /** The bytes, or a range of them; NOT_FOUND, or BACKUP_STORE_FAILED, where there are none. */
  read(
    name: string,
    range: { readonly offset: number; readonly length: number } | null,
    signal?: AbortSignal,
  ): Promise<AsyncIterable<Uint8Array>>
  /** Names of what lies there, the newest last. */
  names(signal?: AbortSignal): Promise<string[]>
  /** What is not there is no failure. Removes what a `take` that was cut off has left, too. */
  remove(name: string, signal?: AbortSignal): Promise<void>
}

/** How work with bytes is watched. */
export interface Watch {
  readonly signal: AbortSignal
  readonly progress: (bytes: number) => void
}

/** `panel-<time>-<end of the id>.tar.gz`: sorted by name they are sorted by time. */
export const BACKUP_NAME = /^panel-\d{8}T\d{6}Z-[0-9a-z]{8}\.tar\.gz$/
/** What the keys of an object store begin with, below its prefix. */
const KEYS = 'self/'
const PART = '.part'

/** The name of a backup that was begun then. */
export function nameOf(id: string, createdAt: string): string {
  return `panel-${createdAt.replace(/[:-]|\.\d+/g, '')}-${id.slice(-8)}.tar.gz`
}

/** When the backup of this name was begun, by the clock of its panel; what is no time is after all times. */
export function dateIn(name: string): IsoTime {
  const at = (from: number, length = 2): string => name.slice(from, from + length)
  const text = `${at(6, 4)}-${at(10)}-${at(12)}T${at(15)}:${at(17)}:${at(19)}.000Z`
  return (Number.isNaN(Date.parse(text)) ? '9999-12-31T23:59:59.999Z' : text) as IsoTime // as BACKUP_NAME has it
}

/** The place of a store: for a folder, one of the daemon's own below `backupDir`. */
export function placeIn(
  store: StoreRow,
  deps: { readonly stores: ObjectStores; readonly backupDir: string },
): BackupPlace {
  const settings = settingsOf(store)
  if (settings.kind === 'local') return folderPlace(join(deps.backupDir, store.id))
  const { endpoint, bucket, prefix } = settings
  return objectPlace(() => deps.stores.of(store), [endpoint, bucket, prefix].filter((part) => part !== '').join('/'))
}

/** A folder of this machine. */
export function folderPlace(folder: string): BackupPlace {
  return {
    address: (name) => join(folder, name),
    take: async (name, file, { signal, progress }) => {
      signal.throwIfAborted()
      await mkdir(folder, { recursive: true, mode: 0o700 })
      const [target, part] = [join(folder, name), join(folder, name + PART)]
      await rm(part, { force: true })
      await rename(file.path, part).catch(async (error: unknown) => {
        if (!isCode(error, 'EXDEV')) throw error
        await copyFile(file.path, part) // the folder is on another disk
        await rm(file.path)
      })
      await sync(part)
      await rename(part, target)
      await sync(folder)
      progress(file.bytes)
    },
    read: async (name, range) => {
      const path = join(folder, name)
      await stat(path).catch((cause: unknown) => {
        if (!isCode(cause, 'ENOENT')) throw cause
        throw new PanelError('NOT_FOUND', `There is no ${path} any more`, { cause })
      })
      return createReadStream(path, range === null ? {} : { start: range.offset, end: range.offset + range.length - 1 })
    },
    names: async () => {
      const all = await readdir(folder).catch((error: unknown) => {
        if (isCode(error, 'ENOENT')) return []
        throw error
      })
      return all.filter((name) => BACKUP_NAME.test(name)).sort()
    },
    remove: async (name) => {
      for (const end of ['', PART]) await rm(join(folder, name + end), { force: true })
    },
  }
}

/** A bucket; `opened` may fail, which then is the failure of what is asked of the place. */
export function objectPlace(opened: () => ObjectStore, address: string): BackupPlace {
  return {
    address: (name) => `${address}/${KEYS}${name}`,
    take: async (name, { path, bytes }, watch) => {
      const store = opened()
      await storeBytes(
        store,
        KEYS + name,
        { bytes, content: createReadStream(path, { highWaterMark: 1 << 20 }) },
        watch,
      )
      await rm(path)
    },
    read: async (name, range, signal) =>
      range === null
        ? readBytes(opened(), KEYS + name, signal)
        : (await opened().get(KEYS + name, range, signal)).content,
    names: async (signal) => {
      const found: string[] = []
      for (let after: string | null = null; ; ) {
        const { objects, next } = await opened().list({ prefix: KEYS, after }, signal)
        found.push(...objects.map(({ key }) => key.slice(KEYS.length)))
        if (next === null) return found.filter((name) => BACKUP_NAME.test(name)).sort()
        after = next
      }
    },
    remove: async (name, signal) => {
      const store = opened()
      const left = await store.unfinished(KEYS + name, signal)
      for (const { key, uploadId } of left) await store.abort({ key, uploadId }, signal)
      await store.delete([KEYS + name], signal)
    },
  }
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}

async function sync(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
