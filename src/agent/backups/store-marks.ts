import { lstat, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { AgentFailure } from '../failure.ts'
import { codeOf } from '../files/folder-handle.ts'
import { writeFileAtomic } from '../state/atomic-file.ts'
import { folderFailure } from './folder-failure.ts'

/** Lies in every folder that the operator has named for backups. */
export const MARK = '.panel-backups'
const MARK_TEXT =
  'Backups of panel lie here. Without this file the folder is taken for one whose disk is not mounted.\n'
/** Folders of stores, below those of the operator. */
const OF_STORE = 'bst_'

const Kept = z.object({ folders: z.array(z.string()) })

/** A folder that the operator has named for backups. */
export interface MarkedFolder {
  readonly path: string
  /** As the configuration calls it; `null`: the one for stores that name none. */
  readonly name: string | null
}

/**
 * Tells a folder for backups from the empty one that its disk is mounted at: each gets a mark when it is first written to, and the agent
 * keeps in its own data which have one. Without the mark such a folder is not used: it would fill the disk of the system, and what
 * lies on its own would look lost.
 */
export class StoreMarks {
  readonly #file: string
  #marked: Promise<Set<string>> | undefined
  #keeping: Promise<unknown> = Promise.resolve()

  /** `file`: where the agent keeps which folders have a mark. */
  constructor(file: string) {
    this.#file = file
  }

  /**
   * Throws STORE_FAILED for a folder that is not there or has lost its mark. One that backups lie in since before there were marks gets
   * one, and so does one that is used for the first time, when something is to be written (`writes`).
   */
  async check({ path, name }: MarkedFolder, writes: boolean): Promise<void> {
    this.#marked ??= this.#read()
    const marked = await this.#marked
    if (await this.#hasMark(path)) {
      if (!marked.has(path)) await this.#keep(marked, path)
      return
    }
    if (marked.has(path)) throw unmounted(name)
    const found = await entriesOf(path)
    const isUsed = found?.some((entry) => entry.startsWith(OF_STORE)) === true
    if (!isUsed && (!writes || (found === undefined && name !== null))) throw unmounted(name)
    try {
      if (found === undefined) await mkdir(path, { recursive: true, mode: 0o700 })
      await writeFile(join(path, MARK), MARK_TEXT, { mode: 0o600 })
    } catch (error) {
      throw folderFailure(error, 'written')
    }
    await this.#keep(marked, path)
  }

  async #hasMark(path: string): Promise<boolean> {
    try {
      return (await lstat(join(path, MARK))).isFile()
    } catch (error) {
      if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return false
      throw folderFailure(error, 'read')
    }
  }

  async #read(): Promise<Set<string>> {
    try {
      return new Set(Kept.parse(JSON.parse(await readFile(this.#file, 'utf8'))).folders)
    } catch (error) {
      if (codeOf(error) === 'ENOENT' || error instanceof SyntaxError || error instanceof z.ZodError) return new Set()
      this.#marked = undefined // read again when it is next asked for
      throw folderFailure(error, 'read')
    }
  }

  async #keep(marked: Set<string>, path: string): Promise<void> {
    const keeping = this.#keeping.then(async () => {
      const kept: z.infer<typeof Kept> = { folders: [...marked, path].sort() }
      await writeFileAtomic(this.#file, `${JSON.stringify(kept)}\n`)
      marked.add(path)
    })
    this.#keeping = keeping.catch(() => {}) // each awaits its own
    await keeping
  }
}

async function entriesOf(path: string): Promise<string[] | undefined> {
  try {
    return await readdir(path)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw folderFailure(error, 'read')
  }
}

/** Where it lies on the node is for whoever runs that. */
function unmounted(name: string | null): AgentFailure {
  const setting = name === null ? 'backups.folder' : `backups.folders.${name}`
  return new AgentFailure(
    'STORE_FAILED',
    `The folder for backups of this node (${setting} of its agent.yaml) is not there, or has lost the file ${MARK} that marks it: is its disk mounted? Mount it; for a folder that is to be used as it is, make that file in it, empty`,
  )
}
