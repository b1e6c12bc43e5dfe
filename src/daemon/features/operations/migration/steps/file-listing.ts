import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { SourceEntry, SourceTree } from '../source/source.ts'
import { StepRefusal } from './step.ts'

/** Names that a report shows of each kind. */
const MOST_NAMES = 20
const MOST_ENTRIES = 1_000_000
const MOST_DEPTH = 100
/** Folders that are asked for at a time. */
const AT_A_TIME = 4

/** What the source's node shows of a server's files. */
export const FileListing = z.object({
  /** Of all names with their sizes, modes and times: another one means that something has changed. */
  hash: z.string(),
  files: z.number(),
  bytes: z.number(),
  links: z.number(),
  linkNames: z.array(z.string()),
  emptyFolders: z.number(),
  emptyFolderNames: z.array(z.string()),
})
export type FileListing = z.infer<typeof FileListing>

/** An entry with its path, folders before what is in them. */
export interface ListedEntry extends SourceEntry {
  readonly path: string
}

/** All entries of a server, in one order whatever the node's; a folder is asked for when its turn comes. */
export async function* walk(tree: SourceTree, signal: AbortSignal): AsyncGenerator<ListedEntry> {
  let count = 0
  const waiting: { readonly path: string; readonly depth: number }[] = [{ path: '', depth: 0 }]
  for (let folders = waiting.splice(0, AT_A_TIME); folders.length > 0; folders = waiting.splice(0, AT_A_TIME)) {
    const lists = await Promise.all(folders.map(({ path }) => tree.list(path, signal)))
    for (const [index, { path: folder, depth }] of folders.entries()) {
      const entries = [...(lists[index] ?? [])].sort((a, b) => (a.name < b.name ? -1 : 1))
      for (const entry of entries) {
        if (++count > MOST_ENTRIES) {
          throw new StepRefusal('TOO_MANY_FILES', `It has more than ${MOST_ENTRIES} files`, { isRetryable: false })
        }
        const path = folder === '' ? entry.name : `${folder}/${entry.name}`
        if (entry.kind === 'folder') {
          if (depth >= MOST_DEPTH) {
            throw new StepRefusal('TOO_DEEP', `It has folders deeper than ${MOST_DEPTH}`, { isRetryable: false })
          }
          waiting.push({ path, depth: depth + 1 })
        }
        yield { ...entry, path }
      }
    }
  }
}

/** Adds up what a server has. */
export async function listingOf(tree: SourceTree, signal: AbortSignal): Promise<FileListing> {
  const hash = createHash('sha256')
  const folders = new Set<string>()
  const [linkNames, filled] = [[] as string[], new Set<string>()]
  let [files, bytes, links] = [0, 0, 0]
  for await (const { path, kind, bytes: size, mode, modifiedMs } of walk(tree, signal)) {
    // A folder changes with what is in it, which is hashed itself.
    hash.update(kind === 'folder' ? `${path}\0folder\n` : `${path}\0${kind}\0${size}\0${mode}\0${modifiedMs}\n`)
    filled.add(path.includes('/') ? path.slice(0, path.lastIndexOf('/')) : '')
    if (kind === 'folder') folders.add(path)
    else if (kind === 'link') {
      links++
      if (linkNames.length < MOST_NAMES) linkNames.push(path)
    } else {
      files++
      bytes += size
    }
  }
  const empty = [...folders].filter((path) => !filled.has(path))
  return {
    ...{ hash: hash.digest('hex'), files, bytes, links, linkNames },
    ...{ emptyFolders: empty.length, emptyFolderNames: empty.slice(0, MOST_NAMES) },
  }
}
