import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { pathText } from '../../../shared/kernel/path-text.ts'
import { FILE_LIMITS } from '../../../shared/protocol/file-operations.ts'
import { FURTHEST_MS } from '../../../shared/protocol/files.ts'
import { AgentFailure } from '../../failure.ts'
import { moveInto } from '../change.ts'
import { removeOldTrees, removePart } from '../copy.ts'
import { cancelled, jsonBytes } from '../list.ts'
import { notFound, openRegular, partName, rootOwner, taken, withPlace } from '../place.ts'
import type { ManyOptions } from '../remove.ts'
import { type Compression, compress, compressionOf, decompress, produced } from './compression.ts'
import { ARCHIVE_LIMITS } from './limits.ts'
import { commonFolder, type Packed, pack } from './pack.ts'
import { type ArchiveEntry, readTar } from './tar-read.ts'
import { mostBytes, TOO_LONG, tooMuch, type Unpacked, type UnpackOptions, unpack } from './unpack.ts'
import { readZip } from './zip-read.ts'

const { O_RDONLY, O_RDWR, O_CREAT, O_EXCL, O_NOFOLLOW } = constants
const PIECE_BYTES = 256 * 1024
const ROW_BYTES = 90
/** What an archive of a form is called. */
const FORMS: readonly (readonly [end: string, format: 'tar' | 'zip', compression: Compression])[] = [
  ['.tar.gz', 'tar', 'gz'],
  ['.tgz', 'tar', 'gz'],
  ['.tar.xz', 'tar', 'xz'],
  ['.txz', 'tar', 'xz'],
  ['.tar.zst', 'tar', 'zst'],
  ['.tzst', 'tar', 'zst'],
  ['.tar', 'tar', 'none'],
  ['.zip', 'zip', 'none'],
]

/** What an archive of files is made with. */
export interface CompressOptions extends ManyOptions {
  readonly paths: readonly string[]
  /** Its end says which kind of archive it is. */
  readonly to: string
  readonly replace: boolean
  readonly key: string
  /** Counts bytes that are about to be written; throws NO_SPACE. */
  readonly spend: (bytes: number) => void
  readonly nowMs: number
}

