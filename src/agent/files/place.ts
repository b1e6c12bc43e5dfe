import { constants, mkdirSync, type Stats } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { pathBytes, pathText } from '../../shared/kernel/path-text.ts'
import { AgentFailure } from '../failure.ts'
import { codeOf, FolderHandle } from './folder-handle.ts'

const { O_NOFOLLOW, O_NONBLOCK } = constants
const MOST_NAME_BYTES = 255
const FOLDER_MODE = 0o755
/** Names of the agent's own: of what has not arrived, or is not copied, as a whole. */
const PART = '.panel-upload-'

/** What system calls say of an entry that has become another kind of thing, or has appeared, since it was looked at. */
const REPLACED: ReadonlySet<string> = new Set(['EEXIST', 'ENOTEMPTY', 'ENOTDIR', 'EISDIR', 'ELOOP'])

/** The folder of an entry, held open, and the entry's name in it. */
export interface Place {
  readonly folder: FolderHandle
  readonly name: Buffer
  /** Every folder from the root to `folder`. */
  readonly above: readonly FolderId[]
}

/** What a folder is, under whatever name. */
export interface FolderId {
  readonly device: bigint
  readonly inode: bigint
}

/** Which field of a request a path stands in, for refusals. */
export interface PathField {
  readonly field?: string
}

/**
 * Walks to the folder of an entry below `root` and closes it afterwards. The way is walked by handles and follows no link, so that
 * nothing that a game renames or puts in its way meanwhile leads out; nor does it enter what is mounted there. Throws PATH_INVALID and
 * NOT_FOUND.
 */
export async function withPlace<T>(
  root: string,
  path: string,
  work: (place: Place) => Promise<T> | T,
  field: PathField = {},
): Promise<T> {
  const names = namesOf(path, field)
  const name = names.pop()
  if (name === undefined) throw wrongPath(field)
  const { folder, above } = walkTo(root, names, { path, ...field })
  try {
    return await work({ folder, name, above })
  } catch (error) {
    throw meaningOf(error, folder, field)
  } finally {
    folder.close()
  }
}

/** The same to a folder itself, the root among them. */
export async function withFolder<T>(
  root: string,
  path: string,
  work: (folder: FolderHandle) => Promise<T> | T,
  field: PathField = {},
): Promise<T> {
  const { folder } = walkTo(root, namesOf(path, field), { path, ...field, last: true })
  try {
    return await work(folder)
  } catch (error) {
    throw meaningOf(error, folder, field)
  } finally {
    folder.close()
  }
}

/** Makes the folders above a file that are not there, for the owner of the root. */
export async function makeFoldersOf(root: string, path: string): Promise<void> {
  makeFolders(root, namesOf(path, {}).slice(0, -1), path)
}

/** Makes a folder and those above it that are not there, for the owner of the root. Answers whether there was any to make. */
export async function makeFolderPath(root: string, path: string): Promise<boolean> {
  return makeFolders(root, namesOf(path, {}), path)
}

/** Makes one folder; false when there is something of that name. */
export function makeFolder(folder: FolderHandle, name: Buffer, uid: number): boolean {
  try {
    mkdirSync(folder.pathOf(name), { mode: FOLDER_MODE })
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    throw error
  }
  const made = process.getuid?.() === 0 ? FolderHandle.open(folder.pathOf(name)) : undefined
  made?.give(uid)
  made?.close()
  return true
}

/** The user whose files those of the server are. */
export function rootOwner(root: string): { readonly uid: number; readonly gid: number } {
  const folder = FolderHandle.open(root)
  if (folder === undefined) throw new AgentFailure('NOT_FOUND', 'The folder of the server is no longer there')
  try {
    const { uid, gid } = folder.stat()
    return { uid, gid }
  } finally {
    folder.close()
  }
}

/** Facts of what is there; throws NOT_FOUND. */
export function factsIn({ folder, name }: Place, path: string, field: PathField = {}): Stats {
  const facts = folder.statOf(name)
  if (facts === undefined) throw notFound(path, field)
  return facts
}

/** A folder in the same mount; throws PATH_INVALID for one that something is mounted at, and for one that is closed to the agent. */
export function folderIn({ folder, name }: Place, path: string, field: PathField = {}): FolderHandle {
  const inner = step(folder, name, field)
  if (inner === undefined) throw notFound(path, field)
  return inner
}

