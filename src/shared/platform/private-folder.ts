import { closeSync, constants, fchmodSync, fstatSync, lstatSync, mkdirSync, openSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { basename, dirname } from 'node:path'

/** The longest path of a unix socket that Node does not silently cut. */
const MAX_SOCKET_PATH = 100

/** A folder or a socket that somebody else may have made, or may get at. */
export class ExposedPath extends Error {
  override readonly name = 'ExposedPath'
  readonly code = 'EXPOSED_PATH'
}

/**
 * A folder that only its owner can enter, held open: what is reached through it lies in the very folder that was checked,
 * whatever happens to the path, and may have a path of any length.
 */
export class PrivateFolder {
  readonly path: string
  readonly #fd: number

  private constructor(path: string, fd: number) {
    this.path = path
    this.#fd = fd
  }

  /** Makes it where it is missing; one's own that others may enter is closed to them. */
  static make(path: string): PrivateFolder {
    mkdirSync(path, { recursive: true, mode: 0o700 })
    return PrivateFolder.#opened(path, (fd) => {
      const { uid, mode } = fstatSync(fd)
      if (uid === process.getuid?.() && (mode & 0o777) !== 0o700) fchmodSync(fd, 0o700)
    })
  }

  /** Refuses one of another user, one that others may enter, and a link to any. */
  static open(path: string): PrivateFolder {
    return PrivateFolder.#opened(path, () => undefined)
  }

  static #opened(path: string, before: (fd: number) => void): PrivateFolder {
    let fd: number
    try {
      fd = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
    } catch (error) {
      if (codeOf(error) === 'EACCES') throw new ExposedPath(`${path} belongs to another user`)
      if (codeOf(error) !== 'ELOOP' && codeOf(error) !== 'ENOTDIR') throw error
      throw new ExposedPath(`${path} is no folder, or a link to one`)
    }
    try {
      before(fd)
      check(path, fstatSync(fd))
      return new PrivateFolder(path, fd)
    } catch (error) {
      closeSync(fd)
      throw error
    }
  }

  /** The path of an entry through the open folder; good while it is open. */
  inside(name: string): string {
    return `/proc/self/fd/${this.#fd}/${name}`
  }

  /** Where a server listens: the plain path, which other programs can show, unless it is too long for a socket. */
  socketPath(name: string): string {
    const plain = `${this.path}/${name}`
    return Buffer.byteLength(plain) <= MAX_SOCKET_PATH ? plain : this.inside(name)
  }

  /** Refuses what is no socket, a socket of another user, and with `strict` one that others may write to. */
  checkSocket(name: string, strict: boolean): void {
    const path = `${this.path}/${name}`
    const facts = lstatSync(this.inside(name))
    if (!facts.isSocket()) throw new ExposedPath(`${path} is no socket`)
    check(path, strict ? facts : { uid: facts.uid, mode: 0 })
  }

  close(): void {
    closeSync(this.#fd)
  }
}

/** Connects to a unix socket in a private folder, after a look at both. Without a socket it fails as a dead one does. */
export async function connectPrivately(path: string, strict = true): Promise<Socket> {
  let folder: PrivateFolder | undefined
  try {
    folder = PrivateFolder.open(dirname(path))
    folder.checkSocket(basename(path), strict)
    return await connected(folder.inside(basename(path)))
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error
    throw Object.assign(new Error(`nothing listens on ${path}`, { cause: error }), { code: 'ECONNREFUSED' })
  } finally {
    folder?.close()
  }
}

function connected(path: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(path)
    socket.once('error', reject)
    socket.once('connect', () => {
      socket.off('error', reject)
      resolve(socket)
    })
  })
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

function check(path: string, { uid, mode }: { readonly uid: number; readonly mode: number }): void {
  if (uid !== 0 && uid !== process.getuid?.()) throw new ExposedPath(`${path} belongs to another user (uid ${uid})`)
  if ((mode & 0o077) !== 0) {
    throw new ExposedPath(`${path} is open to other users (mode ${(mode & 0o777).toString(8)}); run: chmod go= ${path}`)
  }
}
