import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { deserialize, serialize } from 'node:v8'
import type { Faults } from './options.ts'
import type { SimWorld } from './rows.ts'

/** What a source is when it is started again in the folder that it had before. */
export interface SavedState {
  readonly world: SimWorld
  readonly faults: Faults
  /** As it was found; see `SourceSimulator.changes`. */
  readonly found: unknown
  readonly ports: { readonly panel: number; readonly store: number; readonly wings: ReadonlyMap<number, number> }
}

const FILE = 'source.state'

/** What was kept in a folder; `undefined`: nothing was. */
export async function readState(folder: string): Promise<SavedState | undefined> {
  try {
    return deserialize(await readFile(join(folder, FILE))) as SavedState
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}

/** Keeps what a source is after each change, so that a kill costs nothing that was answered a moment before. */
export class StateSaver {
  readonly #folder: string
  readonly #state: () => SavedState
  #isStale = false
  #writing: Promise<void> | undefined

  constructor(folder: string, state: () => SavedState) {
    this.#folder = folder
    this.#state = state
  }

  /** Resolves when what is so now is kept. */
  async save(): Promise<void> {
    this.#isStale = true
    this.#writing ??= this.#write()
    await this.#writing
  }

  async #write(): Promise<void> {
    while (this.#isStale) {
      this.#isStale = false
      const to = join(this.#folder, FILE)
      await writeFile(`${to}.new`, serialize(this.#state()))
      await rename(`${to}.new`, to)
    }
    this.#writing = undefined
  }
}
