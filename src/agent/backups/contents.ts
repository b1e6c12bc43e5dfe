import { createHash } from 'node:crypto'
import { collectAfter } from '../../shared/platform/collect.ts'
import type { BackupKind } from '../../shared/protocol/backups.ts'
import { AgentFailure } from '../failure.ts'
import { decompress } from '../files/archive/compression.ts'
import type { ArchiveEntry } from '../files/archive/tar-read.ts'
import { TAR_END, tarHeader, tarPadding } from '../files/archive/tar-write.ts'
import { EXTRAS } from './archive-backup.ts'
import { archiveKey, type BackupHead, entriesOf, type ListEntry, readHead, readList } from './manifest.ts'
import type { Member } from './member-writer.ts'
import { hashesOf, opened, PackReader, Repository } from './repository.ts'
import { damaged, type ObjectStore } from './store.ts'

/** A gap that is read over: a further request takes longer. */
const GAP_BYTES = 4 * 1024 * 1024
/** More than any archive has that an agent has made. */
const MOST_MEMBERS = 4 * 1024 * 1024
const SLASH = Buffer.from('/')

/** The bytes of the files of one backup. Files are asked for one after the other, best in their order. */
export interface FileBytes {
  /** Throws CHECKSUM for bytes that are not those that were stored. */
  of(entry: ListEntry): AsyncIterable<Buffer>
  close(): Promise<void>
}

/** A backup as it lies in a store. */
export interface Backup {
  readonly store: ObjectStore
  readonly head: BackupHead
  readonly signal: AbortSignal
}

/** Opens a backup; throws NOT_FOUND when the store does not have it. */
export async function openBackup(
  store: ObjectStore,
  { backupId, kind }: { readonly backupId: string; readonly kind: BackupKind },
  signal: AbortSignal,
): Promise<Backup> {
  const head = await readHead(store, backupId, signal)
  if (head?.kind === kind) return { store, head, signal }
  throw new AgentFailure('NOT_FOUND', `The store does not have the backup ${backupId}`)
}

/** Opens what the files of a backup are read from. `reuses`: the memory of a piece is used again for the next one where that can be. */
export async function openBytes(backup: Backup, { reuses }: { readonly reuses: boolean }): Promise<FileBytes> {
  const source = backup.head.kind === 'archive' ? await openArchive(backup, reuses) : await openPieces(backup)
  return {
    of: (entry) => checked(entry, source.of(entry)),
    close: () => source.close(),
  }
}

/** All that a backup has of a server, or what `wants` of it: as entries of an archive, so that all that unpacks one can take them. */
export async function* asArchive(
  { store, head, signal }: Backup,
  bytes: FileBytes,
  wants: (entry: ListEntry) => boolean,
): AsyncGenerator<ArchiveEntry> {
  for await (const entry of entriesOf(store, head, signal)) {
    if (entry.kind === 'extra' || !wants(entry)) continue
    yield {
      name: entry.path,
      kind: entry.kind,
      target: entry.target ?? Buffer.alloc(0),
      size: entry.size,
      mode: entry.mode,
      modifiedMs: entry.modifiedMs,
      content: bytes.of(entry),
    }
  }
}

/** The same as a tar. `withExtras`: what lies beside the server's files comes first, in a folder of its own. */
export async function* asTar(
  backup: Backup,
  bytes: FileBytes,
  { wants, withExtras }: { readonly wants: (entry: ListEntry) => boolean; readonly withExtras: boolean },
): AsyncGenerator<Buffer> {
  const { store, head, signal } = backup
  for await (const entry of entriesOf(store, head, signal)) {
    const { kind, mode, modifiedMs } = entry
    if (kind === 'extra' ? !withExtras : !wants(entry)) continue
    const path = kind === 'extra' ? Buffer.concat([Buffer.from(`${EXTRAS}/`), entry.path]) : entry.path
    const common = { mode, modifiedMs, size: 0 }
    if (kind === 'folder') yield tarHeader({ ...common, name: Buffer.concat([path, SLASH]), type: 'folder' })
    else if (kind === 'link') {
      yield tarHeader({ ...common, name: path, type: 'link', target: entry.target ?? Buffer.alloc(0) })
    } else {
      yield tarHeader({ ...common, name: path, type: 'file', size: entry.size })
      yield* bytes.of(entry)
      yield tarPadding(entry.size)
    }
  }
  yield TAR_END
}

