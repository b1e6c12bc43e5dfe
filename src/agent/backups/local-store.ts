import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { access, lstat, mkdir, open, readdir, rename, rm, rmdir, statfs } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { collectAfter } from '../../shared/platform/collect.ts'
import { AgentFailure } from '../failure.ts'
import { codeOf } from '../files/folder-handle.ts'
import { cancelled } from '../files/list.ts'
import { errorText } from '../logger.ts'
import { syncFolder } from '../state/atomic-file.ts'
import { type ByteRange, damaged, noObject, OBJECT_KEY, type ObjectStore, type StoredObject } from './store.ts'

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
const PIECE_BYTES = 256 * 1024
/** Names of what is being written; no key begins with a dot. */
const PART = '.part-'

/** A folder of this machine, which nobody but the agent writes to. It is made at the first write. */
export class LocalStore implements ObjectStore {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  async write(key: string, content: AsyncIterable<Buffer>, signal: AbortSignal): Promise<number> {
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
      throw failureOf(error, 'written')
    }
  }

  async *read(key: string, { offset, length, reuses = false }: ByteRange, signal: AbortSignal): AsyncGenerator<Buffer> {
    const file = await open(this.#pathOf(key), O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch((error: unknown) => {
      const code = codeOf(error)
      if (code === 'ENOENT' || code === 'ENOTDIR') throw noObject(key)
      throw code === 'ELOOP' || code === 'ENXIO' ? damaged(`${key} is no file`) : failureOf(error, 'read')
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
          throw failureOf(error, 'read')
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
    try {
      const facts = await lstat(this.#pathOf(key))
      return facts.isFile() ? facts.size : undefined
    } catch (error) {
      if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return undefined
      throw failureOf(error, 'read')
    }
  }

  async *list(prefix: string): AsyncGenerator<StoredObject> {
    const cut = prefix.lastIndexOf('/') + 1
    yield* this.#below(prefix.slice(0, cut), prefix.slice(cut))
  }

  async remove(keys: readonly string[]): Promise<void> {
    for (const key of keys) {
      const path = this.#pathOf(key)
      try {
        await rm(path, { force: true })
      } catch (error) {
        throw failureOf(error, 'removed')
      }
      await this.#removeEmpty(dirname(path))
    }
  }

  async sweep(): Promise<void> {
    const all = await readdir(this.#folder, { recursive: true, withFileTypes: true }).catch((error: unknown) => {
      if (codeOf(error) === 'ENOENT') return []
      throw failureOf(error, 'read')
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
    for (let folder = this.#folder; ; folder = dirname(folder)) {
      try {
        const { bavail, bsize } = await statfs(folder)
        return bavail * bsize
      } catch (error) {
        if (codeOf(error) !== 'ENOENT' || folder === dirname(folder)) throw failureOf(error, 'read')
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
      throw failureOf(error, 'read')
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

function failureOf(error: unknown, done: string): unknown {
  if (error instanceof AgentFailure) return error
  const code = codeOf(error)
  if (code === undefined) return error
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    const message = 'The disk of the node that the backups lie on is full: free some of it, or delete backups'
    return new AgentFailure('NO_SPACE', message, { cause: error })
  }
  // Where it lies on the node is for whoever runs that.
  const [why] = errorText(error).split(', ')
  const message = `The folder of the backups on this node cannot be ${done} (${why}): whoever runs the node must look after it, or another store be used`
  return new AgentFailure('STORE_FAILED', message, { cause: error })
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
