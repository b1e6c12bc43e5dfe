import { pathBytes, pathText } from '../../shared/kernel/path-text.ts'
import { BACKUP_LIMITS, type BackupEntry } from '../../shared/protocol/backups.ts'
import { AgentFailure } from '../failure.ts'
import { jsonBytes } from '../files/list.ts'
import { notFound } from '../files/place.ts'
import { shownPath } from './archive-backup.ts'
import type { Backup } from './contents.ts'
import { type BackupHead, entriesOf, type ListEntry, readHead } from './manifest.ts'
import type { ObjectStore } from './store.ts'

const ROW_BYTES = 300
const HEAD = /^(?:([A-Za-z0-9_-]{1,64})\/)?backups\/([A-Za-z0-9_-]{1,64})\/backup\.json$/

/** Which entries are meant by a path: it, and all below it. */
export function isBelow(path: string): (entry: Pick<ListEntry, 'path'>) => boolean {
  const wanted = bytesOf(path)
  const folder = `${wanted}/`
  if (wanted === '') return () => true
  return ({ path: found }) => {
    const text = found.toString('latin1')
    return text === wanted || text.startsWith(folder)
  }
}

/** A path as lists have it, each byte as the character of that code; empty for the server's folder itself. */
export function bytesOf(path: string): string {
  const names = path.split('/').filter((name) => name !== '' && name !== '.')
  const bytes = pathBytes(names.join('/'))
  if (bytes === undefined || names.includes('..') || path.includes('\0')) {
    throw new AgentFailure('PATH_INVALID', 'must be a path below the folder of the server, without ".."', {
      field: 'path',
    })
  }
  return Buffer.from(bytes).toString('latin1')
}

/** A page of a folder of a backup, or of all below it, in the order of the paths' bytes; of a file that file. */
export async function listEntries(
  { store, head, signal }: Backup,
  {
    path,
    recursive,
    after,
    limit,
  }: { readonly path: string; readonly recursive: boolean; readonly after: string | null; readonly limit: number },
): Promise<{ entries: BackupEntry[]; next: string | null; extras: { name: string; size: number }[] }> {
  const folder = bytesOf(path)
  const behind = after === null ? undefined : bytesOf(after)
  const inFolder = isBelow(path)
  const lowest = new Lowest(limit + 1)
  let isThere = folder === ''
  for await (const entry of entriesOf(store, head, signal)) {
    if (entry.kind === 'extra' || !inFolder(entry)) continue
    isThere = true
    const text = entry.path.toString('latin1')
    if (text === folder && entry.kind === 'folder') continue
    const isDeeper = text !== folder && text.indexOf('/', folder === '' ? 0 : folder.length + 1) >= 0
    if ((recursive || !isDeeper) && (behind === undefined || text > behind)) lowest.add(text, entry)
  }
  if (!isThere) throw notFound(path)
  const entries: BackupEntry[] = []
  let left = BACKUP_LIMITS.answerBytes
  for (const entry of lowest.all) {
    const row = rowOf(entry)
    left -= ROW_BYTES + jsonBytes(row.path) + jsonBytes(row.target ?? '')
    if (entries.length >= limit || (left < 0 && entries.length > 0)) {
      return { entries, next: entries.at(-1)?.path ?? null, extras: head.extras }
    }
    entries.push(row)
  }
  return { entries, next: null, extras: head.extras }
}

/** One backup of a store's list. */
export type StoredRow = Pick<
  BackupHead,
  | 'ownerId'
  | 'backupId'
  | 'kind'
  | 'compression'
  | 'createdMs'
  | 'entries'
  | 'bytes'
  | 'storedBytes'
  | 'sha256'
  | 'about'
>

/**
 * What stores have, by the heads that lie in them; what cannot be read as one is passed over. `ownerId: null`: of keys that begin with the
 * server they are of.
 */
export async function listHeads(
  parts: readonly { readonly ownerId: string | null; readonly store: ObjectStore }[],
  { after, limit, signal }: { readonly after: string | null; readonly limit: number; readonly signal: AbortSignal },
): Promise<{ backups: StoredRow[]; next: string | null }> {
  const backups: StoredRow[] = []
  let last: string | null = null
  let left = BACKUP_LIMITS.answerBytes
  for (const { ownerId, store } of parts) {
    const found: { readonly place: string; readonly owner: string; readonly id: string }[] = []
    if (ownerId !== null && after !== null && `${ownerId}/\uffff` < after) continue
    for await (const { key } of store.list(ownerId === null ? '' : 'backups/')) {
      const [, owner, id] = HEAD.exec(key) ?? []
      const whose = ownerId ?? owner
      if (id === undefined || whose === undefined) continue
      const place = `${whose}/${id}`
      if (after === null || place > after) found.push({ place, owner: whose, id })
    }
    for (const { place, owner, id } of found.sort((a, b) => (a.place < b.place ? -1 : 1))) {
      if (backups.length >= limit || left < 0) return { backups, next: last }
      const head = await readHead(ownerId === null ? within(store, owner) : store, id, signal).catch(passOver)
      last = place
      if (head === undefined) continue
      const { kind, compression, createdMs, entries, bytes, storedBytes, sha256, about } = head
      left -= ROW_BYTES + 2 * JSON.stringify(about).length
      backups.push({
        ownerId: owner,
        backupId: id,
        kind,
        compression,
        createdMs,
        entries,
        bytes,
        storedBytes,
        sha256,
        about,
      })
    }
  }
  return { backups, next: null }
}

/** The part of a store that one server has, where its keys begin with the servers. */
function within(store: ObjectStore, owner: string): Pick<ObjectStore, 'read'> & ObjectStore {
  return Object.assign(Object.create(store) as ObjectStore, {
    read: (key: string, range: Parameters<ObjectStore['read']>[1], signal: AbortSignal) =>
      store.read(`${owner}/${key}`, range, signal),
  })
}

function passOver(error: unknown): undefined {
  if (error instanceof AgentFailure && error.code === 'CHECKSUM') return undefined
  throw error
}

function rowOf({ path, kind, size, mode, modifiedMs, sha256, target }: ListEntry): BackupEntry {
  const common = { path: shownPath(path), mode, modifiedMs, size, sha256 }
  return { ...common, kind: kind === 'extra' ? 'file' : kind, target: target === null ? null : pathText(target) }
}

/** The first so many of what comes in any order. */
class Lowest {
  readonly #most: number
  #rows: { readonly text: string; readonly entry: ListEntry }[] = []

  constructor(most: number) {
    this.#most = most
  }

  get all(): ListEntry[] {
    this.#cut(this.#most)
    return this.#rows.map(({ entry }) => entry)
  }

  add(text: string, entry: ListEntry): void {
    this.#rows.push({ text, entry: { ...entry, chunks: Buffer.alloc(0) } })
    if (this.#rows.length >= 4 * this.#most) this.#cut(this.#most)
  }

  #cut(most: number): void {
    this.#rows.sort((a, b) => (a.text < b.text ? -1 : a.text > b.text ? 1 : 0))
    this.#rows = this.#rows.slice(0, most)
  }
}
