import { mkdirSync, opendirSync, statfsSync } from 'node:fs'
import { runProgram } from './programs.ts'
import { type QuotaBackend, type QuotaClaim, type QuotaFolder, QuotaProblem } from './quota.ts'

/** A folder with millions of files is marked once, before its server starts. */
const MARK_MS = 30 * 60_000
const KIB_PER_MIB = 1024
const MIB = 1024 * 1024
/** A file that holds anything takes a block of 4 KiB, so this many are in the way of empty ones alone. */
const FILES_PER_MIB = 256
const MORE_FILES = 1000

/** The file system of the data folder, as the kernel lists it. */
interface Place {
  readonly type: 'ext4' | 'xfs'
  readonly mountPoint: string
}

/** Project quota of ext4 and xfs: every file has the id of its server, and new ones get that of their folder. */
export class ProjectQuota implements QuotaBackend {
  readonly name = 'project quota' as const
  readonly #place: Place

  constructor(place: Place) {
    this.#place = place
  }

  async claim({ path, id, isWhole, mayTakeOver }: QuotaClaim): Promise<QuotaFolder> {
    mkdirSync(path, { recursive: true, mode: 0o700 })
    const present = await projectOf(path)
    if (present === id && isWhole) return { path, id }
    if (isEmpty(path)) {
      await mark(['-p', String(id), '+P', path])
    } else {
      if (!mayTakeOver) throw new QuotaProblem('its files are taken over at its next start')
      // Devices, sockets and links have no mark of their own: the program says so of each, and goes on.
      await runProgram('chattr', ['-R', '-f', '-p', String(id), path], MARK_MS)
      // Of files ext4 refuses this one, and with it whatever comes in the same call.
      await runProgram('chattr', ['-R', '-f', '+P', path], MARK_MS)
    }
    if ((await projectOf(path)) !== id) throw new QuotaProblem('the file system does not keep the mark of its folder')
    return { path, id }
  }

  async limit({ path, id }: QuotaFolder, limitMb: number): Promise<void> {
    await this.#set(id, limitMb)
    if (limitMb <= 0) return
    const { blocks, bsize } = statfsSync(path)
    // The kernel answers for such a folder with its limit in place of the size of the file system.
    const whole = statfsSync(this.#place.mountPoint)
    const isSmaller = limitMb * MIB < whole.blocks * whole.bsize
    if (isSmaller && blocks * bsize > (limitMb + 1) * MIB) {
      throw new QuotaProblem('the file system counts, and does not hold the limit (it is mounted without enforcement)')
    }
  }

  async usedBytes({ path }: QuotaFolder): Promise<number | null> {
    const here = statfsSync(path)
    const whole = statfsSync(this.#place.mountPoint)
    // Without a limit below its size the file system speaks of itself.
    if (here.blocks * here.bsize >= whole.blocks * whole.bsize) return null
    return (here.blocks - here.bfree) * here.bsize
  }

  async release(id: number): Promise<boolean> {
    await this.#set(id, 0)
    return true
  }

  async #set(id: number, limitMb: number): Promise<void> {
    const { type, mountPoint } = this.#place
    const kib = Math.max(0, limitMb) * KIB_PER_MIB
    const files = limitMb > 0 ? limitMb * FILES_PER_MIB + MORE_FILES : 0
    const args = ['-P', String(id), '0', String(kib), '0', String(files), mountPoint]
    const set = await runProgram('setquota', args)
    if (set.ok) return
    if (type !== 'xfs') throw new QuotaProblem(set.problem)
    const words = `limit -p bsoft=0 bhard=${kib}k isoft=0 ihard=${files} ${id}`
    const other = await runProgram('xfs_quota', ['-x', '-c', words, mountPoint])
    if (!other.ok) throw new QuotaProblem(`${set.problem}; ${other.problem}`)
  }
}

async function mark(args: readonly string[]): Promise<void> {
  const marked = await runProgram('chattr', args)
  if (!marked.ok) throw new QuotaProblem(marked.problem)
}

/** The project that a folder is counted for, when what comes into it is counted as well. */
async function projectOf(path: string): Promise<number | null> {
  const listed = await runProgram('lsattr', ['-p', '-d', path])
  if (!listed.ok) throw new QuotaProblem(listed.problem)
  const [project, flags] = listed.stdout.trim().split(/\s+/, 2)
  return flags?.includes('P') === true ? Number(project) : null
}

/** Whether nothing is in the folder. */
export function isEmpty(path: string): boolean {
  const folder = opendirSync(path)
  try {
    return folder.readSync() === null
  } finally {
    folder.closeSync()
  }
}
