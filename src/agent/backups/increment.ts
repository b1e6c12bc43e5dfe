import { createHash } from 'node:crypto'
import type { Stats } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { commonOf, NOTHING } from './archive-backup.ts'
import { Chunker } from './chunker.ts'
import type { PackedFiles, PackOptions } from './create.ts'
import { type BackupHead, bytesOf, entriesOf, inWalkOrder, type ListEntry, readHead, writeEntry } from './manifest.ts'
import { hashesOf, PackWriter, Repository } from './repository.ts'
import { scan } from './scan.ts'
import type { ObjectStore } from './store.ts'

/** A file that was changed so shortly before a backup began may change again without its times saying so. */
const DOUBT_MS = 1000
const HEAD = /^backups\/([A-Za-z0-9_-]{1,64})\/backup\.json$/

/** Packs a server's folder as pieces, of which only those are stored that the store does not have. */
export async function packIncrement(root: string, options: PackOptions): Promise<PackedFiles> {
  const { store, signal, problems, ignored, whole, list, progress, workFolder, key } = options
  const repository = await Repository.open(store, signal)
  const before = new Before(store, await newestIncrement(store, signal), repository, signal)
  const writer = await PackWriter.open({ store, repository, key, workFolder, signal, spend: options.spend })
  const chunker = new Chunker()
  const done = { entries: 0, bytes: 0 }
  const report = (): void => progress({ ...done, totalBytes: null })
  /** The pieces of one file, and the hash of all of it. */
  const cut = async (content: AsyncIterable<Buffer>, count: boolean): Promise<{ chunks: Buffer; sha256: string }> => {
    const hash = createHash('sha256')
    const hashes: Buffer[] = []
    const take = async (chunk: Buffer): Promise<void> => {
      hashes.push(await writer.add(chunk))
    }
    for await (const piece of content) {
      hash.update(piece)
      await chunker.write(piece, take)
      if (!count) continue
      done.bytes += piece.length
      report()
    }
    await chunker.end(take)
    return { chunks: Buffer.concat(hashes), sha256: hash.digest('hex') }
  }
  const add = async (entry: ListEntry): Promise<void> => {
    await writeEntry(list, entry)
    done.entries++
    report()
  }
  try {
    const extras: { name: string; size: number }[] = []
    for (const { name, fetch } of options.extras) {
      const path = join(workFolder, 'extra')
      await fetch(path)
      const { size } = await stat(path)
      const common = { path: Buffer.from(name), mode: 0o600, modifiedMs: options.nowMs() }
      await writeEntry(list, { ...NOTHING, ...common, kind: 'extra', size, ...(await cut(bytesOf(path), false)) })
      extras.push({ name, size })
    }
    await scan(
      root,
      {
        folder: async (path, facts) => await add({ ...NOTHING, ...commonOf(path, facts), kind: 'folder' }),
        link: async (path, target, facts) => await add({ ...NOTHING, ...commonOf(path, facts), kind: 'link', target }),
        known: async (path, facts) => {
          const known = await before.unchanged(path, facts)
          if (known === undefined) return false
          done.bytes += known.size
          await add({ ...known, ...commonOf(path, facts) })
          return true
        },
        file: async (path, { facts, content }) => {
          const pieces = await cut(content(), true)
          const { size, ino: inode, ctimeMs: changedMs } = facts
          await add({ ...NOTHING, ...commonOf(path, facts), kind: 'file', size, inode, changedMs, ...pieces })
        },
      },
      { ignored, whole, problems, signal },
    )
    await writer.end()
    await repository.refuseLost(store, writer.written)
    return { ...done, extras }
  } finally {
    await before.close()
    await writer.close()
  }
}

/** The last backup of this kind that can be read. */
async function newestIncrement(store: ObjectStore, signal: AbortSignal): Promise<BackupHead | undefined> {
  let newest: BackupHead | undefined
  for await (const { key } of store.list('backups/')) {
    const id = HEAD.exec(key)?.[1]
    if (id === undefined) continue
    const head = await readHead(store, id, signal).catch(() => undefined) // a damaged one says nothing about what has changed
    if (head?.kind === 'incremental' && head.createdMs > (newest?.createdMs ?? Number.NEGATIVE_INFINITY)) newest = head
  }
  return newest
}

/** The backup before this one, read alongside the walk: both are in the same order. */
class Before {
  readonly #entries: AsyncGenerator<ListEntry> | undefined
  readonly #repository: Repository
  readonly #startedMs: number
  #next: ListEntry | undefined
  #isBegun = false

  constructor(store: ObjectStore, head: BackupHead | undefined, repository: Repository, signal: AbortSignal) {
    this.#entries = head === undefined ? undefined : entriesOf(store, head, signal)
    this.#startedMs = head?.startedMs ?? 0
    this.#repository = repository
  }

  /** What the list before has of a file, when nothing of it has changed since and all of its pieces are there. */
  async unchanged(path: Buffer, facts: Stats): Promise<ListEntry | undefined> {
    const place = { path: path.toString('latin1'), isFolder: false }
    if (!this.#isBegun) await this.#step()
    this.#isBegun = true
    while (this.#next !== undefined) {
      const { kind } = this.#next
      const found = { path: this.#next.path.toString('latin1'), isFolder: kind === 'folder' }
      const order = kind === 'extra' ? -1 : inWalkOrder(found, place)
      if (order > 0) return undefined
      const entry = this.#next
      if (order === 0) return this.#isSame(entry, facts) ? entry : undefined
      await this.#step()
    }
    return undefined
  }

  async close(): Promise<void> {
    await this.#entries?.return(undefined)
  }

  async #step(): Promise<void> {
    try {
      const { done, value } = (await this.#entries?.next()) ?? { done: true, value: undefined }
      this.#next = done === true ? undefined : value
    } catch {
      this.#next = undefined // its list is damaged: what follows is read anew
    }
  }

  #isSame(entry: ListEntry, { size, ino, ctimeMs, mtimeMs }: Stats): boolean {
    const isSame =
      entry.kind === 'file' &&
      entry.size === size &&
      entry.inode === ino &&
      entry.changedMs === ctimeMs &&
      entry.modifiedMs === commonOf(entry.path, { mode: 0, mtimeMs }).modifiedMs &&
      ctimeMs < this.#startedMs - DOUBT_MS
    if (!isSame) return false
    for (const hash of hashesOf(entry.chunks)) if (!this.#repository.reuses(hash)) return false
    return true
  }
}
