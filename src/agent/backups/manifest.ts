import { createHash } from 'node:crypto'
import { type FileHandle, open } from 'node:fs/promises'
import { z } from 'zod'
import { pathBytes, pathText } from '../../shared/kernel/path-text.ts'
import { BACKUP_LIMITS, type BackupEntry, BackupKind, Compression } from '../../shared/protocol/backups.ts'
import { FileProblem } from '../../shared/protocol/file-operations.ts'
import { FURTHEST_MS } from '../../shared/protocol/files.ts'
import { decompress } from '../files/archive/compression.ts'
import { type Member, MemberWriter } from './member-writer.ts'
import { damaged, type ObjectStore, readSmall, writeSmall } from './store.ts'

const FORMAT = 1
const MIB = 1024 * 1024
const MOST_HEAD_BYTES = 2 * MIB
const MOST_LINE = MIB
const LINES_AT_ONCE = 256 * 1024
/** Rows of one line of the list: chunks of a file, members of an archive. */
const ROWS_AT_ONCE = 4096
const MOST_CHUNKS = 4 * 1024 * 1024
export const HASH_BYTES = 32

const Bytes = z.int().min(0)
const Sha256 = z.string().regex(/^[0-9a-f]{64}$/)

/** What a store says of a backup: `backup.json`. A backup without it is not there; it is written last. */
export const BackupHead = z.object({
  format: z.literal(FORMAT),
  kind: BackupKind,
  compression: Compression,
  ownerId: z.string().max(64),
  backupId: z.string().max(64),
  /** Of the attempt that made it. */
  key: z.string().max(64),
  /** Milliseconds since the epoch: when it was begun, and when it was whole. */
  startedMs: z.number(),
  createdMs: z.number().min(-FURTHEST_MS).max(FURTHEST_MS),
  entries: Bytes,
  bytes: Bytes,
  storedBytes: Bytes,
  /** Of the archive as it lies in the store, or of the list of an increment. */
  sha256: Sha256,
  /** Of an archive: its size, and where in the tar the server's own files begin. */
  archiveBytes: Bytes,
  filesOffset: Bytes,
  listBytes: Bytes,
  listSha256: Sha256,
  extras: z.array(z.object({ name: z.string().max(200), size: Bytes })).max(BACKUP_LIMITS.extras),
  problems: z.array(FileProblem).max(100),
  problemCount: Bytes,
  about: z.record(z.string(), z.unknown()),
})
export type BackupHead = z.infer<typeof BackupHead>

/** One entry of a list. */
export interface ListEntry {
  /** From the server's folder on, without a slash at the beginning. */
  readonly path: Buffer
  readonly kind: BackupEntry['kind'] | 'extra'
  readonly size: number
  readonly mode: number
  readonly modifiedMs: number
  /** Of a file. */
  readonly sha256: string | null
  /** What a link says. */
  readonly target: Buffer | null
  /** Of a file of an archive: where in the tar its bytes begin. */
  readonly offset: number
  /** Of a file of an increment: the hashes of its pieces, one behind the other. */
  readonly chunks: Buffer
  /** What shows that a file was not changed since: inode and the time of its last change of any kind. */
  readonly inode: number
  readonly changedMs: number
}

const Line = z.object({
  path: z.string().max(20_000).optional(),
  kind: z.enum(['file', 'folder', 'link', 'extra']).optional(),
  size: Bytes.default(0),
  mode: z.int().min(0).max(0o777).default(0),
  modifiedMs: z.number().min(-FURTHEST_MS).max(FURTHEST_MS).default(0),
  sha256: Sha256.nullable().default(null),
  target: z.string().max(20_000).nullable().default(null),
  offset: Bytes.default(0),
  inode: z.number().default(0),
  changedMs: z.number().default(0),
  chunks: z.array(Sha256).max(ROWS_AT_ONCE).optional(),
  members: z
    .array(z.tuple([Bytes, Bytes]))
    .max(ROWS_AT_ONCE)
    .optional(),
})

/** Keys of the objects of one backup. */
export function keysOf(backupId: string) {
  const folder = `backups/${backupId}`
  return { folder: `${folder}/`, head: `${folder}/backup.json`, list: `${folder}/entries.jsonl.gz` }
}

