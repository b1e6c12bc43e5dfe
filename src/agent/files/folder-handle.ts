import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  type Dir,
  type Dirent,
  fchmodSync,
  fchownSync,
  fstatSync,
  lstatSync,
  opendirSync,
  openSync,
  readFileSync,
  readlinkSync,
  rmdirSync,
  type Stats,
  unlinkSync,
} from 'node:fs'

/** `O_PATH` of Linux: a descriptor that names an entry, whatever it is, without opening it. Node does not export it. */
const O_PATH = 0o10000000
const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
const NO_NAME = 'not a name of an entry'
const ENTRIES_AT_ONCE = 512
/** Names come as the bytes that they are: a name need not be UTF-8. The types of Node know of encodings only. */
const BYTES: string = 'buffer'

/** One entry of a folder as its listing shows it. `isFolder` is a hint: it may have been replaced since. */
export interface FolderEntry {
  readonly name: Buffer
  readonly isFolder: boolean
}

/**
 * A directory that is held open. Its entries are named through the descriptor, which is what `openat` and its kin do for
 * programs in C: a path stays short however deep the folder lies, no link is ever followed, and a folder that is renamed or
 * replaced by a link meanwhile is still the one that was opened.
 */
export class FolderHandle {
  readonly fd: number
  readonly device: bigint
  readonly inode: bigint
  readonly #prefixText: string
  readonly #prefix: Buffer
  #mount: string | undefined

  private constructor(fd: number) {
    this.fd = fd
    this.#prefixText = `/proc/self/fd/${fd}/`
    this.#prefix = Buffer.from(this.#prefixText)
    const { dev, ino } = fstatSync(fd, { bigint: true })
    this.device = dev
    this.inode = ino
  }

  /** Opens a real directory; `undefined` for anything else, a link among it, and for nothing. */
  static open(path: string | Buffer): FolderHandle | undefined {
    const fd = openFolder(path)
    return fd === undefined ? undefined : new FolderHandle(fd)
  }

  /** The path of an entry, for one system call. A name with a slash in it, `.` and `..` are refused. */
  pathOf(name: Buffer): Buffer {
    if (!isName(name.toString('latin1'))) throw new RangeError(NO_NAME)
    return this.within(name)
  }

  /** A folder in this one; one that its owner has closed is opened for its owner. `undefined` when it is no folder now. */
  child(name: Buffer): FolderHandle | undefined {
    const path = this.pathOf(name)
    try {
      return FolderHandle.open(path)
    } catch (error) {
      if (codeOf(error) !== 'EACCES' || !this.unlock(path)) throw error
      return FolderHandle.open(path)
    }
  }

  /** The folder above, wherever this one is now: the caller compares it with the one that it came from. */
  above(): FolderHandle | undefined {
    return FolderHandle.open(this.within(Buffer.from('..')))
  }

  isSame(device: bigint, inode: bigint): boolean {
    return this.device === device && this.inode === inode
  }

  /** Names the mount that the folder is in; a folder can be mounted into another of the same device. */
  mount(): string | undefined {
    this.#mount ??= /^mnt_id:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${this.fd}`, 'latin1'))?.[1]
    return this.#mount
  }

  /** The entries one after the other; a folder with a million of them is never in memory as a whole. */
  *entries(): Generator<FolderEntry> {
    const encoding = BYTES as BufferEncoding // see BYTES
    const listing = opendirSync(`/proc/self/fd/${this.fd}`, { encoding, bufferSize: ENTRIES_AT_ONCE })
    try {
      for (let entry = next(listing); entry !== null; entry = next(listing)) {
        const name: unknown = entry.name
        if (!Buffer.isBuffer(name)) throw new TypeError('a listing without bytes')
        yield { name, isFolder: entry.isDirectory() }
      }
    } finally {
      listing.closeSync()
    }
  }

  /** The names of the entries, each byte as the character of that code: they sort as bytes do. */
  *names(): Generator<string> {
    const listing = opendirSync(`/proc/self/fd/${this.fd}`, { encoding: 'latin1', bufferSize: ENTRIES_AT_ONCE })
    try {
      for (let entry = next(listing); entry !== null; entry = next(listing)) yield entry.name
    } finally {
      listing.closeSync()
    }
  }

  stat(): Stats {
    return fstatSync(this.fd)
  }

  /** Facts of an entry, of the link itself where it is one; `undefined` when it is gone. */
  statOf(name: Buffer): Stats | undefined {
    try {
      return lstatSync(this.pathOf(name))
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return undefined
      throw error
    }
  }

