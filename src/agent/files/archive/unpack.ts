import { createHash } from 'node:crypto'
import { closeSync, constants, fchmodSync, fchownSync, futimesSync, openSync, symlinkSync, write } from 'node:fs'
import { promisify } from 'node:util'
import { pathText } from '../../../shared/kernel/path-text.ts'
import { AgentFailure } from '../../failure.ts'
import { linkText, moveInto } from '../change.ts'
import { removeOldTrees, removePart } from '../copy.ts'
import { codeOf, FolderHandle } from '../folder-handle.ts'
import { cancelled } from '../list.ts'
import {
  isPart,
  isRootPath,
  makeFolder,
  makeFolderPath,
  noSpace,
  openRegular,
  partName,
  rootOwner,
  withFolder,
} from '../place.ts'
import { Problems } from '../problems.ts'
import type { ManyOptions } from '../remove.ts'
import { KEPT } from '../rules.ts'
import { ARCHIVE_LIMITS } from './limits.ts'
import type { ArchiveEntry } from './tar-read.ts'

const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW, O_RDONLY } = constants
const BLOCK_BYTES = 4096
const PIECE_BYTES = 256 * 1024
const MOST_NAME_BYTES = 255
const MOST_PATH = 4096
const writeAsync = promisify(write)

/** Where an archive goes, and what it may take. */
export interface UnpackOptions extends ManyOptions {
  /** A folder of the server; it is made where there is none. */
  readonly to: string
  /** Files and links that are there are replaced; folders are gone on with. */
  readonly replace: boolean
  /** Names what is on its way: the same again begins anew. */
  readonly key: string
  /** How many bytes more the server may have on its disk. */
  readonly roomBytes: number
  /** Counts bytes that are about to be written with those of others; throws NO_SPACE. */
  readonly spend?: (bytes: number) => void
  /** How many bytes of the archive were read until now. */
  readonly readBytes: () => number
  readonly monotonicMs: () => number
  /** Milliseconds since the epoch. */
  readonly nowMs: number
  /** Of what an agent has packed itself; without it those of archives from anywhere. */
  readonly most?: { readonly entries: number; readonly timeMs: number }
  /** Folders get the modes that the archive has. */
  readonly keepsModes?: boolean
  /**
   * Files are hashed while they are written, and reported by their names from the folder on; null: there is none of that name any more. The
   * last call for a name counts.
   */
  readonly written?: (name: Buffer, file: { readonly size: number; readonly sha256: string } | null) => void
}

/** What has become of an archive. */
export type Unpacked = Problems['answer'] & { readonly entries: number; readonly bytes: number }

/**
 * Unpacks an archive beside everything else in the folder of the server, under a name of the agent's own, and moves its entries to their
 * places when all of it has come: what fails or is cancelled before leaves all as it was. A name that leads elsewhere ends it; links
 * are made at the end, and only such as lead to a place below the server's folder, so that nothing is written through them.
 */
export async function unpack(
  root: string,
  source: AsyncIterable<ArchiveEntry>,
  options: UnpackOptions,
): Promise<Unpacked> {
  return await withFolder(root, '/', async (top) => {
    const part = partName(options.key)
    await removeOldTrees(top, options.nowMs)
    await removePart(top, part)
    const { uid } = rootOwner(root)
    makeFolder(top, part, uid)
    const staged = FolderHandle.open(top.pathOf(part))
    if (staged === undefined) throw takenAway()
    const run = new Unpacking(staged, options, process.getuid?.() === 0 ? uid : undefined)
    try {
      await run.take(source)
      if (options.signal.aborted) throw cancelled()
      if (!isRootPath(options.to)) await makeFolderPath(root, options.to)
      await withFolder(root, options.to, (target) => run.place(target), { field: 'to' })
      return { ...run.done, ...run.problems.answer }
    } finally {
      staged.close()
      await removePart(top, part)
    }
  })
}

/** Unpacks into a folder that is held open and that nobody else reaches; `uid`: whose all of it becomes, where the agent can give it away. */
export async function unpackInto(
  staged: FolderHandle,
  source: AsyncIterable<ArchiveEntry>,
  options: UnpackOptions,
  uid: number | undefined,
): Promise<Unpacked> {
  const run = new Unpacking(staged, options, uid)
  await run.take(source)
  if (options.signal.aborted) throw cancelled()
  return { ...run.done, ...run.problems.answer }
}