/** The key of the archive of a backup. */
export function archiveKey(backupId: string, compression: Compression): string {
  const end = compression === 'gzip' ? '.tar.gz' : compression === 'zstd' ? '.tar.zst' : '.tar'
  return `backups/${backupId}/files${end}`
}

/** What a store says of a backup; `undefined` when it has none of that name. Throws CHECKSUM for what cannot be read. */
export async function readHead(
  store: ObjectStore,
  backupId: string,
  signal: AbortSignal,
): Promise<BackupHead | undefined> {
  const text = await readSmall(store, keysOf(backupId).head, { most: MOST_HEAD_BYTES, signal })
  if (text === undefined) return undefined
  let parsed: unknown
  try {
    parsed = JSON.parse(text.toString('utf8'))
  } catch {
    throw damaged('its backup.json is no JSON')
  }
  const head = BackupHead.safeParse(parsed)
  if (head.success && head.data.backupId === backupId) return head.data
  if (typeof parsed === 'object' && parsed !== null && 'format' in parsed && Number(parsed.format) > FORMAT) {
    throw damaged('it was made by a newer version of the agent; update this one')
  }
  throw damaged('its backup.json is not what an agent writes')
}

export async function writeHead(store: ObjectStore, head: BackupHead, signal: AbortSignal): Promise<void> {
  const text = Buffer.from(`${JSON.stringify(head, null, 2)}\n`)
  await writeSmall(store, keysOf(head.backupId).head, text, signal)
}

/** Writes lines of JSON into a file of the agent's own, compressed, from where they go into the store as a whole. */
export class LineWriter {
  readonly #path: string
  readonly #file: FileHandle
  readonly #hash = createHash('sha256')
  readonly #writer: MemberWriter

  static async open(path: string): Promise<LineWriter> {
    return new LineWriter(path, await open(path, 'w', 0o600))
  }

  private constructor(path: string, file: FileHandle) {
    this.#path = path
    this.#file = file
    const append = async (piece: Buffer): Promise<void> => {
      this.#hash.update(piece)
      await file.appendFile(piece)
    }
    this.#writer = new MemberWriter('gzip', append, LINES_AT_ONCE)
  }

  /** What was written, before it was compressed. */
  get bytes(): number {
    return this.#writer.bytes
  }

  async line(line: object): Promise<void> {
    await this.#writer.write(Buffer.from(`${JSON.stringify(line)}\n`))
  }

