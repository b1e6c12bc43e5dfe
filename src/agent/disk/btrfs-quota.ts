import { chmodSync, lstatSync, rmdirSync, type Stats } from 'node:fs'
import type { Clock } from '../../shared/kernel/time.ts'
import { runProgram } from './programs.ts'
import { isEmpty } from './project-quota.ts'
import { type QuotaBackend, type QuotaClaim, type QuotaFolder, QuotaProblem } from './quota.ts'

/** The inode of every subvolume's own folder. */
const SUBVOLUME_INODE = 256
const MIB = 1024 * 1024
/** One list for all servers is good for so long. */
const LIST_MS = 4000

/** Quota groups of btrfs: the folder of a server is a subvolume, whose group has the limit. */
export class BtrfsQuota implements QuotaBackend {
  readonly name = 'btrfs quota' as const
  readonly #folder: string
  readonly #clock: Clock
  #list: { readonly atMs: number; readonly groups: Promise<ReadonlyMap<number, number>> } | undefined

  /** `folder` is any folder of the file system. */
  constructor(folder: string, clock: Clock) {
    this.#folder = folder
    this.#clock = clock
  }

  async claim({ path, mayTakeOver }: QuotaClaim): Promise<QuotaFolder> {
    let there = factsOf(path)
    if (there !== undefined && there.ino !== SUBVOLUME_INODE) {
      if (!there.isDirectory() || !mayTakeOver || !isEmpty(path)) {
        throw new QuotaProblem(
          'its folder was made as a plain one, which btrfs cannot count: copy its files into a subvolume of that name to have it held',
        )
      }
      rmdirSync(path)
      there = undefined
    }
    if (there === undefined) await this.make(path)
    const id = Number((await btrfs('inspect-internal', 'rootid', path)).trim())
    if (!Number.isInteger(id)) throw new QuotaProblem('btrfs does not say the id of its folder')
    return { path, id }
  }

  async make(path: string): Promise<void> {
    await btrfs('subvolume', 'create', path)
    chmodSync(path, 0o700)
  }

  async limit({ path }: QuotaFolder, limitMb: number): Promise<void> {
    await btrfs('qgroup', 'limit', limitMb > 0 ? String(limitMb * MIB) : 'none', path)
  }

  async usedBytes({ id }: QuotaFolder): Promise<number | null> {
    const now = this.#clock.monotonicMs()
    if (this.#list === undefined || now - this.#list.atMs > LIST_MS) this.#list = { atMs: now, groups: this.#groups() }
    return (await this.#list.groups).get(id) ?? null
  }

  async release(id: number): Promise<boolean> {
    // The group of a folder that was removed is busy until the file system has cleared it away.
    return (await runProgram('btrfs', ['qgroup', 'destroy', `0/${id}`, this.#folder])).ok || !(await this.#has(id))
  }

  async #has(id: number): Promise<boolean> {
    return (await this.#groups()).has(id)
  }

  async #groups(): Promise<Map<number, number>> {
    const text = await btrfs('qgroup', 'show', '--raw', this.#folder)
    const groups = new Map<number, number>()
    for (const line of text.split('\n')) {
      const [name = '', referenced] = line.trim().split(/\s+/, 2)
      if (name.startsWith('0/')) groups.set(Number(name.slice(2)), Number(referenced))
    }
    return groups
  }
}

async function btrfs(...args: string[]): Promise<string> {
  const said = await runProgram('btrfs', args)
  if (!said.ok) throw new QuotaProblem(said.problem)
  return said.stdout
}

function factsOf(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false })
}
