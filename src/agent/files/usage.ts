import { FILE_LIMITS } from '../../shared/protocol/file-operations.ts'
import { cancelled, jsonBytes } from './list.ts'
import { isPart, MOST_PATH_BYTES, pathBelow, pathIn, withFolder } from './place.ts'
import type { ManyOptions } from './remove.ts'
import { type WalkPosition, walk } from './walk.ts'

/** A folder with all below it. */
export interface FolderUsage {
  readonly path: string
  /** As sizes say; holes count as if they were full. */
  readonly bytes: number
  /** What it takes on the disk. */
  readonly allocated: number
  readonly entries: number
}

interface Sum {
  bytes: number
  allocated: number
  entries: number
}

/**
 * What a folder and those below it take, up to `depth` below; the `limit` largest of them are answered. A file with several names is
 * counted once, links are never followed.
 */
export async function folderUsage(
  root: string,
  path: string,
  { depth: most, limit, rules, signal, progress }: ManyOptions & { readonly depth: number; readonly limit: number },
): Promise<Omit<FolderUsage, 'path'> & { folders: FolderUsage[] }> {
  return await withFolder(root, path, async (folder) => {
    const largest = new Largest(limit)
    const seen = new Set<number>()
    const first = folder.stat().blocks * 512
    const sums: Sum[] = [{ bytes: 0, allocated: first, entries: 0 }]
    const counted = { entries: 0, bytes: 0 }
    /** What is below is added to what is above. */
    const stepUp = (depth: number): Sum => {
      let last: Sum = sums[0] ?? { bytes: 0, allocated: 0, entries: 0 }
      while (sums.length - 1 > depth) {
        last = sums.pop() ?? last
        const above = sums.at(-1)
        if (above === undefined) break
        above.bytes += last.bytes
        above.allocated += last.allocated
        above.entries += last.entries
      }
      return last
    }
    const add = (depth: number, bytes: number, allocated: number): void => {
      const sum = sums[depth]
      if (sum === undefined) return
      sum.bytes += bytes
      sum.allocated += allocated
      sum.entries++
      counted.entries++
      counted.bytes += bytes
      progress({ ...counted })
    }
    const isHidden = (at: WalkPosition, name: Buffer, isFolder: boolean): boolean => {
      if (!rules.hides) return false
      const found = pathIn(at.path(MOST_PATH_BYTES), name)
      return found === undefined || rules.isHidden(pathBelow(path, found), isFolder)
    }
    await walk(
      folder,
      {
        entry: (inner, name, at) => {
          stepUp(at.depth)
          if (isHidden(at, name, false)) return
          const facts = inner.statOf(name)
          if (facts === undefined) return
          if (facts.nlink > 1 && !facts.isDirectory()) {
            if (seen.has(facts.ino)) return
            seen.add(facts.ino)
          }
          add(at.depth, facts.isFile() ? facts.size : 0, facts.blocks * 512)
        },
        enter: (inner, name, above) => {
          stepUp(above.depth)
          if (isHidden(above, name, true)) return false
          add(above.depth, 0, 0)
          sums.push({ bytes: 0, allocated: inner.stat().blocks * 512, entries: 0 })
          return true
        },
        leave: (_inner, name, at) => {
          const sum = stepUp(at.depth)
          if (at.depth >= most || isPart(name.toString('latin1'))) return
          const found = pathIn(at.path(MOST_PATH_BYTES), name)
          if (found !== undefined) largest.add({ path: pathBelow(path, found), ...sum })
        },
      },
      () => signal.aborted,
    )
    if (signal.aborted) throw cancelled()
    stepUp(0)
    const all = sums[0] ?? { bytes: 0, allocated: first, entries: 0 }
    return { ...all, folders: largest.answer() }
  })
}

/** The largest of many. */
class Largest {
  readonly #limit: number
  #folders: FolderUsage[] = []

  constructor(limit: number) {
    this.#limit = limit
  }

  add(folder: FolderUsage): void {
    this.#folders.push(folder)
    if (this.#folders.length >= 2 * this.#limit + 100) this.#cut()
  }

  answer(): FolderUsage[] {
    this.#cut()
    let left = FILE_LIMITS.answerBytes
    return this.#folders.filter(({ path }) => {
      left -= 100 + jsonBytes(path)
      return left >= 0
    })
  }

  #cut(): void {
    this.#folders.sort((a, b) => b.allocated - a.allocated || (a.path < b.path ? -1 : 1))
    this.#folders = this.#folders.slice(0, this.#limit)
  }
}