/**
 * Opens a regular file that is no link; `undefined` when there is nothing. A FIFO or a device is refused without being opened: a game
 * that waits at the other end must not take the agent for its reader. One that takes the name in between is not waited for.
 */
export async function openRegular(
  { folder, name }: Pick<Place, 'folder' | 'name'>,
  flags: number,
): Promise<FileHandle | undefined> {
  let handle: FileHandle
  try {
    if (folder.statOf(name)?.isFile() === false) throw noFile()
    handle = await open(folder.pathOf(name), flags | O_NOFOLLOW | O_NONBLOCK)
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT' || code === 'ENAMETOOLONG') return undefined
    if (code === 'ELOOP' || code === 'ENXIO' || code === 'EISDIR') throw noFile()
    throw code === undefined ? error : failureOf(error)
  }
  if ((await handle.stat()).isFile()) return handle
  await handle.close()
  throw noFile()
}

/** The name of what is no file of the server yet: `key` says which. */
export function partName(key: string): Buffer {
  return Buffer.from(`${PART}${key.slice(0, 32)}`)
}

/** Parts are nothing that anybody reads or writes by name. */
export function isPart(name: string): boolean {
  return name.startsWith(PART)
}

/** Whether a path names the folder of the server itself. */
export function isRootPath(path: string): boolean {
  return path.split('/').every((name) => name === '' || name === '.')
}

/** The longest path of which an answer says more than that it is there; what lies deeper is counted. */
export const MOST_PATH_BYTES = 4096

/** The path of an entry from the names on the way, which is unknown where it is too long. */
export function pathIn(way: Buffer | undefined, name: Buffer): Buffer | undefined {
  if (way === undefined) return undefined
  return way.length === 0 ? name : Buffer.concat([way, Buffer.from('/'), name])
}

/** The path of what was found below another, from the root of the server on. */
export function pathBelow(above: string, found: Buffer): string {
  const names = [...above.split('/'), pathText(found)].filter((name) => name !== '' && name !== '.')
  return `/${names.join('/')}`
}

/** What a failed system call means to whoever asked. */
export function failureOf(error: unknown, { field }: PathField = {}): AgentFailure {
  if (error instanceof AgentFailure) {
    if (field === undefined || error.field !== undefined || error.code !== 'PATH_INVALID') return error
    return new AgentFailure(error.code, error.message, { cause: error, field })
  }
  const code = codeOf(error)
  if (code === 'ENOSPC' || code === 'EDQUOT') return noSpace()
  const more = { cause: error, ...(field === undefined ? {} : { field }) }
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') {
    return new AgentFailure('PATH_INVALID', `names what the agent may not open or change (${code})`, more)
  }
  if (code === 'EBUSY' || code === 'EXDEV') {
    return new AgentFailure('PATH_INVALID', 'names or leads to what is mounted into the folder of the server', more)
  }
  if (code === 'ENOENT') return new AgentFailure('CONFLICT_STATE', 'It was taken away meanwhile; look again', more)
  if (code !== undefined && REPLACED.has(code)) {
    return new AgentFailure(
      'CONFLICT_STATE',
      `Something else has taken its place meanwhile (${code}); look again`,
      more,
    )
  }
  if (code === 'ENAMETOOLONG') return new AgentFailure('PATH_INVALID', 'has a name that is too long for the disk', more)
  const message = `The file could not be read or written (${code ?? 'unknown error'})`
  return new AgentFailure('CANCELLED', message, { cause: error })
}

/** A folder that was open has been deleted: what is written into it is nowhere. */
export function isDeleted(folder: FolderHandle): boolean {
  return folder.stat().nlink === 0
}

/** The folder of what is to be written was deleted while that was under way. */
export function folderDeleted(field: PathField = {}): AgentFailure {
  const message = 'The folder of the file was deleted meanwhile; make it again, or name another one'
  return new AgentFailure('CONFLICT_STATE', message, field)
}

/** There is nothing at the path, where a file or folder has to be. */
export function notFound(
  path: string,
  { what = 'file', ...field }: PathField & { readonly what?: 'file' | 'folder' } = {},
): AgentFailure {
  return new AgentFailure('NOT_FOUND', `There is no ${what} ${path.slice(0, 300)}`, field)
}

