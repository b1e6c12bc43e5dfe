import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const ROOMY = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()

/** A file system of its own in a file, mounted by a loop device. Everything is removed by `leave`. */
export class DiskImage {
  readonly folder: string
  readonly #base: string

  /** `make` makes the file system in a file of that size; it is run with the file's path behind it. */
  constructor(make: readonly [string, ...string[]], sizeMb: number, options = 'loop') {
    this.#base = mkdtempSync(join(ROOMY, 'panel-disk-'))
    const file = join(this.#base, 'image')
    this.folder = mkdtempSync(join(tmpdir(), 'panel-mount-'))
    writeFileSync(file, '')
    truncateSync(file, sizeMb * 1024 * 1024)
    const [program, ...args] = make
    try {
      execFileSync(program, [...args, file], { stdio: 'pipe' })
      execFileSync('mount', ['-o', options, file, this.folder], { stdio: 'pipe' })
    } catch (error) {
      this.#remove()
      throw error
    }
  }

  leave(): void {
    execFileSync('umount', [this.folder], { stdio: 'pipe' })
    this.#remove()
  }

  #remove(): void {
    for (const folder of [this.folder, this.#base]) rmSync(folder, { recursive: true, force: true })
  }
}

/** Whether this machine makes and mounts a btrfs with quotas, by trial. */
export function canUseBtrfs(): boolean {
  if (process.getuid?.() !== 0) return false
  try {
    const image = btrfsImage()
    image.leave()
    return true
  } catch {
    return false // no loop devices, no btrfs in the kernel, or its programs are missing
  }
}

/** A btrfs with quotas switched on. */
export function btrfsImage(): DiskImage {
  const image = new DiskImage(['mkfs.btrfs', '-q'], 300)
  try {
    execFileSync('btrfs', ['quota', 'enable', image.folder], { stdio: 'pipe' })
    return image
  } catch (error) {
    image.leave()
    throw error
  }
}
