import { createHash, type Hash, randomBytes } from 'node:crypto'
import { type BigIntStats, constants, fsync, lstatSync, renameSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { promisify } from 'node:util'
import { type FileFacts, FURTHEST_MS, TRANSFER_LIMITS } from '../../shared/protocol/files.ts'
import { AgentFailure } from '../failure.ts'
import { codeOf, type FolderHandle } from './folder-handle.ts'
import {
  failureOf,
  folderDeleted,
  isDeleted,
  isPart,
  noFile,
  noSpace,
  notFound,
  openRegular,
  type Place,
  partName,
  rootOwner,
  withPlace,
} from './place.ts'

const { O_RDONLY, O_RDWR, O_CREAT, O_EXCL, O_NOFOLLOW } = constants
const PIECE_BYTES = 256 * 1024
const MODE = 0o644
const MOST_ENTRIES = 10_000

/** A file that is open below the folder of its server. */
export interface OpenFile {
  readonly handle: FileHandle
  readonly facts: FileFacts
  /** Another one after each writing; the file may get another name meanwhile. */
  readonly written: string
}

/**
 * Opens a regular file below a folder. The way is walked by handles and follows no link, so that nothing that a game renames or
 * puts in its way meanwhile leads out. Throws PATH_INVALID and NOT_FOUND.
 */
export async function openFile(root: string, path: string): Promise<OpenFile> {
  return await withPlace(root, path, async (place) => {
    const handle = await openRegular(place, O_RDONLY)
    if (handle === undefined) throw notFound(path)
    const stats = await handle.stat({ bigint: true })
    return { handle, facts: factsOf(stats), written: writtenOf(stats) }
  })
}

/** What is at the path; `undefined` when nothing is. Throws PATH_INVALID for what is no regular file. */
export async function fileFacts(root: string, path: string): Promise<FileFacts | undefined> {
  return await withPlace(root, path, (place) => factsAt(place))
}

/**
 * The bytes of an open file; throws CONFLICT_STATE when it has changed or ended meanwhile. The caller closes it. Two pieces of memory are used in
 * turn: each stays as it is until the next but one is asked for.
 */
export async function* readRange(
  { handle, written }: OpenFile,
  { offset, length }: { readonly offset: number; readonly length: number },
): AsyncGenerator<Uint8Array> {
  let at = offset
  const end = offset + length
  const size = Math.min(PIECE_BYTES, length)
  let [piece, other] = [Buffer.allocUnsafeSlow(size), Buffer.allocUnsafeSlow(size)]
  while (at < end) {
    const { bytesRead } = await handle.read(piece, 0, Math.min(piece.length, end - at), at)
    if (bytesRead === 0) throw changed()
    at += bytesRead
    yield piece.subarray(0, bytesRead)
    ;[piece, other] = [other, piece]
  }
  if (writtenOf(await handle.stat({ bigint: true })) !== written) throw changed()
}

/** What a file is to become. */
export interface Upload {
  readonly path: string
  readonly offset: number
  readonly size: number | null
  /** Of the whole file; what is interrupted is kept under it. */
  readonly sha256: string | null
  readonly ifMatch: string | null
  readonly ifNone: boolean
  /** How many bytes more the server may have on its disk. */
  readonly roomBytes: number
  /** Counts bytes that are about to be written with those of others; throws NO_SPACE. */
  readonly spend?: (bytes: number) => void
  /** Files that are being written; each has one writer. */
  readonly writing: Set<string>
  /** Milliseconds since the epoch. */
  readonly nowMs: number
}

/**
 * Writes a file beside its place and puts it there when all of it has arrived and has the hash: whoever reads meanwhile finds the old
 * one, and what is cut off leaves it. The owner of the root owns the file. An interrupted one with a hash is kept, to be gone on with.
 */
export async function writeFile(
  root: string,
  upload: Upload,
  content: AsyncIterable<Uint8Array>,
): Promise<FileFacts & { sha256: string }> {
  return await withPlace(root, upload.path, async (place) => {
    await checkConditions(place, upload)
    removeOldParts(place.folder, upload.nowMs)
    const part = partOf(place.name, upload.sha256)
    const key = `${place.folder.device} ${place.folder.inode} ${part}`
    if (upload.writing.has(key)) {
      throw new AgentFailure('CONFLICT_STATE', 'The same upload is under way; try again when it has ended')
    }
    upload.writing.add(key)
    const file = await openPart(place.folder, part, upload).catch((error: unknown) => {
      upload.writing.delete(key)
      throw error
    })
    let isKept = upload.sha256 !== null
    try {
      const hash = await hashOf(file, upload.offset)
      const size = await writePieces(file, { content, hash, upload })
      if (upload.size !== null && size !== upload.size) {
        throw new AgentFailure('CANCELLED', `The transfer ended after ${size} of ${upload.size} bytes`)
      }
      isKept = false
      const sha256 = hash.digest('hex')
      if (upload.sha256 !== null && sha256 !== upload.sha256) {
        throw new AgentFailure(
          'CHECKSUM',
          'What has arrived does not have the SHA-256 that was given; nothing was changed',
        )
      }
      const mode = await checkConditions(place, upload)
      const { uid, gid } = rootOwner(root)
      if (process.getuid?.() === 0) await file.chown(uid, gid)
      await file.chmod(mode ?? MODE)
      await file.sync()
      await exchange(place, { part, written: await file.stat({ bigint: true }), upload })
      await syncFolder(place.folder.fd)
      return { ...factsOf(await file.stat({ bigint: true })), sha256 }
    } catch (cause) {
      const error = failureOf(cause)
      // What fills the disk is not kept: the game needs it.
      if (!isKept || error.code === 'NO_SPACE') place.folder.unlink(part)
      throw error
    } finally {
      upload.writing.delete(key)
      await file.close()
    }
  })
}

/** How much of an interrupted upload with that hash is there; 0 without one. */
export async function partSize(root: string, path: string, sha256: string): Promise<number> {
  return await withPlace(root, path, async ({ folder, name }) => {
    const facts = folder.statOf(partOf(name, sha256))
    return facts?.isFile() === true && facts.nlink === 1 ? facts.size : 0
  })
}

function partOf(name: Buffer, sha256: string | null): Buffer {
  const key = createHash('sha256')
    .update(name)
    .update(sha256 ?? randomBytes(16))
  return partName(key.digest('hex'))
}

async function factsAt(place: Place): Promise<FileFacts | undefined> {
  const handle = await openRegular(place, O_RDONLY)
  if (handle === undefined) return undefined
  try {
    return factsOf(await handle.stat({ bigint: true }))
  } finally {
    await handle.close()
  }
}

/** Refuses what the caller has not meant to replace, and what is no file; answers the mode of what is there. */
async function checkConditions(place: Place, upload: Upload): Promise<number | undefined> {
  await factsAt(place)
  refuseUnmeant(place, upload)
  const mode = place.folder.statOf(place.name)?.mode
  return mode === undefined ? undefined : mode & 0o777
}

/** Nothing of this program comes between it and what its caller does at once: of two writers who mean the same file one is first. */
function refuseUnmeant({ folder, name }: Place, { ifMatch, ifNone }: Upload): void {
  const facts = lstatSync(folder.pathOf(name), { bigint: true, throwIfNoEntry: false })
  const there = facts === undefined ? undefined : factsOf(facts)
  if (ifNone && there !== undefined) throw new AgentFailure('ETAG_MISMATCH', 'There is a file of that name already')
  if (ifMatch !== null && ifMatch !== '*' && there?.etag !== ifMatch) {
    throw new AgentFailure('ETAG_MISMATCH', 'The file has changed since it was read; read it again')
  }
  if (ifMatch === '*' && there === undefined) throw new AgentFailure('ETAG_MISMATCH', 'There is no file of that name')
}

/** Parts that nobody went on with for a day; the folder may be large, so only its first entries are looked at. */
function removeOldParts(folder: FolderHandle, nowMs: number): void {
  let left = MOST_ENTRIES
  for (const { name } of folder.entries()) {
    if (left-- === 0) return
    if (!isPart(name.toString('latin1'))) continue
    const facts = folder.statOf(name)
    if (facts?.isFile() === true && nowMs - facts.mtimeMs > TRANSFER_LIMITS.partMs) folder.unlink(name)
  }
}

async function openPart(folder: FolderHandle, part: Buffer, { offset }: Upload): Promise<FileHandle> {
  if (offset === 0) {
    // Whatever has this name now is removed and made anew: nobody else holds it open.
    if (!folder.unlink(part)) throw noFile()
    return await open(folder.pathOf(part), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
  }
  const file = await openRegular({ folder, name: part }, O_RDWR)
  const facts = await file?.stat()
  if (file !== undefined && facts?.nlink === 1 && facts.size >= offset) {
    await file.truncate(offset)
    return file
  }
  await file?.close()
  throw new AgentFailure(
    'OFFSET_MISMATCH',
    `Only ${facts?.size ?? 0} bytes of the upload are there; go on at that offset`,
  )
}

/** A hash that has seen the file up to an offset. */
async function hashOf(file: FileHandle, end: number): Promise<Hash> {
  const hash = createHash('sha256')
  const piece = Buffer.allocUnsafe(PIECE_BYTES)
  for (let at = 0; at < end; ) {
    const { bytesRead } = await file.read(piece, 0, Math.min(piece.length, end - at), at)
    if (bytesRead === 0) throw changed()
    hash.update(piece.subarray(0, bytesRead))
    at += bytesRead
  }
  return hash
}

async function writePieces(
  file: FileHandle,
  { content, hash, upload }: { content: AsyncIterable<Uint8Array>; hash: Hash; upload: Upload },
): Promise<number> {
  let at = upload.offset
  for await (const piece of content) {
    if (at - upload.offset + piece.length > upload.roomBytes) throw noSpace()
    upload.spend?.(piece.length)
    if (upload.size !== null && at + piece.length > upload.size) {
      throw new AgentFailure('CANCELLED', 'More has arrived than the size that was given')
    }
    hash.update(piece)
    for (let done = 0; done < piece.length; ) {
      const { bytesWritten } = await file.write(piece, done, piece.length - done, at + done)
      done += bytesWritten
    }
    at += piece.length
  }
  return at
}

/**
 * Puts what was written in the place of what is there. That is held open until then: to free a large file takes the disk long, and is
 * done when it is closed, beside everything else.
 */
async function exchange(
  place: Place,
  { part, written, upload }: { readonly part: Buffer; readonly written: BigIntStats; readonly upload: Upload },
): Promise<void> {
  const before = await openRegular(place, O_RDONLY)
  try {
    refuseUnmeant(place, upload)
    rename(place, part, written)
  } finally {
    await before?.close()
  }
}

/** What is put in the place is what was written: a game may have put something else under the name of the part. */
function rename({ folder, name }: Place, part: Buffer, written: BigIntStats): void {
  const there = folder.statOf(part)
  if (isDeleted(folder)) throw folderDeleted()
  if (there === undefined || BigInt(there.ino) !== written.ino) {
    throw new AgentFailure('CONFLICT_STATE', 'What was written was taken away meanwhile; send it again')
  }
  try {
    renameSync(folder.pathOf(part), folder.pathOf(name))
  } catch (error) {
    const code = codeOf(error)
    if (code === 'EISDIR' || code === 'ENOTEMPTY' || code === 'EEXIST') throw noFile()
    throw error
  }
}

/** By the time of the last change of any kind: nobody can set it, as a game can the time of its last writing. */
function factsOf({ ino, size, ctimeNs, mtimeMs }: BigIntStats): FileFacts {
  const etag = [ino, size, ctimeNs].map((part) => part.toString(36)).join('-')
  const modifiedMs = Math.max(-FURTHEST_MS, Math.min(Number(mtimeMs), FURTHEST_MS))
  return { size: Number(size), modifiedMs, etag }
}

function writtenOf({ size, mtimeNs }: BigIntStats): string {
  return `${size} ${mtimeNs}`
}

const syncFolder = promisify(fsync)

function changed(): AgentFailure {
  return new AgentFailure('CONFLICT_STATE', 'The file was changed while it was read; read it again')
}
