import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { access, lstat, mkdir, open, readdir, rename, rm, rmdir, statfs } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { collectAfter } from '../../shared/platform/collect.ts'
import { AgentFailure } from '../failure.ts'
import { codeOf } from '../files/folder-handle.ts'
import { cancelled } from '../files/list.ts'
import { syncFolder } from '../state/atomic-file.ts'
import { folderFailure } from './folder-failure.ts'
import { type ByteRange, damaged, noObject, OBJECT_KEY, type ObjectStore, type StoredObject } from './store.ts'

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
const PIECE_BYTES = 256 * 1024
/** Names of what is being written; no key begins with a dot. */
const PART = '.part-'

/** A folder of this machine, which nobody but the agent writes to. It is made at the first write. */
export class LocalStore implements ObjectStore {
  readonly #folder: string
  readonly #ready: () => Promise<void>

  /** `ready` is asked before each call, and fails while the folder is not to be used. */
  constructor(folder: string, ready: () => Promise<void>) {
    this.#folder = folder
    this.#ready = ready
  }

  async write(key: string, content: AsyncIterable<Buffer>, signal: AbortSignal): Promise<number> {
    await this.#ready()
    const path = this.#pathOf(key)
    const folder = dirname(path)
    const part = join(folder, `${PART}${randomBytes(8).toString('hex')}`)
    let bytes = 0
    try {
      await makeFolder(folder)
      const file = await open(part, 'wx', 0o600)
      try {
        for await (const piece of content) {
          if (signal.aborted) throw cancelled()
          for (let done = 0; done < piece.length; ) {
            done += (await file.write(piece, done, piece.length - done, bytes + done)).bytesWritten
          }
          bytes += piece.length
        }
        await file.sync()
      } finally {
        await file.close()
      }
      await rename(part, path)
      await syncFolder(folder)
      return bytes
    } catch (error) {
      await rm(part, { force: true })
      throw folderFailure(error, 'written')
    }
  }

  async *read(key: string, { offset, length, reuses = false }: ByteRange, signal: AbortSignal): AsyncGenerator<Buffer> {
    await this.#ready()
    const file = await open(this.#pathOf(key), O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch((error: unknown) => {
      const code = codeOf(error)
      if (code === 'ENOENT' || code === 'ENOTDIR') throw noObject(key)
      throw code === 'ELOOP' || code === 'ENXIO' ? damaged(`${key} is no file`) : folderFailure(error, 'read')
    })
    try {
      if (!(await file.stat()).isFile()) throw damaged(`${key} is no file`)
      const end = length === undefined ? Number.MAX_SAFE_INTEGER : offset + length
      const memory = reuses ? Buffer.allocUnsafeSlow(PIECE_BYTES) : undefined
      for (let at = offset; at < end; ) {
        if (signal.aborted) throw cancelled()
        const count = Math.min(PIECE_BYTES, end - at)
        const piece = memory ?? Buffer.allocUnsafe(count)
        const { bytesRead } = await file.read(piece, 0, count, at).catch((error: unknown) => {
          throw folderFailure(error, 'read')
        })
        if (bytesRead === 0) return
        at += bytesRead
        yield piece.subarray(0, bytesRead)
        if (!reuses) collectAfter(count)
      }
    } finally {
      await file.close()
    }
  }

  async size(key: string): Promise<number | undefined> {
    await this.#ready()
    try {
      const facts = await lstat(this.#pathOf(key))
      return facts.isFile() ? facts.size : undefined
    } catch (error) {
      if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return undefined
      throw folderFailure(error, 'read')
    }
  }

  async *list(prefix: string): AsyncGenerator<StoredObject> {
    await this.#ready()
    const cut = prefix.lastIndexOf('/') + 1
    yield* this.#below(prefix.slice(0, cut), prefix.slice(cut))
  }

  async remove(keys: readonly string[]): Promise<void> {
    await this.#ready()
    for (const key of keys) {
      const path = this.#pathOf(key)
      try {
        await rm(path, { force: true })
      } catch (error) {
        throw folderFailure(error, 'removed')
      }
      await this.#removeEmpty(dirname(path))
    }
  }

  async sweep(): Promise<void> {
    await this.#ready()
    const all = await readdir(this.#folder, { recursive: true, withFileTypes: true }).catch((error: unknown) => {
      if (codeOf(error) === 'ENOENT') return []
      throw folderFailure(error, 'read')
    })
    const folders = [this.#folder]
    for (const entry of all) {
      const path = join(entry.parentPath, entry.name)
      if (entry.name.startsWith(PART)) await rm(path, { force: true })
      else if (entry.isDirectory()) folders.push(path)
    }
    // The longest first: what lies in a folder goes before it.
    for (const folder of folders.sort((a, b) => b.length - a.length)) await this.#removeEmpty(folder)
  }

  async freeBytes(): Promise<number> {
    await this.#ready()
    for (let folder = this.#folder; ; folder = dirname(folder)) {
      try {
        const { bavail, bsize } = await statfs(folder)
        return bavail * bsize
      } catch (error) {
        if (codeOf(error) !== 'ENOENT' || folder === dirname(folder)) throw folderFailure(error, 'read')
      }
    }
  }

  /** Folders that hold nothing any more say nothing either. */
  async #removeEmpty(from: string): Promise<void> {
    for (let folder = from; ; folder = dirname(folder)) {
      const isGone = await rmdir(folder).then(
        () => true,
        () => false, // something is in it
      )
      if (!isGone || folder === this.#folder) break
    }
  }

  async *#below(folder: string, begin: string): AsyncGenerator<StoredObject> {
    const entries = await readdir(join(this.#folder, folder), { withFileTypes: true }).catch((error: unknown) => {
      if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return []
      throw folderFailure(error, 'read')
    })
    for (const entry of entries) {
      const key = `${folder}${entry.name}`
      if (!entry.name.startsWith(begin) || !OBJECT_KEY.test(key)) continue
      if (entry.isDirectory()) yield* this.#below(`${key}/`, '')
      else if (entry.isFile()) {
        const bytes = await this.size(key)
        if (bytes !== undefined) yield { key, bytes }
      }
    }
  }

  #pathOf(key: string): string {
    if (!OBJECT_KEY.test(key)) throw new AgentFailure('INTERNAL', `${key.slice(0, 200)} is no key of an object`)
    return join(this.#folder, ...key.split('/'))
  }
}

async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 })
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error
    // Of a file system that is read-only Node says that a folder is not there.
    for (let above = dirname(folder); above !== dirname(above); above = dirname(above)) {
      await access(above, constants.W_OK).catch((why: unknown) => {
        if (codeOf(why) !== 'ENOENT') throw why
      })
    }
    throw error
  }
}