  /** The same of a name of ASCII, which is its own bytes: without a buffer for each entry of a large folder. */
  statOfAscii(name: string): Stats | undefined {
    if (!isName(name)) throw new RangeError(NO_NAME)
    try {
      return lstatSync(this.#prefixText + name)
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return undefined
      throw error
    }
  }

  /** What a link says; `undefined` when it is none, or gone. */
  linkTarget(name: Buffer): Buffer | undefined {
    try {
      const text = readlinkSync(this.pathOf(name), BYTES as BufferEncoding) as unknown // see BYTES
      return Buffer.isBuffer(text) ? text : undefined
    } catch (error) {
      if (codeOf(error) === 'ENOENT' || codeOf(error) === 'EINVAL') return undefined
      throw error
    }
  }

  give(uid: number): void {
    fchownSync(this.fd, uid, uid)
  }

  setMode(mode: number): void {
    fchmodSync(this.fd, mode)
  }

  /**
   * Gives an entry to a user, the link itself where it is one, when `may` allows it. What is looked at is what is given,
   * also when something else takes the name in between.
   */
  giveEntry(name: Buffer, uid: number, may: (facts: Stats) => boolean): void {
    let fd: number
    try {
      fd = openSync(this.pathOf(name), O_PATH | constants.O_NOFOLLOW)
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return
      throw error
    }
    try {
      if (may(fstatSync(fd))) chownSync(`/proc/self/fd/${fd}`, uid, uid)
    } finally {
      closeSync(fd)
    }
  }

  /**
   * Sets the mode of an entry when `may` allows what it is: what is looked at is what is changed, and a link is never followed.
   * `false` when it is gone, or not allowed.
   */
  setModeOf(name: Buffer, mode: number, may: (facts: Stats) => boolean): boolean {
    let fd: number
    try {
      fd = openSync(this.pathOf(name), O_PATH | constants.O_NOFOLLOW)
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return false
      throw error
    }
    try {
      const facts = fstatSync(fd)
      if (facts.isSymbolicLink() || !may(facts)) return false
      chmodSync(`/proc/self/fd/${fd}`, mode)
      return true
    } finally {
      closeSync(fd)
    }
  }

  /** Removes an entry that is no folder. `false` when it is one. */
  unlink(name: Buffer): boolean {
    const path = this.pathOf(name)
    try {
      unlinkSync(path)
    } catch (error) {
      const code = codeOf(error)
      if (code === 'ENOENT') return true
      if (code !== 'EISDIR' && code !== 'EPERM') throw error
      if (code === 'EPERM' && this.statOf(name)?.isDirectory() === false) throw error
      return false
    }
    return true
  }

  /** Removes an empty folder, or whatever has taken its name meanwhile. `false` when it is not empty. */
  removeFolder(name: Buffer): boolean {
    try {
      rmdirSync(this.pathOf(name))
    } catch (error) {
      const code = codeOf(error)
      if (code === 'ENOENT') return true
      if (code === 'ENOTEMPTY' || code === 'EEXIST') return false
      if (code !== 'ENOTDIR') throw error
      return this.unlink(name)
    }
    return true
  }

  close(): void {
    closeSync(this.fd)
  }

  private within(name: Buffer): Buffer {
    return Buffer.concat([this.#prefix, name])
  }

  /** Where agent and game are one user, a game can close a folder to hide what is in it or to keep it from being removed. */
  private unlock(path: Buffer): boolean {
    const fd = openSync(path, O_PATH | constants.O_NOFOLLOW | constants.O_DIRECTORY)
    try {
      const facts = fstatSync(fd)
      if (facts.uid !== process.getuid?.() || (facts.mode & 0o700) === 0o700) return false
      chmodSync(`/proc/self/fd/${fd}`, (facts.mode & 0o777) | 0o700)
      return true
    } finally {
      closeSync(fd)
    }
  }
}

/** The code of a failed system call. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

function isName(text: string): boolean {
  return text !== '' && text !== '.' && text !== '..' && !text.includes('/') && !text.includes('\0')
}

function openFolder(path: string | Buffer): number | undefined {
  try {
    return openSync(path, FOLDER)
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOTDIR' || code === 'ELOOP' || code === 'ENOENT') return undefined
    throw error
  }
}

/** A folder that is removed while it is read has no entries any more. */
function next(listing: Dir): Dirent | null {
  try {
    return listing.readSync()
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  }
}