class Unpacking {
  readonly problems = new Problems()
  readonly done = { entries: 0, bytes: 0 }
  readonly #staged: FolderHandle
  readonly #options: UnpackOptions
  readonly #uid: number | undefined
  readonly #links: { readonly names: readonly Buffer[]; readonly target: Buffer }[] = []
  readonly #until: number
  readonly #mostEntries: number
  #met = 0
  #roomBytes: number

  constructor(staged: FolderHandle, options: UnpackOptions, uid: number | undefined) {
    this.#staged = staged
    this.#options = options
    this.#uid = uid
    this.#roomBytes = options.roomBytes
    this.#until = options.monotonicMs() + (options.most?.timeMs ?? ARCHIVE_LIMITS.timeMs)
    this.#mostEntries = options.most?.entries ?? ARCHIVE_LIMITS.entries
  }

  /** Writes what comes into the folder of the agent's own. */
  async take(source: AsyncIterable<ArchiveEntry>): Promise<void> {
    for await (const entry of source) {
      this.#checkOn()
      if (++this.#met > this.#mostEntries) throw tooMuch(`more than ${this.#mostEntries} entries`)
      const names = namesOf(entry)
      if (names.length === 0) continue
      const shown = pathText(Buffer.concat(names.flatMap((name) => [Buffer.from('/'), name])))
      const final = `${this.#options.to}/${shown}`
      const reason = this.#refusal(final, names, entry)
      if (reason !== undefined) {
        this.problems.add(shown, reason)
        continue
      }
      if (entry.kind === 'link') {
        if (this.#links.length >= ARCHIVE_LIMITS.links) throw tooMuch(`more than ${ARCHIVE_LIMITS.links} links`)
        this.#links.push({ names, target: entry.target })
        continue
      }
      const problem = await this.#withFolder(names.slice(0, entry.kind === 'folder' ? undefined : -1), (folder) =>
        entry.kind === 'folder' ? this.#keepMode(folder, entry) : this.#file(folder, names, entry),
      )
      if (problem !== undefined) this.problems.add(shown, problem)
      else this.#count()
    }
    for (const { names, target } of this.#links) {
      this.#checkOn()
      const problem = await this.#withFolder(names.slice(0, -1), (folder) => this.#link(folder, names, target))
      const shown = pathText(Buffer.concat(names.flatMap((name) => [Buffer.from('/'), name])))
      if (problem !== undefined) this.problems.add(shown, problem)
      else this.#count()
    }
  }

  /** Moves what has come to its place. */
  async place(target: FolderHandle): Promise<void> {
    await this.#merge(this.#staged, target, '')
  }

  async #merge(from: FolderHandle, to: FolderHandle, above: string): Promise<void> {
    for (const text of [...from.names()]) {
      this.#checkOn()
      const name = Buffer.from(text, 'latin1')
      const shown = `${above}/${pathText(name)}`
      const facts = from.statOf(name)
      if (facts === undefined) continue
      if (!facts.isDirectory()) {
        const place = { folder: to, name, above: [] }
        try {
          moveInto({ folder: from, name }, place, { to: shown, replace: this.#options.replace, isFolder: false })
        } catch (error) {
          if (!(error instanceof AgentFailure)) throw error
          this.problems.add(shown, error.message)
        }
        continue
      }
      makeFolder(to, name, this.#uid ?? facts.uid)
      const [inner, target] = [from.child(name), FolderHandle.open(to.pathOf(name))]
      try {
        if (inner === undefined) throw takenAway()
        if (target === undefined || target.device !== to.device || target.mount() !== to.mount()) {
          this.problems.add(shown, 'is a file, a link or a mount there, and in the archive a folder')
        } else await this.#merge(inner, target, shown)
      } finally {
        inner?.close()
        target?.close()
      }
    }
  }

  /** Why an entry is left out; throws for one that means harm. */
  #refusal(final: string, names: readonly Buffer[], entry: ArchiveEntry): string | undefined {
    const { rules, readBytes } = this.#options
    if (entry.kind === 'other') return 'is a device, a FIFO, a sparse file, or of a kind that is not known'
    if (names.some((name) => isPart(name.toString('latin1')))) return 'has a name of the agent’s own'
    if (rules.isHidden(final, entry.kind === 'folder')) return 'lies where your access to this server does not reach'
    if (rules.isDenied(final, entry.kind === 'folder')) return KEPT
    if (entry.kind === 'link' && rules.isHidden(leadsTo(final, entry.target), false)) return LINK_OUTSIDE
    try {
      rules.check(final)
    } catch (error) {
      if (error instanceof AgentFailure) return error.message
      throw error
    }
    if (this.done.bytes > mostBytes(readBytes())) throw tooMuch(`more than ${ARCHIVE_LIMITS.ratio} times its own size`)
    return undefined
  }

  /** Opens a folder of what has come, and makes those on the way; answers the problem of one that is a file. */
  async #withFolder(
    names: readonly Buffer[],
    work: (folder: FolderHandle) => Promise<string | undefined> | string | undefined,
  ): Promise<string | undefined> {
    let folder: FolderHandle = this.#staged
    try {
      for (const name of names) {
        if (makeFolder(folder, name, this.#uid ?? 0)) this.#spend(BLOCK_BYTES)
        const inner = folder.child(name)
        if (inner === undefined) return 'lies in what is a file in the same archive'
        if (folder !== this.#staged) folder.close()
        folder = inner
      }
      return await work(folder)
    } finally {
      if (folder !== this.#staged) folder.close()
    }
  }

  /** Its owner can always go in: what comes next in it may be written by them. */
  #keepMode(folder: FolderHandle, { mode }: ArchiveEntry): undefined {
    if (this.#options.keepsModes === true) folder.setMode((mode & 0o777) | 0o700)
  }

  async #file(folder: FolderHandle, names: readonly Buffer[], entry: ArchiveEntry): Promise<string | undefined> {
    const name = names.at(-1) ?? Buffer.alloc(0)
    const there = folder.statOf(name)
    if (there?.isDirectory() === true) return 'is a folder and a file in the same archive'
    const content = entry.kind === 'hard link' ? this.#earlier(entry) : entry.content
    if (there !== undefined) folder.unlink(name) // the later one counts
    const fd = openSync(folder.pathOf(name), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
    const { written } = this.#options
    const hash = written === undefined ? undefined : createHash('sha256')
    try {
      this.#spend(BLOCK_BYTES)
      let at = 0
      for await (const piece of content) {
        this.#checkOn()
        this.#spend(piece.length)
        this.done.bytes += piece.length
        this.#checkRatio(entry, at + piece.length)
        for (let done = 0; done < piece.length; ) {
          done += (await writeAsync(fd, piece, done, piece.length - done, at + done)).bytesWritten
        }
        hash?.update(piece)
        at += piece.length
        this.#report()
      }
      if (this.#uid !== undefined) fchownSync(fd, this.#uid, this.#uid)
      fchmodSync(fd, entry.mode & 0o777)
      const seconds = Math.max(0, Math.min(entry.modifiedMs / 1000, 2 ** 33))
      futimesSync(fd, seconds, seconds)
      if (hash !== undefined) written?.(joined(names), { size: at, sha256: hash.digest('hex') })
    } catch (error) {
      if (error instanceof NoTarget) {
        folder.unlink(name)
        written?.(joined(names), null)
        return error.message
      }
      throw error
    } finally {
      closeSync(fd)
    }
    return undefined
  }

  /** A further name of a file is a copy of it: only of what has come before in the same archive. */
  async *#earlier(entry: ArchiveEntry): AsyncGenerator<Buffer> {
    const names = namesOf({ ...entry, name: entry.target })
    const name = names.at(-1)
    let folder: FolderHandle | undefined = this.#staged
    try {
      for (const part of names.slice(0, -1)) {
        const inner: FolderHandle | undefined = folder.child(part)
        if (folder !== this.#staged) folder.close()
        folder = inner
        if (folder === undefined) throw new NoTarget()
      }
      const file = name === undefined ? undefined : await openRegular({ folder, name }, O_RDONLY).catch(() => undefined)
      if (file === undefined) throw new NoTarget()
      try {
        for (let at = 0; ; ) {
          const piece = Buffer.allocUnsafe(PIECE_BYTES)
          const { bytesRead } = await file.read(piece, 0, PIECE_BYTES, at)
          if (bytesRead === 0) return
          at += bytesRead
          yield piece.subarray(0, bytesRead)
        }
      } finally {
        await file.close()
      }
    } finally {
      if (folder !== undefined && folder !== this.#staged) folder.close()
    }
  }

  #link(folder: FolderHandle, names: readonly Buffer[], target: Buffer): string | undefined {
    const name = names.at(-1) ?? Buffer.alloc(0)
    const depth = this.#options.to.split('/').filter((part) => part !== '' && part !== '.').length + names.length - 1
    try {
      symlinkSync(linkText(pathText(target), depth), folder.pathOf(name))
    } catch (error) {
      if (error instanceof AgentFailure)
        return 'is a link that leads, or seems to lead, out of the folder of the server'
      if (codeOf(error) === 'EEXIST') return 'is a link and something else in the same archive'
      throw error
    }
    if (this.#uid !== undefined) folder.giveEntry(name, this.#uid, (facts) => facts.isSymbolicLink())
    return undefined
  }

  #checkRatio(entry: ArchiveEntry, bytes: number): void {
    if (entry.kind === 'hard link') return
    if (Math.max(this.done.bytes, bytes) > mostBytes(this.#options.readBytes())) {
      throw tooMuch(`more than ${ARCHIVE_LIMITS.ratio} times its own size`)
    }
  }

  #checkOn(): void {
    if (this.#options.signal.aborted) throw cancelled()
    if (this.#options.monotonicMs() > this.#until) throw tooMuch(TOO_LONG)
  }

  #spend(bytes: number): void {
    this.#roomBytes -= bytes
    if (this.#roomBytes < 0) throw noSpace()
    this.#options.spend?.(bytes)
  }

  #count(): void {
    this.done.entries++
    this.#report()
  }

  #report(): void {
    this.#options.progress({ ...this.done })
  }
}

function joined(names: readonly Buffer[]): Buffer {
  return Buffer.from(names.map((name) => name.toString('latin1')).join('/'), 'latin1')
}

const LINK_OUTSIDE = 'is a link that leads where your access to this server does not reach'

/** The place that a link names, read as it stands; whether it leads out is found out when it is made. */
function leadsTo(path: string, target: Buffer): string {
  const names = path
    .split('/')
    .filter((name) => name !== '' && name !== '.')
    .slice(0, -1)
  for (const name of pathText(target).split('/')) {
    if (name === '..') names.pop()
    else names.push(name)
  }
  return `/${names.join('/')}`
}

/** A further name of a file that has not come. */
class NoTarget extends Error {
  constructor() {
    super('is a further name of what is no file of the archive before it')
  }
}

/** The names of an entry's path; throws ARCHIVE_UNSUPPORTED for a path that leads out, which no honest archive has. */
function namesOf({ name }: Pick<ArchiveEntry, 'name'>): Buffer[] {
  const text = name.toString('latin1')
  const names = text.split('/').filter((part) => part !== '' && part !== '.')
  const isOut = text.startsWith('/') || names.includes('..') || text.includes('\0')
  const shown = pathText(name.subarray(0, 200))
  if (isOut)
    throw new AgentFailure('ARCHIVE_UNSUPPORTED', `It is an archive with an entry that leads out of it: ${shown}`)
  const isLong = text.length > MOST_PATH || names.some((part) => part.length > MOST_NAME_BYTES)
  if (isLong || names.length > ARCHIVE_LIMITS.depth) {
    throw new AgentFailure('ARCHIVE_UNSUPPORTED', `It is an archive with a path that is too long or too deep: ${shown}`)
  }
  return names.map((part) => Buffer.from(part, 'latin1'))
}

/** How many bytes may come of so many that were read of an archive. */
export function mostBytes(readBytes: number): number {
  return Math.max(ARCHIVE_LIMITS.ratioFromBytes, readBytes * ARCHIVE_LIMITS.ratio)
}

/** What an archive has that takes longer than any may. */
export const TOO_LONG = 'more than half an hour of work'

/** An archive is refused for how much it has of something. */
export function tooMuch(what: string): AgentFailure {
  return new AgentFailure(
    'NO_SPACE',
    `The archive is not unpacked: it has ${what}, as archives have that are meant to fill a disk`,
  )
}

function takenAway(): AgentFailure {
  return new AgentFailure('CONFLICT_STATE', 'What was unpacked was moved away meanwhile; try again')
}
