import { fstatSync } from 'node:fs'
import type { FolderHandle } from './folder-handle.ts'

/** Names of a folder that are kept, and bytes of them; a larger one is read for each page. */
const MOST_NAMES = 100_000
const MOST_BYTES = 4 * 1024 * 1024
/** Nobody has listed the folder for so long: the names are forgotten. */
const KEPT_MS = 30_000
/** A file system may give two changes within so long the same time. */
const GRAIN_MS = 2000

/** What is kept of one folder. */
interface Listed {
  readonly state: string
  readonly names: readonly string[]
  readonly forgets: NodeJS.Timeout
}

/**
 * The sorted names of the folder that was listed last, so that its next page does not read all of it again. They are those that a new
 * reading would find: a folder has another time after each change of its entries, and one that has changed just now is not kept.
 */
export class ListedNames {
  #last: Listed | undefined

  /** The names as they are now, where they are known. */
  of(folder: FolderHandle): readonly string[] | undefined {
    if (this.#last?.state !== stateOf(folder).state) return undefined
    this.#last.forgets.refresh()
    return this.#last.names
  }

  /**
   * Keeps what `read` finds, when that is all of a folder that nobody changes meanwhile. `undefined`: the folder has more names than are
   * kept. `nowMs`: milliseconds since the epoch.
   */
  async keep(
    folder: FolderHandle,
    nowMs: number,
    read: (most: { readonly names: number; readonly bytes: number }) => Promise<string[] | undefined>,
  ): Promise<string[] | undefined> {
    const before = stateOf(folder)
    this.#forget()
    const names = await read({ names: MOST_NAMES, bytes: MOST_BYTES })
    if (names === undefined) return undefined
    names.sort()
    const isSettled = nowMs - before.changedMs > GRAIN_MS && stateOf(folder).state === before.state
    this.#forget()
    if (isSettled) {
      this.#last = { state: before.state, names, forgets: setTimeout(() => this.#forget(), KEPT_MS).unref() }
    }
    return names
  }

  #forget(): void {
    clearTimeout(this.#last?.forgets)
    this.#last = undefined
  }
}

/** Which folder it is, and when its entries have changed last. */
function stateOf({ fd }: FolderHandle): { readonly state: string; readonly changedMs: number } {
  const { dev, ino, ctimeNs, mtimeNs, ctimeMs } = fstatSync(fd, { bigint: true })
  return { state: `${dev} ${ino} ${ctimeNs} ${mtimeNs}`, changedMs: Number(ctimeMs) }
}
