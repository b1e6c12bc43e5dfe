import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  ftruncateSync,
  futimesSync,
  mkdirSync,
  openSync,
  read,
  readSync,
  type Stats,
  symlinkSync,
  write,
  writeSync,
} from 'node:fs'
import { promisify } from 'node:util'
import { pathText } from '../../shared/kernel/path-text.ts'
import { TRANSFER_LIMITS } from '../../shared/protocol/files.ts'
import { AgentFailure } from '../failure.ts'
import { isWithin, moveInto } from './change.ts'
import { codeOf, FolderHandle } from './folder-handle.ts'
import { cancelled } from './list.ts'
import {
  factsIn,
  folderIn,
  isPart,
  MOST_PATH_BYTES,
  type Place,
  partName,
  pathIn,
  rootOwner,
  withPlace,
} from './place.ts'
import { Problems } from './problems.ts'
import { HIDDEN, KEPT, type PathRules } from './rules.ts'
import { Trail } from './trail.ts'
import { emptyHandle } from './tree.ts'
import { pacer, type WalkPosition, walk } from './walk.ts'

const { O_RDONLY, O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK } = constants
const PIECE_BYTES = 256 * 1024
/** An entry takes at least a block of its own. */
const BLOCK_BYTES = 4096
const ZEROS = Buffer.alloc(PIECE_BYTES)
const readAsync = promisify(read)
const writeAsync = promisify(write)

/** What a copy is made with. */
export interface CopyOptions {
  readonly from: string
  readonly to: string
  /** A file or link that is there is replaced; a folder never is. */
  readonly replace: boolean
  /** Counts bytes that are about to be written; throws NO_SPACE. */
  readonly spend: (bytes: number) => void
  readonly rules: PathRules
  /** Names what is on its way: the same again begins anew. */
  readonly key: string
  /** Milliseconds since the epoch. */
  readonly nowMs: number
  readonly signal: AbortSignal
  readonly progress: (report: { readonly entries: number; readonly bytes: number }) => void
}

/** What a copy has come to. */
export type Copied = Problems['answer'] & {
  readonly entries: number
  readonly bytes: number
}

/**
 * Copies a file, a link or a tree within a server. It is made under a name of the agent's own beside its place, and gets its name when
 * all of it is there: who looks meanwhile finds nothing, and what fails or is cancelled leaves nothing. Links are copied as what they
 * say; what is no file, folder or link, is closed to the agent or mounted there is left out and named. Holes stay holes.
 */
export async function copy(root: string, options: CopyOptions): Promise<Copied> {
  const { from, to, replace } = options
  return await withPlace(
    root,
    from,
    async (source) => {
      const facts = factsIn(source, from, { field: 'from' })
      options.rules.refuseHidden(from, facts.isDirectory())
      options.rules.refuseUnreached(to, facts.isDirectory())
      return await withPlace(
        root,
        to,
        async (target) => {
          if (isWithin(source, target.above)) throw inItself()
          const job = new Copy(options, rootOwner(root).uid)
          await removeOldTrees(target.folder, options.nowMs)
          const part = partName(options.key)
          await removePart(target.folder, part)
          try {
            await job.copyEntry(source, facts, { folder: target.folder, name: part })
            if (options.signal.aborted) throw cancelled()
            moveInto({ folder: target.folder, name: part }, target, { to, replace, isFolder: facts.isDirectory() })
          } catch (error) {
            await removePart(target.folder, part)
            throw error
          }
          return { ...job.done, ...job.problems.answer }
        },
        { field: 'to' },
      )
    },
    { field: 'from' },
  )
}

/** What was on its way and which nobody has gone on with for a day: of an agent that was killed. */
export async function removeOldTrees(folder: FolderHandle, nowMs: number): Promise<void> {
  for (const name of folder.names()) {
    if (!isPart(name)) continue
    const bytes = Buffer.from(name, 'latin1')
    const facts = folder.statOf(bytes)
    if (facts?.isDirectory() === true && nowMs - facts.mtimeMs > TRANSFER_LIMITS.partMs) await removePart(folder, bytes)
  }
}