  async store(store: ObjectStore, key: string, signal: AbortSignal): Promise<{ bytes: number; sha256: string }> {
    await this.#writer.end()
    const bytes = await store.write(key, bytesOf(this.#path), signal)
    return { bytes, sha256: this.#hash.digest('hex') }
  }

  async close(): Promise<void> {
    await this.#writer.close()
    await this.#file.close()
  }
}

/** Writes an entry of a list, behind the hashes of its pieces. */
export async function writeEntry(list: LineWriter, entry: ListEntry): Promise<void> {
  for (let at = 0; at < entry.chunks.length; at += ROWS_AT_ONCE * HASH_BYTES) {
    const chunks: string[] = []
    const end = Math.min(entry.chunks.length, at + ROWS_AT_ONCE * HASH_BYTES)
    for (let from = at; from < end; from += HASH_BYTES) {
      chunks.push(entry.chunks.toString('hex', from, from + HASH_BYTES))
    }
    await list.line({ chunks })
  }
  const { kind, size, mode, modifiedMs, sha256, offset, inode, changedMs } = entry
  await list.line({
    path: pathText(entry.path),
    kind,
    mode,
    modifiedMs,
    ...(kind === 'file' || kind === 'extra' ? { size, sha256, offset, inode, changedMs } : {}),
    ...(entry.target === null ? {} : { target: pathText(entry.target) }),
  })
}

/** The members of the archive, behind the entries. */
export async function writeMembers(list: LineWriter, members: readonly Member[]): Promise<void> {
  for (let at = 0; at < members.length; at += ROWS_AT_ONCE) {
    await list.line({ members: members.slice(at, at + ROWS_AT_ONCE) })
  }
}

/** The bytes of a file of the agent's own. */
export async function* bytesOf(path: string): AsyncGenerator<Buffer> {
  const file = await open(path, 'r')
  try {
    for (let at = 0; ; ) {
      const piece = Buffer.allocUnsafe(256 * 1024)
      const { bytesRead } = await file.read(piece, 0, piece.length, at)
      if (bytesRead === 0) return
      at += bytesRead
      yield piece.subarray(0, bytesRead)
    }
  } finally {
    await file.close()
  }
}

/** What comes of a list: entries in the order of the walk, and at the end the members of the archive. */
export type ListRow = { readonly entry: ListEntry } | { readonly members: readonly Member[] }

/**
 * The rows of a backup's list, one after the other: a list is never in memory as a whole, however much a store puts into it. Throws CHECKSUM
 * for one that is not what was written, as far as it was read.
 */
export async function* readList(store: ObjectStore, head: BackupHead, signal: AbortSignal): AsyncGenerator<ListRow> {
  const hash = createHash('sha256')
  async function* hashed(): AsyncGenerator<Buffer> {
    for await (const piece of store.read(keysOf(head.backupId).list, { offset: 0, length: head.listBytes }, signal)) {
      hash.update(piece)
      yield piece
    }
  }
  let chunks: Buffer[] = []
  let chunkCount = 0
  let entries = 0
  for await (const text of linesOf(decompress(hashed(), 'gz'))) {
    const { path, kind, members, chunks: more, target, ...facts } = lineOf(text)
    if (members !== undefined) yield { members }
    else if (more !== undefined) {
      chunkCount += more.length
      if (chunkCount > MOST_CHUNKS) throw damaged('its list has a file of too many pieces')
      chunks.push(Buffer.from(more.join(''), 'hex'))
    } else {
      if (path === undefined || kind === undefined) throw damaged('its list has a row without a path')
      if (kind !== 'extra' && ++entries > head.entries) throw damaged('its list has more rows than it says')
      const [name, link] = [pathBytes(path), target === null ? null : pathBytes(target)]
      if (name === undefined || link === undefined) throw damaged('its list has a path that is none')
      const entry = { path: Buffer.from(name), kind, target: link === null ? null : Buffer.from(link), ...facts }
      yield { entry: { ...entry, chunks: Buffer.concat(chunks) } }
      chunks = []
      chunkCount = 0
    }
  }
  if (hash.digest('hex') !== head.listSha256) throw damaged('its list of entries has another hash')
}

/** The entries alone. */
export async function* entriesOf(store: ObjectStore, head: BackupHead, signal: AbortSignal): AsyncGenerator<ListEntry> {
  for await (const row of readList(store, head, signal)) if ('entry' in row) yield row.entry
}

function lineOf(text: Buffer): z.infer<typeof Line> {
  try {
    return Line.parse(JSON.parse(text.toString('utf8')))
  } catch {
    throw damaged('its list has a row that cannot be read')
  }
}

/** Lines of any text that comes; throws CHECKSUM for one that is too long or cut off. */
export async function* linesOf(content: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let rest: Buffer[] = []
  let waiting = 0
  for await (const piece of content) {
    let begin = 0
    for (let end = piece.indexOf(10); end >= 0; end = piece.indexOf(10, begin)) {
      const line = piece.subarray(begin, end)
      yield rest.length === 0 ? line : Buffer.concat([...rest, line])
      rest = []
      waiting = 0
      begin = end + 1
    }
    if (begin === piece.length) continue
    rest.push(piece.subarray(begin))
    waiting += piece.length - begin
    if (waiting > MOST_LINE) throw damaged('its list has a row that is too long')
  }
  if (waiting > 0) throw damaged('its list ends in the middle')
}

/**
 * The order of a walk, and of lists: in each folder first what is no folder, then the folders each with all that is in it; by bytes.
 * Negative: `a` comes first.
 */
export function inWalkOrder(a: WalkPlace, b: WalkPlace): number {
  const [x, y] = [a.path.split('/'), b.path.split('/')]
  for (let at = 0; at < x.length && at < y.length; at++) {
    const [left = '', right = ''] = [x[at], y[at]]
    const isLeft = at < x.length - 1 || a.isFolder
    const isRight = at < y.length - 1 || b.isFolder
    if (isLeft !== isRight) return isLeft ? 1 : -1
    if (left !== right) return left < right ? -1 : 1
  }
  return x.length - y.length
}

/** A path with each byte as the character of that code. */
export interface WalkPlace {
  readonly path: string
  readonly isFolder: boolean
}