/** Lets through what has the size and the hash that the list says. */
async function* checked(entry: ListEntry, content: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const hash = createHash('sha256')
  let bytes = 0
  for await (const piece of content) {
    hash.update(piece)
    bytes += piece.length
    if (bytes > entry.size) break
    yield piece
    collectAfter(piece.length)
  }
  const isSame = bytes === entry.size && (entry.sha256 === null || hash.digest('hex') === entry.sha256)
  if (!isSame) throw damaged(`${entry.path.toString('utf8').slice(0, 200)} has another hash`)
}

async function openArchive({ store, head, signal }: Backup, reuses: boolean): Promise<FileBytes> {
  const members = await membersOf({ store, head, signal })
  const key = archiveKey(head.backupId, head.compression)
  let open: { readonly content: AsyncGenerator<Buffer>; at: number; piece: Buffer } | undefined
  const close = async (): Promise<void> => {
    const before = open
    open = undefined
    await before?.content.return(undefined)
  }
  /** Goes to a place of the tar: on from where it is, or by the member that has it. */
  const seek = async (offset: number): Promise<NonNullable<typeof open>> => {
    if (open !== undefined && offset >= open.at && offset - open.at <= GAP_BYTES) return open
    await close()
    const { begin, stored } = members.holding(offset)
    const how = head.compression === 'gzip' ? 'gz' : head.compression === 'zstd' ? 'zst' : 'none'
    // What uncompresses has several pieces at a time.
    const range = { offset: stored, length: head.archiveBytes - stored, reuses: reuses && how === 'none' }
    const content = decompress(store.read(key, range, signal), how)[Symbol.asyncIterator]() as AsyncGenerator<Buffer> // they are generators
    open = { content, at: begin, piece: Buffer.alloc(0) }
    return open
  }
  async function* read(offset: number, length: number): AsyncGenerator<Buffer> {
    if (length === 0) return
    const from = await seek(offset)
    const end = offset + length
    while (from.at < end) {
      if (from.piece.length === 0) {
        const { done, value } = await from.content.next()
        if (done === true) throw damaged('its archive ends in the middle')
        from.piece = value
        continue
      }
      const count = Math.min(from.piece.length, (from.at < offset ? offset : end) - from.at)
      const part = from.piece.subarray(0, count)
      const isWanted = from.at >= offset
      from.at += count
      from.piece = from.piece.subarray(count)
      if (isWanted) yield part
    }
  }
  return { of: ({ offset, size }) => read(offset, size), close }
}

async function openPieces({ store, signal }: Backup): Promise<FileBytes> {
  const repository = await Repository.open(store, signal)
  const reader = new PackReader(store, repository, signal)
  const load = async (hash: Buffer): Promise<Promise<Buffer>[]> => {
    const slot = repository.table.slotOf(hash)
    if (slot === undefined) throw damaged(`the store has no piece ${hash.toString('hex').slice(0, 16)}`)
    const place = repository.table.at(slot)
    const content = opened(await reader.stored(place), place, hash)
    content.catch(() => {}) // awaited in its turn
    return [content]
  }
  async function* pieces({ chunks }: ListEntry): AsyncGenerator<Buffer> {
    // One is uncompressed while the next one is read.
    let before: Promise<Buffer>[] = []
    for (const hash of hashesOf(chunks)) {
      const next = await load(hash)
      for (const content of before) yield await content
      before = next
    }
    for (const content of before) yield await content
  }
  return { of: pieces, close: () => reader.close() }
}

/** Where each member of an archive begins. */
class Members {
  readonly #begins: Float64Array
  readonly #stored: Float64Array

  constructor(members: readonly Member[]) {
    this.#begins = new Float64Array(members.length)
    this.#stored = new Float64Array(members.length)
    let [begin, stored] = [0, 0]
    for (const [at, [bytes, storedBytes]] of members.entries()) {
      this.#begins[at] = begin
      this.#stored[at] = stored
      begin += bytes
      stored += storedBytes
    }
  }

  /** The member that has this byte of the tar. */
  holding(offset: number): { readonly begin: number; readonly stored: number } {
    let [low, high] = [0, this.#begins.length - 1]
    while (low < high) {
      const middle = Math.ceil((low + high) / 2)
      if ((this.#begins[middle] ?? 0) <= offset) low = middle
      else high = middle - 1
    }
    return { begin: this.#begins[low] ?? 0, stored: this.#stored[low] ?? 0 }
  }
}

async function membersOf({ store, head, signal }: Backup): Promise<Members> {
  const all: Member[] = []
  for await (const row of readList(store, head, signal)) {
    if (!('members' in row)) continue
    if (all.length + row.members.length > MOST_MEMBERS) throw damaged('its list has too many members')
    all.push(...row.members)
  }
  return new Members(all)
}