/** Removes what is on its way under a name of the agent's own, a file or a tree. */
export async function removePart(folder: FolderHandle, part: Buffer): Promise<void> {
  const tree = folder.child(part)
  if (tree === undefined) return void folder.unlink(part)
  try {
    await emptyHandle(tree)
  } finally {
    tree.close()
  }
  folder.removeFolder(part)
}

function inItself(): AgentFailure {
  return new AgentFailure('PATH_INVALID', 'lies in what is to be copied', { field: 'to' })
}

type Spot = Pick<Place, 'folder' | 'name'>

class Copy {
  readonly problems = new Problems()
  readonly done = { entries: 0, bytes: 0 }
  readonly #options: CopyOptions
  readonly #uid: number | undefined
  readonly #piece = Buffer.allocUnsafe(PIECE_BYTES)
  readonly #mayGoOn: () => Promise<boolean>

  constructor(options: CopyOptions, uid: number) {
    this.#options = options
    this.#uid = process.getuid?.() === 0 ? uid : undefined
    this.#mayGoOn = pacer(() => options.signal.aborted)
  }

  async copyEntry(source: Place, facts: Stats, target: Spot): Promise<void> {
    if (facts.isDirectory()) {
      const folder = folderIn(source, this.#options.from, { field: 'from' })
      try {
        await this.#tree(folder, target)
      } finally {
        folder.close()
      }
      return
    }
    if (!facts.isFile() && !facts.isSymbolicLink()) {
      throw new AgentFailure('PATH_INVALID', 'names a FIFO, a socket or a device, which is not copied', {
        field: 'from',
      })
    }
    if (facts.isSymbolicLink()) this.#link(source, target)
    else if (!(await this.#file(source, target)))
      throw new AgentFailure('CONFLICT_STATE', 'The file was taken away meanwhile')
  }

  /** The copy is walked along beside its source, by handles as well. */
  async #tree(source: FolderHandle, target: Spot): Promise<void> {
    const copied = this.#folder(target)
    const trail = new Trail(copied)
    const modes: Stats[] = [source.stat()]
    const stepUp = (depth: number): void => {
      while (trail.depth > depth) {
        finishFolder(trail.current, modes[trail.depth])
        const to = trail.depth - 1
        if (trail.up() === undefined || trail.depth !== to) throw movedAway()
      }
    }
    try {
      await walk(
        source,
        {
          enter: (inner, name, above) => {
            stepUp(above.depth)
            // The copy itself, where somebody has moved one into the other meanwhile.
            if (inner.isSame(copied.device, copied.inode) || isPart(name.toString('latin1'))) return false
            if (this.#isKept(above, name, true)) return false
            const handle = this.#folder({ folder: trail.current, name })
            trail.down(name, handle)
            modes[trail.depth] = inner.stat()
            return true
          },
          entry: async (folder, name, at) => {
            if (isPart(name.toString('latin1')) || this.#isKept(at, name, false)) return
            stepUp(at.depth)
            const reason = await this.#one({ folder, name }, { folder: trail.current, name })
            if (reason !== undefined) this.problems.add(pathIn(at.path(MOST_PATH_BYTES), name), reason)
          },
          leave: (_folder, _name, at) => stepUp(at.depth),
        },
        () => this.#options.signal.aborted,
      )
      if (this.#options.signal.aborted) throw cancelled()
      stepUp(0)
      finishFolder(copied, modes[0])
    } finally {
      trail.close()
      copied.close()
    }
  }

  /** Whether whoever asks does not get it, where it is or where it would be. */
  #isKept(at: WalkPosition, name: Buffer, isFolder: boolean): boolean {
    const { rules, from, to } = this.#options
    const found = pathIn(at.path(MOST_PATH_BYTES), name)
    const below = found === undefined ? undefined : pathText(found)
    if (below === undefined) return false
    if ([from, to].some((path) => rules.isHidden(`${path}/${below}`, isFolder))) {
      this.problems.addOnce('/', HIDDEN)
      return true
    }
    const isKept = [from, to].some((path) => rules.isDenied(`${path}/${below}`, isFolder))
    if (isKept) this.problems.add(found, KEPT)
    return isKept
  }

  /** One entry that is no folder to walk through; answers why it is left out. */
  async #one(source: Spot, target: Spot): Promise<string | undefined> {
    const facts = source.folder.statOf(source.name)
    if (facts === undefined) return 'was taken away meanwhile'
    try {
      if (facts.isSymbolicLink()) this.#link(source, target)
      else if (facts.isDirectory()) return 'is closed to the agent, or something is mounted there'
      else if (!facts.isFile()) return 'is a FIFO, a socket or a device'
      else if (!(await this.#file(source, target))) return 'was taken away meanwhile'
    } catch (error) {
      if (codeOf(error) === 'EACCES' || codeOf(error) === 'EPERM') return 'is closed to the agent'
      throw error
    }
    return undefined
  }

  #folder({ folder, name }: Spot): FolderHandle {
    mkdirSync(folder.pathOf(name), { mode: 0o700 })
    const made = FolderHandle.open(folder.pathOf(name))
    if (made === undefined) throw movedAway()
    if (this.#uid !== undefined) made.give(this.#uid)
    this.#count(BLOCK_BYTES)
    return made
  }

  #link(source: Spot, { folder, name }: Spot): void {
    const text = source.folder.linkTarget(source.name)
    if (text === undefined) return
    symlinkSync(text, folder.pathOf(name))
    if (this.#uid !== undefined) folder.giveEntry(name, this.#uid, (facts) => facts.isSymbolicLink())
    this.#count(0)
  }

  /** False when there is no file any more. */
  async #file(source: Spot, target: Spot): Promise<boolean> {
    const from = openSource(source)
    if (from === undefined) return false
    try {
      const facts = fstatSync(from)
      if (!facts.isFile()) return false
      const to = openSync(target.folder.pathOf(target.name), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
      try {
        await this.#content(from, to, facts)
        if (this.#uid !== undefined) fchownSync(to, this.#uid, this.#uid)
        fchmodSync(to, facts.mode & 0o777)
        futimesSync(to, facts.atimeMs / 1000, facts.mtimeMs / 1000)
      } finally {
        closeSync(to)
      }
    } finally {
      closeSync(from)
    }
    this.#count(BLOCK_BYTES)
    return true
  }

  /** A small file is copied at once, of a larger one each piece waits for the disk without holding the agent up. */
  async #content(from: number, to: number, { size, blocks }: Stats): Promise<void> {
    const isSmall = size <= PIECE_BYTES
    for (let at = 0; blocks > 0 && at < size; ) {
      if (!(await this.#mayGoOn())) throw cancelled()
      const read = isSmall
        ? readSync(from, this.#piece, 0, PIECE_BYTES, at)
        : (await readAsync(from, this.#piece, 0, PIECE_BYTES, at)).bytesRead
      if (read === 0) break
      const piece = this.#piece.subarray(0, read)
      if (!piece.equals(ZEROS.subarray(0, read))) {
        this.#options.spend(read)
        for (let done = 0; done < read; ) {
          done += isSmall
            ? writeSync(to, piece, done, read - done, at + done)
            : (await writeAsync(to, piece, done, read - done, at + done)).bytesWritten
        }
      }
      at += read
      this.done.bytes += read
      this.#report()
    }
    ftruncateSync(to, size) // a hole at the end has no bytes that were written
  }

  #count(bytes: number): void {
    this.#options.spend(bytes)
    this.done.entries++
    this.#report()
  }

  #report(): void {
    this.#options.progress({ ...this.done })
  }
}

function openSource({ folder, name }: Spot): number | undefined {
  try {
    if (folder.statOf(name)?.isFile() !== true) return undefined
    return openSync(folder.pathOf(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT' || code === 'ELOOP' || code === 'ENXIO') return undefined
    throw error
  }
}

function finishFolder(folder: FolderHandle, facts: Stats | undefined): void {
  if (facts === undefined) return
  folder.setMode(facts.mode & 0o777)
  futimesSync(folder.fd, facts.atimeMs / 1000, facts.mtimeMs / 1000)
}

function movedAway(): AgentFailure {
  return new AgentFailure('CONFLICT_STATE', 'Folders of the copy were moved while it was made; try again')
}
