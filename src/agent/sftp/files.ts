import { constants, futimesSync, type Stats, statfsSync, statSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { pathBytes, pathText } from '../../shared/kernel/path-text.ts'
import { AgentFailure } from '../failure.ts'
import { makeLink, rename } from '../files/change.ts'
import { FolderHandle } from '../files/folder-handle.ts'
import {
  factsIn,
  folderIn,
  isPart,
  isRootPath,
  makeFolder,
  noFile,
  notFound,
  openRegular,
  type Place,
  rootOwner,
  taken,
  withFolder,
  withPlace,
} from '../files/place.ts'
import { denied, type PathRules } from '../files/rules.ts'
import type { GameServer } from '../server/server.ts'
import { type Attributes, type NameEntry, OPEN } from './packets.ts'
import { clientPath, folderOf, longName, relativeTarget, withoutLinks } from './paths.ts'
import type { ServerRoom } from './server-room.ts'
import type { SftpSession } from './session.ts'

const { O_RDONLY, O_RDWR, O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK } = constants
const FILE_MODE = 0o644
const MODES = 0o777
const PAGE_ENTRIES = 100
const PAGE_BYTES = 48 * 1024
const SEVERAL = 'The file has several names: one of them may be outside of the server. Replace it as a whole'

/** What is open was found under these rules in this folder of the server. */
interface Found {
  readonly path: string
  rules: PathRules
  readonly tree: string
}

/** A file that a client has open. */
export interface OpenedFile extends Found {
  readonly kind: 'file'
  readonly handle: FileHandle
  readonly reads: boolean
  readonly writes: boolean
  readonly appends: boolean
  /** How far it reaches, for what it may still grow. */
  size: number
  wasRead: boolean
  wasWritten: boolean
}

/** A folder that a client lists. */
export interface OpenedFolder extends Found {
  readonly kind: 'folder'
  readonly folder: FolderHandle
  readonly names: Generator<string>
}

/** What the files of a session are made of. */
export interface FilesParts {
  readonly session: SftpSession
  readonly room: ServerRoom
  readonly nowMs: () => number
}

/**
 * The operations of SFTP on the folder of a server. Each asks for the rights of this moment, walks from that folder on by handles as all
 * operations on files do, and fails with an AgentFailure or the error of the system. What is written is written in place: clients go
 * on with interrupted files and write at positions of their own.
 */
export class SftpFiles {
  readonly #session: SftpSession
  readonly #room: ServerRoom
  readonly #nowMs: () => number

  constructor({ session, room, nowMs }: FilesParts) {
    this.#session = session
    this.#room = room
    this.#nowMs = nowMs
  }

  /** The path as the server understands it; nothing is looked at. */
  realpath(bytes: Buffer): Buffer {
    return Buffer.from(pathBytes(clientPath(bytes)) ?? bytes)
  }

  async stat(bytes: Buffer): Promise<Attributes> {
    this.#session.need('read')
    return await this.#followed(clientPath(bytes), async (path) => attributesOf(await this.#facts(path)), false)
  }

  async lstat(bytes: Buffer): Promise<Attributes> {
    this.#session.need('read')
    return await this.#followed(clientPath(bytes), async (path) => attributesOf(await this.#facts(path)), true)
  }

  async fstat(opened: OpenedFile | OpenedFolder): Promise<Attributes> {
    this.#hold(opened, opened.kind === 'file' && opened.writes ? 'write' : 'read')
    return attributesOf(opened.kind === 'folder' ? opened.folder.stat() : await opened.handle.stat())
  }

  async open(bytes: Buffer, flags: number, { mode }: Attributes): Promise<OpenedFile> {
    const path = clientPath(bytes)
    const writes = (flags & (OPEN.write | OPEN.append | OPEN.create | OPEN.truncate)) !== 0
    if (!writes) return await this.#openToRead(path)
    this.#session.need('write')
    if ((flags & OPEN.read) !== 0) this.#session.need('read')
    this.#check(path)
    const real = await this.#behindLinks(path)
    const found = this.#found(real)
    this.#check(real)
    this.#session.rules.refuseUnreached(real, false)
    const opened = await withPlace(this.#root, real, (place) => this.#openToWrite(place, { ...found, flags, mode }))
    if ((flags & (OPEN.create | OPEN.truncate)) !== 0) this.#session.changed(folderOf(real))
    return opened
  }

  /** Reads into `room`; answers how many bytes, 0 at the end. */
  async read(opened: OpenedFile, room: Buffer, offset: number): Promise<number> {
    this.#hold(opened, 'read')
    if (!opened.reads) throw new AgentFailure('DENIED', 'The file is not open for reading')
    const { bytesRead } = await opened.handle.read(room, 0, room.length, offset)
    if (!opened.wasRead) this.#session.counts.filesRead++
    opened.wasRead = true
    this.#session.counts.bytesRead += bytesRead
    return bytesRead
  }

  async write(opened: OpenedFile, bytes: Buffer, offset: number): Promise<void> {
    this.#hold(opened, 'write')
    if (!opened.writes) throw new AgentFailure('DENIED', 'The file is not open for writing')
    const at = opened.appends ? (await opened.handle.stat()).size : offset
    await this.#grow(opened, at + bytes.length)
    for (let done = 0; done < bytes.length; ) {
      done += (await opened.handle.write(bytes, done, bytes.length - done, at + done)).bytesWritten
    }
    if (!opened.wasWritten) this.#session.counts.filesWritten++
    opened.wasWritten = true
    this.#session.counts.bytesWritten += bytes.length
  }

  async sync(opened: OpenedFile): Promise<void> {
    this.#hold(opened, opened.writes ? 'write' : 'read')
    await opened.handle.sync()
  }

  async close(opened: OpenedFile | OpenedFolder): Promise<void> {
    if (opened.kind === 'folder') {
      opened.names.return(undefined)
      opened.folder.close()
      return
    }
    await opened.handle.close()
    if (!opened.writes) return
    this.#room.changed(this.#server)
    this.#session.changed(folderOf(opened.path))
  }

  async opendir(bytes: Buffer): Promise<OpenedFolder> {
    this.#session.need('read')
    return await this.#followed(clientPath(bytes), async (path) => {
      const found = this.#found(path)
      this.#check(path)
      const folder = await withFolder(this.#root, path, (own) => {
        // The walk closes the one that it has found.
        const again = FolderHandle.open(`/proc/self/fd/${own.fd}/.`)
        if (again === undefined || !again.isSame(own.device, own.inode)) throw notFound(path)
        return again
      })
      return { kind: 'folder', ...found, folder, names: folder.names() }
    })
  }

  /** The next entries of a folder, those that nobody gets left out; none at its end. */
  readdir(opened: OpenedFolder): NameEntry[] {
    this.#hold(opened, 'read')
    const { folder, path, names } = opened
    const entries: NameEntry[] = []
    for (let bytes = 0; entries.length < PAGE_ENTRIES && bytes < PAGE_BYTES; ) {
      const next = names.next()
      if (next.done === true) break
      const name = Buffer.from(next.value, 'latin1')
      if (isPart(next.value)) continue
      const facts = folder.statOf(name)
      const whole = `${path === '/' ? '' : path}/${pathText(name)}`
      // Taken away since it was listed, or kept from whoever asks.
      if (facts === undefined || this.#session.rules.isDenied(whole, facts.isDirectory())) continue
      const entry = { name, longName: longName(facts, name, this.#nowMs()), attributes: attributesOf(facts) }
      bytes += 2 * entry.longName.length + 32
      entries.push(entry)
    }
    return entries
  }

  async remove(bytes: Buffer): Promise<void> {
    const path = await this.#changing(bytes)
    this.#session.rules.refuseUnreached(path, false)
    await withPlace(this.#root, path, (place) => {
      if (factsIn(place, path).isDirectory() || !place.folder.unlink(place.name)) {
        throw new AgentFailure('CONFLICT_STATE', 'It is a folder; remove it as one')
      }
    })
    this.#session.counts.removed++
    this.#changed(path)
  }

  async mkdir(bytes: Buffer, { mode }: Attributes): Promise<void> {
    const path = await this.#changing(bytes)
    this.#session.rules.refuseUnreached(path, true)
    await withPlace(this.#root, path, ({ folder, name }) => {
      if (!makeFolder(folder, name, rootOwner(this.#root).uid)) throw taken(path)
      if (mode !== undefined) folder.setModeOf(name, (mode & MODES) | 0o700, (facts) => facts.isDirectory())
    })
    this.#session.counts.foldersMade++
    this.#changed(path)
  }

  async rmdir(bytes: Buffer): Promise<void> {
    const path = await this.#changing(bytes)
    this.#session.rules.refuseUnreached(path, true)
    await withPlace(this.#root, path, (place) => {
      if (!factsIn(place, path).isDirectory()) throw new AgentFailure('CONFLICT_STATE', 'It is no folder')
      folderIn(place, path).close() // nothing that is mounted there
      if (!place.folder.removeFolder(place.name)) throw new AgentFailure('CONFLICT_STATE', 'The folder is not empty')
    })
    this.#session.counts.removed++
    this.#changed(path)
  }

  /** Another name or place; `replaces`: of a file that has it. */
  async rename(oldBytes: Buffer, newBytes: Buffer, replaces: boolean): Promise<void> {
    const from = await this.#changing(oldBytes)
    const target = clientPath(newBytes)
    this.#check(target)
    const to = await this.#behindLinks(target)
    if (isRootPath(to)) throw taken(to)
    this.#check(to)
    const { rules } = this.#session
    const isFolder = (await this.#facts(from)).isDirectory()
    rules.refuseUnreached(from, isFolder)
    rules.refuseUnreached(to, isFolder)
    await rename(this.#root, { from, to, replace: replaces, rules })
    this.#session.counts.renamed++
    this.#changed(from)
    this.#changed(to)
  }

  async readlink(bytes: Buffer): Promise<Buffer> {
    this.#session.need('read')
    return await this.#followed(
      clientPath(bytes),
      async (path) => {
        this.#check(path)
        this.#session.rules.refuseHidden(path, false)
        return await withPlace(this.#root, path, (place) => {
          factsIn(place, path)
          const target = place.folder.linkTarget(place.name)
          if (target === undefined) throw new AgentFailure('CONFLICT_STATE', 'It is no link')
          return target
        })
      },
      true,
    )
  }

  async symlink(targetBytes: Buffer, bytes: Buffer): Promise<void> {
    const path = await this.#changing(bytes)
    this.#session.rules.refuseUnreached(path, false)
    const target = relativeTarget(path, pathText(targetBytes))
    // As far as its text says; what is followed is held to the rules at each step anyway.
    this.#session.rules.refuseUnreached(clientPath(Buffer.from(pathBytes(`${folderOf(path)}/${target}`) ?? [])), true)
    await makeLink(this.#root, { path, target })
    this.#session.counts.linksMade++
    this.#changed(path)
  }

  async setstat(bytes: Buffer, attributes: Attributes): Promise<void> {
    this.#session.need('write')
    const asked = clientPath(bytes)
    this.#check(asked)
    const path = await this.#behindLinks(asked)
    if (isRootPath(path)) throw new AgentFailure('DENIED', 'The folder of the server itself stays as it is')
    this.#check(path)
    refuseOwner(attributes)
    await withPlace(this.#root, path, (place) => this.#setstatAt(place, path, attributes))
    this.#session.counts.changed++
    this.#changed(path)
  }

  async fsetstat(opened: OpenedFile | OpenedFolder, attributes: Attributes): Promise<void> {
    this.#hold(opened, 'write')
    refuseOwner(attributes)
    if (opened.kind === 'folder' || !opened.writes) throw new AgentFailure('DENIED', 'The file is not open for writing')
    const { size, mode, atime, mtime } = attributes
    if (size !== undefined) {
      await this.#grow(opened, size)
      await opened.handle.truncate(size)
      opened.size = size
    }
    if (mode !== undefined) await opened.handle.chmod(mode & MODES)
    if (atime !== undefined && mtime !== undefined) await opened.handle.utimes(atime, mtime)
  }

  /** Blocks and entries of the disk as `df` wants them: those of the server's limit, where it has one. */
  async statvfs(): Promise<readonly bigint[]> {
    this.#session.need('read')
    const { bsize, blocks, bfree, bavail, files, ffree } = statfsSync(this.#root, { bigint: true })
    const limit = BigInt(this.#server.spec.limits.diskMb) * 1024n * 1024n
    const room = limit <= 0n ? undefined : await this.#room.look(this.#server, this.#session.over)
    const most = room === undefined ? blocks : limit / bsize
    const left = room === undefined ? bavail : BigInt(Math.floor(room)) / bsize
    const free = left < bavail ? left : bavail
    return [bsize, bsize, most, room === undefined ? bfree : free, free, files, ffree, ffree, 0n, 0n, 255n]
  }

  get #server(): GameServer {
    return this.#session.server
  }

  get #root(): string {
    return this.#session.server.place.files
  }

  async #openToRead(asked: string): Promise<OpenedFile> {
    this.#session.need('read')
    return await this.#followed(asked, async (path) => {
      const found = this.#found(path)
      this.#check(path)
      this.#session.rules.refuseHidden(path, false)
      const handle = await withPlace(this.#root, path, (place) => openRegular(place, O_RDONLY))
      if (handle === undefined) throw notFound(path)
      const file = { ...found, handle, reads: true, writes: false, appends: false }
      return { kind: 'file', ...file, size: 0, wasRead: false, wasWritten: false }
    })
  }

  async #openToWrite(
    { folder, name }: Place,
    { flags, mode, ...found }: Found & { readonly flags: number; readonly mode: number | undefined },
  ): Promise<OpenedFile> {
    const { path } = found
    const [creates, truncates] = [(flags & OPEN.create) !== 0, (flags & OPEN.truncate) !== 0]
    let there = folder.statOf(name)
    if (there === undefined && !creates) throw notFound(path)
    if (there !== undefined && creates && (flags & OPEN.exclusive) !== 0) throw taken(path)
    if (there !== undefined && !there.isFile()) throw noFile()
    if (there !== undefined && there.nlink > 1) {
      if (!truncates) throw new AgentFailure('DENIED', SEVERAL)
      // The other names keep what they have.
      folder.unlink(name)
      there = undefined
    }
    const reads = (flags & OPEN.read) !== 0
    const how = (reads ? O_RDWR : O_WRONLY) | O_NOFOLLOW | O_NONBLOCK | (there === undefined ? O_CREAT | O_EXCL : 0)
    const handle = await open(folder.pathOf(name), how, 0o600)
    try {
      const facts = await handle.stat()
      if (!facts.isFile() || BigInt(facts.dev) !== folder.device) throw noFile()
      // A game may have given it another name at this moment.
      if (facts.nlink > 1) throw new AgentFailure('DENIED', SEVERAL)
      if (there === undefined) {
        const { uid, gid } = rootOwner(this.#root)
        if (process.getuid?.() === 0) await handle.chown(uid, gid)
        await handle.chmod(((mode ?? FILE_MODE) & MODES) | 0o600)
      } else if (truncates) await handle.truncate(0)
      const size = truncates ? 0 : facts.size
      const appends = (flags & OPEN.append) !== 0
      return { kind: 'file', ...found, handle, reads, writes: true, appends, size, wasRead: false, wasWritten: false }
    } catch (error) {
      await handle.close()
      throw error
    }
  }

  async #setstatAt(place: Place, path: string, { size, mode, atime, mtime }: Attributes): Promise<void> {
    const facts = factsIn(place, path)
    this.#session.rules.refuseUnreached(path, facts.isDirectory())
    if (facts.isSymbolicLink()) throw new AgentFailure('DENIED', 'A link is left as it is')
    const isSingle = (now: Stats): boolean => now.isDirectory() || now.nlink === 1
    if (!isSingle(facts)) throw new AgentFailure('DENIED', SEVERAL)
    if (facts.isDirectory()) {
      if (size !== undefined) throw noFile()
      if (atime !== undefined && mtime !== undefined) {
        const folder = folderIn(place, path)
        try {
          futimesSync(folder.fd, atime, mtime)
        } finally {
          folder.close()
        }
      }
    } else if (size !== undefined || atime !== undefined) {
      const handle = await openRegular(place, O_WRONLY)
      if (handle === undefined) throw notFound(path)
      try {
        const now = await handle.stat()
        if (now.nlink > 1) throw new AgentFailure('DENIED', SEVERAL)
        if (size !== undefined) {
          await this.#room.take(this.#server, size - now.size, this.#session.over)
          await handle.truncate(size)
        }
        if (atime !== undefined && mtime !== undefined) await handle.utimes(atime, mtime)
      } finally {
        await handle.close()
      }
    }
    if (mode !== undefined && !place.folder.setModeOf(place.name, mode & MODES, isSingle)) {
      throw new AgentFailure('CONFLICT_STATE', 'It was taken away meanwhile')
    }
  }

  async #grow(opened: OpenedFile, end: number): Promise<void> {
    if (end <= opened.size) return
    await this.#room.take(this.#server, end - opened.size, this.#session.over)
    opened.size = end
  }

  async #facts(path: string): Promise<Stats> {
    this.#check(path)
    if (isRootPath(path)) return await withFolder(this.#root, path, (folder) => folder.stat())
    const facts = await withPlace(this.#root, path, (place) => factsIn(place, path))
    this.#session.rules.refuseHidden(path, facts.isDirectory())
    return facts
  }

  /**
   * Reads at a path, and where that fails because of links, or ends at one that is to be followed, at the path without them: it is walked
   * anew from the folder of the server on and held to the same rules.
   */
  async #followed<T>(path: string, work: (path: string) => Promise<T>, keepLast = false): Promise<T> {
    const isLink = async (): Promise<boolean> => !isRootPath(path) && (await this.#facts(path)).isSymbolicLink()
    try {
      if (keepLast || !(await isLink())) return await work(path)
    } catch (error) {
      if (!(error instanceof AgentFailure) || (error.code !== 'NOT_FOUND' && error.code !== 'PATH_INVALID')) throw error
      const real = await withoutLinks(this.#root, path, { keepLast }).catch(() => path) // the first failure says more
      if (real === path) throw error
      return await work(real)
    }
    return await work(await withoutLinks(this.#root, path, { keepLast }))
  }

  /**
   * The path of what is to be changed, without links on the way to its folder: clients go into folders by links, as they list them. What is
   * at the path itself stays what it is. Whoever asks has to be held to the rules there as well.
   */
  async #behindLinks(path: string): Promise<string> {
    if (isRootPath(path)) return path
    const isDirect = await withPlace(this.#root, path, () => true).catch((error: unknown) => {
      if (!(error instanceof AgentFailure) || (error.code !== 'NOT_FOUND' && error.code !== 'PATH_INVALID')) throw error
      return false
    })
    if (isDirect) return path
    return await withoutLinks(this.#root, path, { keepLast: true }).catch(() => path) // what fails there says more
  }

  /** A path of which something is to be made, removed or given another name. */
  async #changing(bytes: Buffer): Promise<string> {
    this.#session.need('write')
    const asked = clientPath(bytes)
    this.#check(asked)
    const path = await this.#behindLinks(asked)
    if (isRootPath(path)) throw new AgentFailure('DENIED', 'The folder of the server itself stays as it is')
    this.#check(path)
    this.#session.rules.check(path, { changes: true })
    return path
  }

  /** Refuses what whoever asks does not get, and what the node has mounted there. */
  #check(path: string): void {
    const { rules } = this.#session
    rules.check(path)
    if (isRootPath(path)) return
    rules.refuseHidden(path, true)
    if (rules.isDenied(path, true)) throw denied(path)
  }

  /** Noted before the walk, so that nothing of a folder that is replaced meanwhile passes for one of the next. */
  #found(path: string): Found {
    return { path, rules: this.#session.rules, tree: treeOf(this.#root) }
  }

  /** What is open is held to the rights and paths of this moment, and is of no use once a restore has replaced the folder of the server. */
  #hold(opened: OpenedFile | OpenedFolder, right: 'read' | 'write'): void {
    this.#session.need(right)
    const { rules } = this.#session
    if (opened.rules !== rules) {
      this.#check(opened.path)
      if (opened.kind === 'file') rules.refuseUnreached(opened.path, false)
      opened.rules = rules
    }
    if (opened.tree !== treeOf(this.#root)) {
      throw new AgentFailure('CONFLICT_STATE', 'The files of the server were restored from a backup; open it again')
    }
  }

  #changed(path: string): void {
    this.#room.changed(this.#server)
    this.#session.changed(folderOf(path))
  }
}

/** Names a folder as long as it is there: numbers of inodes are used again, times of their making are not. */
function treeOf(root: string): string {
  const { dev, ino, birthtimeNs } = statSync(root, { bigint: true })
  return `${dev} ${ino} ${birthtimeNs}`
}

/** Times beyond what the protocol can carry are shown as its ends. */
function attributesOf(facts: Stats): Attributes {
  const seconds = (ms: number): number => Math.max(0, Math.min(Math.floor(ms / 1000), 0xffff_ffff))
  const { size, uid, gid, mode } = facts
  return { size, uid, gid, mode, atime: seconds(facts.atimeMs), mtime: seconds(facts.mtimeMs) }
}

/** Files belong to the user of their server, and clients that copy the owner too must hear that they did not. */
function refuseOwner({ size, uid, mode, mtime }: Attributes): void {
  if (uid === undefined || size !== undefined || mode !== undefined || mtime !== undefined) return
  throw new AgentFailure('DENIED', 'The files of a server belong to its own user')
}
