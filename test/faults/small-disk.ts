import { execFile } from 'node:child_process'
import { chmod, cp, mkdtemp, open, rm, stat, symlink, truncate } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const CHUNK = Buffer.alloc(64 * 1024, 1)

/** A file system in memory of a few MiB, which can be filled up and made room in. Mounting takes root. */
export class SmallDisk {
  readonly folder: string
  readonly #filler: string

  /** A mounted disk; `undefined` where this machine does not let the test mount one. */
  static async mount(mib: number): Promise<SmallDisk | undefined> {
    const folder = await mkdtemp(join(tmpdir(), 'panel-disk-'))
    try {
      await run('mount', ['-t', 'tmpfs', '-o', `size=${mib}m,mode=0711`, 'tmpfs', folder])
    } catch {
      await rm(folder, { recursive: true })
      return undefined // no root, or a container without the right: the caller skips and says so
    }
    return new SmallDisk(folder)
  }

  private constructor(folder: string) {
    this.folder = folder
    this.#filler = join(folder, 'filler')
  }

  /** Moves a folder onto the disk and leaves a link in its place. Nobody may be at work in it. */
  async take(folder: string): Promise<void> {
    await cp(folder, this.folder, { recursive: true, preserveTimestamps: true })
    await rm(folder, { recursive: true })
    await this.link(folder)
  }

  /** Makes `path` a name of the disk's folder. */
  async link(path: string): Promise<void> {
    await chmod(this.folder, 0o711)
    await symlink(this.folder, path)
  }

  /** Leaves no byte free. */
  async fill(): Promise<void> {
    const file = await open(this.#filler, 'a')
    try {
      for (const piece of [CHUNK, CHUNK.subarray(0, 512)]) await writeUntilFull(file, piece)
    } finally {
      await file.close()
    }
  }

  /** Leaves so many bytes free. */
  async leave(bytes: number): Promise<void> {
    await this.fill()
    const { size } = await stat(this.#filler)
    await truncate(this.#filler, size - bytes)
  }

  /** There is room again. */
  async clear(): Promise<void> {
    await rm(this.#filler, { force: true })
  }

  async unmount(): Promise<void> {
    await run('umount', [this.folder])
    await rm(this.folder, { recursive: true })
  }
}

async function writeUntilFull(file: Awaited<ReturnType<typeof open>>, piece: Buffer): Promise<void> {
  try {
    for (;;) await file.write(piece)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error
  }
}