/** What is there is no regular file. */
export function noFile(field: PathField = {}): AgentFailure {
  return new AgentFailure('PATH_INVALID', 'names a folder, a link or a device, and not a regular file', field)
}

/** The disk of the server or of the node is full. */
export function noSpace(): AgentFailure {
  return new AgentFailure('NO_SPACE', 'The file does not fit: the disk of the server, or of its node, is full')
}

/** Something has the name already, or has taken it meanwhile. */
export function taken(path: string, field: PathField = {}): AgentFailure {
  return new AgentFailure('CONFLICT_STATE', `There is already something at ${path.slice(0, 300)}`, field)
}

/** What ended the work in a folder, where it is no bug. */
function meaningOf(error: unknown, folder: FolderHandle, field: PathField): unknown {
  if (codeOf(error) === 'ENOENT' && isDeleted(folder)) return folderDeleted(field)
  return error instanceof AgentFailure || codeOf(error) !== undefined ? failureOf(error, field) : error
}

/** The names of a path, from the root on; none for the root itself. */
function namesOf(path: string, field: PathField): Buffer[] {
  const names = path.split('/').filter((name) => name !== '' && name !== '.')
  return names.map((name) => {
    const bytes = pathBytes(name)
    const isWrong = name === '..' || name.includes('\0') || bytes === undefined || isPart(name)
    if (isWrong || bytes.length > MOST_NAME_BYTES) throw wrongPath(field)
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  })
}

function pathOf(names: readonly Buffer[]): string {
  return `/${names.map(pathText).join('/')}`
}

function wrongPath(field: PathField): AgentFailure {
  return new AgentFailure('PATH_INVALID', 'must be a path below the folder of the server, without ".."', field)
}

function makeFolders(root: string, names: readonly Buffer[], path: string): boolean {
  const { uid } = rootOwner(root)
  let made = false
  let folder = FolderHandle.open(root)
  try {
    for (const name of names) {
      if (folder === undefined) throw notFound(path)
      made = makeFolder(folder, name, uid) || made
      const next = step(folder, name, {})
      if (next === undefined && folder.statOf(name) !== undefined) throw noFolder({})
      folder.close()
      folder = next
    }
    if (folder === undefined) throw notFound(path)
  } catch (error) {
    throw failureOf(error)
  } finally {
    folder?.close()
  }
  return made
}

function walkTo(
  root: string,
  names: readonly Buffer[],
  { path, last = false, ...field }: PathField & { readonly path: string; readonly last?: boolean },
): { folder: FolderHandle; above: FolderId[] } {
  let folder = FolderHandle.open(root)
  if (folder === undefined) throw notFound(path, field)
  const above: FolderId[] = []
  try {
    for (const [number, name] of names.entries()) {
      above.push({ device: folder.device, inode: folder.inode })
      const next = step(folder, name, field)
      if (next === undefined) {
        const isThere = last && number === names.length - 1 && folder.statOf(name) !== undefined
        throw isThere ? noFolder(field) : notFound(pathOf(names.slice(0, number + 1)), { ...field, what: 'folder' })
      }
      folder.close()
      folder = next
    }
  } catch (error) {
    folder.close()
    throw failureOf(error, field)
  }
  above.push({ device: folder.device, inode: folder.inode })
  return { folder, above }
}

/** The folder of that name; `undefined` when there is no folder. */
function step(folder: FolderHandle, name: Buffer, field: PathField): FolderHandle | undefined {
  let inner: FolderHandle | undefined
  try {
    inner = FolderHandle.open(folder.pathOf(name))
  } catch (error) {
    if (codeOf(error) === 'EACCES') {
      throw new AgentFailure('PATH_INVALID', 'A folder of the path is closed to the agent', field)
    }
    throw error
  }
  if (inner === undefined || (inner.device === folder.device && inner.mount() === folder.mount())) return inner
  inner.close()
  throw new AgentFailure('PATH_INVALID', 'leads to what is mounted into the folder of the server', field)
}

function noFolder(field: PathField): AgentFailure {
  return new AgentFailure('PATH_INVALID', 'names a file, a link or a device, and not a folder', field)
}