/** Packs files and trees into an archive, which appears when it is whole. `archiveBytes` is its own size. */
export async function compressTo(
  root: string,
  { paths, to, replace, key, spend, nowMs, ...options }: CompressOptions,
): Promise<Packed & { readonly archiveBytes: number }> {
  const form = FORMS.find(([end]) => to.toLowerCase().endsWith(end))
  if (form === undefined) {
    const ends = FORMS.map(([end]) => end).join(', ')
    throw new AgentFailure('ARCHIVE_UNSUPPORTED', `The name of an archive must end with one of ${ends}`, {
      field: 'to',
    })
  }
  const [, format, compression] = form
  return await withPlace(
    root,
    to,
    async (place) => {
      const there = place.folder.statOf(place.name)
      if (there !== undefined && (!replace || !there.isFile())) throw taken(to, { field: 'to' })
      await removeOldTrees(place.folder, nowMs)
      const part = partName(key)
      await removePart(place.folder, part)
      const file = await open(place.folder.pathOf(part), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
      try {
        const base = commonFolder(paths)
        let packed: Packed | undefined
        const content = produced(async (write) => {
          packed = await pack(root, { paths, base, format }, { ...options, write })
        })
        const archiveBytes = await writeAll(file, compress(content, compression), { spend, signal: options.signal })
        if (packed === undefined || options.signal.aborted) throw cancelled()
        const { uid, gid } = rootOwner(root)
        if (process.getuid?.() === 0) await file.chown(uid, gid)
        await file.chmod(0o644)
        await file.sync()
        moveInto({ folder: place.folder, name: part }, place, { to, replace, isFolder: false })
        return { ...packed, archiveBytes }
      } finally {
        await file.close()
        await removePart(place.folder, part)
      }
    },
    { field: 'to' },
  )
}

/** Unpacks an archive of the server into a folder of it. */
export async function extractFrom(
  root: string,
  path: string,
  options: Omit<UnpackOptions, 'readBytes'>,
): Promise<Unpacked> {
  const { signal, monotonicMs } = options
  const until = monotonicMs() + ARCHIVE_LIMITS.timeMs
  const check = ({ bytes, readBytes }: Uncompressed): void => {
    if (bytes > mostBytes(readBytes)) throw tooMuch(`more than ${ARCHIVE_LIMITS.ratio} times its own size`)
    if (monotonicMs() > until) throw tooMuch(TOO_LONG)
  }
  const work = (entries: AsyncGenerator<ArchiveEntry>, readBytes: () => number) =>
    unpack(root, entries, { ...options, readBytes })
  return await withArchive(root, path, { signal, check }, work)
}

/** One line of an archive's listing. */
export interface ArchiveRow {
  readonly name: string
  readonly kind: ArchiveEntry['kind']
  readonly size: number
  readonly modifiedMs: number
}

/** What is in an archive, in its own order, from number `skip` on; `isLast`: there is no more. */
export async function listArchive(
  root: string,
  path: string,
  { skip, limit, signal }: { readonly skip: number; readonly limit: number; readonly signal: AbortSignal },
): Promise<{ entries: ArchiveRow[]; isLast: boolean }> {
  return await withArchive(root, path, { signal }, async (source, readBytes) => {
    const entries: ArchiveRow[] = []
    let [number, left, bytes] = [0, FILE_LIMITS.answerBytes, 0]
    for await (const { name, kind, size, modifiedMs } of source) {
      if (signal.aborted) throw cancelled()
      if (number >= ARCHIVE_LIMITS.entries)
        throw new AgentFailure('ARCHIVE_UNSUPPORTED', 'It is an archive of too many entries')
      bytes += size
      const most = mostBytes(readBytes())
      if (bytes > most && readBytes() > 0 && bytes > 64 * most) {
        throw new AgentFailure('ARCHIVE_UNSUPPORTED', 'It is an archive that says to be much larger than it can be')
      }
      if (number++ < skip) continue
      const shown = pathText(name)
      left -= ROW_BYTES + jsonBytes(shown)
      if (entries.length >= limit || (left < 0 && entries.length > 0)) return { entries, isLast: false }
      const time = Number.isFinite(modifiedMs) ? Math.max(-FURTHEST_MS, Math.min(modifiedMs, FURTHEST_MS)) : 0
      entries.push({ name: shown, kind, size, modifiedMs: time })
    }
    return { entries, isLast: true }
  })
}

/** A tree or a file as a tar, for another server: its bytes, and what was packed once they were read. */
export function packed(
  root: string,
  path: string,
  options: ManyOptions,
): { readonly content: AsyncIterable<Buffer>; result(): Packed | undefined } {
  let result: Packed | undefined
  const content = produced(async (write) => {
    const base = `/${path
      .split('/')
      .filter((name) => name !== '' && name !== '.')
      .slice(0, -1)
      .join('/')}`
    result = await pack(root, { paths: [path], base, format: 'tar' }, { ...options, write })
  })
  return { content, result: () => result }
}

/** Unpacks a tar that comes from another server. */
export async function unpackStream(
  root: string,
  content: AsyncIterable<Uint8Array>,
  options: Omit<UnpackOptions, 'readBytes'>,
): Promise<Unpacked> {
  return await unpack(root, readTar(content), { ...options, readBytes: () => Number.MAX_SAFE_INTEGER })
}

/** A name for work that nobody names. */
export function freshKey(): string {
  return randomBytes(16).toString('hex')
}

async function withArchive<T>(
  root: string,
  path: string,
  { signal, check = () => {} }: { readonly signal: AbortSignal; readonly check?: (so: Uncompressed) => void },
  work: (entries: AsyncGenerator<ArchiveEntry>, readBytes: () => number) => Promise<T>,
): Promise<T> {
  return await withPlace(root, path, async (place) => {
    const file = await openRegular(place, O_RDONLY)
    if (file === undefined) throw notFound(path)
    try {
      const first = Buffer.alloc(8)
      const { bytesRead } = await file.read(first, 0, first.length, 0)
      const { size } = await file.stat()
      const head = first.toString('latin1', 0, Math.min(4, bytesRead))
      const isZip = head === 'PK\x03\x04' || head === 'PK\x05\x06'
      const read = { bytes: 0 }
      if (isZip) return await work(readZip(file, ARCHIVE_LIMITS.entries), () => size)
      const bytes = decompress(contentOf(file, read), compressionOf(first.subarray(0, bytesRead)))
      const entries = readTar(watched(bytes, { read, signal, check }))
      try {
        return await work(entries, () => read.bytes)
      } finally {
        await entries.return(undefined)
      }
    } finally {
      await file.close()
    }
  })
}

/** How far an archive is: what was read of it, and what that has become. */
interface Uncompressed {
  readonly bytes: number
  readonly readBytes: number
}

/** Looks at each piece, also at those that no entry is made of: a few bytes can become many that nobody wants. */
async function* watched(
  content: AsyncIterable<Buffer>,
  {
    read,
    signal,
    check,
  }: { readonly read: { readonly bytes: number }; readonly signal: AbortSignal; check(so: Uncompressed): void },
): AsyncGenerator<Buffer> {
  let bytes = 0
  for await (const piece of content) {
    if (signal.aborted) throw cancelled()
    bytes += piece.length
    check({ bytes, readBytes: read.bytes })
    yield piece
  }
}

async function* contentOf(file: FileHandle, read: { bytes: number }): AsyncGenerator<Buffer> {
  for (;;) {
    const piece = Buffer.allocUnsafe(PIECE_BYTES)
    const { bytesRead } = await file.read(piece, 0, PIECE_BYTES, read.bytes)
    if (bytesRead === 0) return
    read.bytes += bytesRead
    yield piece.subarray(0, bytesRead)
  }
}

async function writeAll(
  file: FileHandle,
  content: AsyncIterable<Buffer>,
  { spend, signal }: { readonly spend: (bytes: number) => void; readonly signal: AbortSignal },
): Promise<number> {
  let at = 0
  for await (const piece of content) {
    if (signal.aborted) throw cancelled()
    spend(piece.length)
    for (let done = 0; done < piece.length; ) {
      done += (await file.write(piece, done, piece.length - done, at + done)).bytesWritten
    }
    at += piece.length
  }
  return at
}
