import type { Stats } from 'node:fs'
import { pathBytes, pathText } from '../../shared/kernel/path-text.ts'
import { type EntryFacts, FILE_LIMITS } from '../../shared/protocol/file-operations.ts'
import { FURTHEST_MS } from '../../shared/protocol/files.ts'
import { AgentFailure } from '../failure.ts'
import type { FolderHandle } from './folder-handle.ts'
import type { ListedNames } from './listed-names.ts'
import { factsIn, isPart, isRootPath, pathBelow, withFolder, withPlace } from './place.ts'
import type { PathRules } from './rules.ts'
import { pacer } from './walk.ts'

/** What the fields of an entry take as JSON beside its texts. */
const ROW_BYTES = 170

/** Printable ASCII: a name that is its own text and its own bytes. */
const ASCII = /^[ -~]*$/

/** A page of a folder. */
export interface Page {
  readonly entries: EntryFacts[]
  readonly total: number
  readonly next: string | null
}

/**
 * The entries behind the name `after`, in the order of their bytes. A very large folder is read from its beginning for each page, and
 * never held as a whole: a page costs its own size in memory, also of a folder of a million entries.
 */
export async function listPage(
  root: string,
  path: string,
  {
    after,
    limit,
    rules,
    listed,
    nowMs,
    signal,
  }: {
    readonly after: string | null
    readonly limit: number
    readonly rules: PathRules
    readonly listed: ListedNames
    /** Milliseconds since the epoch. */
    readonly nowMs: number
    readonly signal: AbortSignal
  },
): Promise<Page> {
  return await withFolder(root, path, async (folder) => {
    const which = { after: bytesAfter(after), limit, signal }
    const known = rules.hides ? undefined : await allNames(folder, { listed, nowMs, signal })
    const { names, total, isCut } =
      known === undefined ? await lowestNames(namesIn(folder, path, rules), which) : namesBehind(known, which)
    const mayGoOn = pacer(() => signal.aborted)
    const entries: EntryFacts[] = []
    let left = FILE_LIMITS.answerBytes
    let last: string | undefined
    for (const name of names) {
      const entry = ASCII.test(name) ? asciiEntry(folder, name) : bytesEntry(folder, Buffer.from(name, 'latin1'))
      // `undefined`: taken away since it was listed.
      if (entry !== undefined) {
        left -= ROW_BYTES + jsonBytes(entry.name) + jsonBytes(entry.target ?? '')
        if (left < 0 && entries.length > 0) return { entries, total, next: lastName(last) }
        entries.push(entry)
      }
      last = name
      if (!(await mayGoOn())) throw cancelled()
    }
    return { entries, total, next: isCut ? lastName(last) : null }
  })
}

/** What one entry is; throws NOT_FOUND. */
export async function describe(root: string, path: string): Promise<EntryFacts> {
  if (isRootPath(path)) {
    return await withFolder(root, path, (folder) => factsOf(folder.stat(), '/', null))
  }
  return await withPlace(root, path, (place) => entryOf(place.folder, place.name, factsIn(place, path)))
}

/** What an entry is. */
export function kindOf(facts: Stats): EntryFacts['kind'] {
  if (facts.isFile()) return 'file'
  if (facts.isDirectory()) return 'folder'
  return facts.isSymbolicLink() ? 'link' : 'other'
}

/** The time of the last writing as answers have it; file systems may keep times beyond those of a `Date`. */
export function modifiedMsOf({ mtimeMs }: Pick<Stats, 'mtimeMs'>): number {
  return Math.max(-FURTHEST_MS, Math.min(mtimeMs, FURTHEST_MS))
}

/** How many bytes a text takes in JSON, at the most. */
export function jsonBytes(text: string): number {
  let bytes = 2
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    bytes += code < 0x20 || (code >= 0xd800 && code < 0xe000) ? 6 : code < 0x80 ? 2 : 3
  }
  return bytes
}

/** Whoever waited has gone. */
export function cancelled(): AgentFailure {
  return new AgentFailure('CANCELLED', 'It was cancelled')
}

function asciiEntry(folder: FolderHandle, name: string): EntryFacts | undefined {
  const facts = folder.statOfAscii(name)
  if (facts?.isSymbolicLink() === true) return entryOf(folder, Buffer.from(name), facts)
  return facts === undefined ? undefined : factsOf(facts, name, null)
}

function bytesEntry(folder: FolderHandle, name: Buffer): EntryFacts | undefined {
  const facts = folder.statOf(name)
  return facts === undefined ? undefined : entryOf(folder, name, facts)
}

function entryOf(folder: FolderHandle, name: Buffer, facts: Stats): EntryFacts {
  const target = facts.isSymbolicLink() ? folder.linkTarget(name) : undefined
  return factsOf(facts, pathText(name), target === undefined ? null : pathText(target))
}

function factsOf(facts: Stats, name: string, target: string | null): EntryFacts {
  const { size, blocks, mode, uid, gid } = facts
  const modifiedMs = modifiedMsOf(facts)
  return { name, kind: kindOf(facts), size, allocated: blocks * 512, mode: mode & 0o7777, uid, gid, modifiedMs, target }
}

/** The names of a folder; of a member, what they are held to. */
function* namesIn(folder: FolderHandle, path: string, rules: PathRules): Generator<string> {
  if (!rules.hides) return yield* folder.names()
  for (const { name, isFolder } of folder.entries()) {
    if (!rules.isHidden(pathBelow(path, name), isFolder)) yield name.toString('latin1')
  }
}

/** All names of a folder in their order, when they are not too many. */
async function allNames(
  folder: FolderHandle,
  { listed, nowMs, signal }: { readonly listed: ListedNames; readonly nowMs: number; readonly signal: AbortSignal },
): Promise<readonly string[] | undefined> {
  const mayGoOn = pacer(() => signal.aborted)
  return (
    listed.of(folder) ??
    (await listed.keep(folder, nowMs, async (most) => {
      const names: string[] = []
      let bytes = 0
      for (const name of folder.names()) {
        if (isPart(name)) continue
        bytes += name.length
        if (names.length === most.names || bytes > most.bytes) return undefined
        names.push(name)
        if (names.length % 256 === 0 && !(await mayGoOn())) throw cancelled()
      }
      return names
    }))
  )
}

/** The same of names that are in their order. */
function namesBehind(
  all: readonly string[],
  { after, limit }: { readonly after: string; readonly limit: number },
): { names: readonly string[]; total: number; isCut: boolean } {
  let [first, end] = [0, all.length]
  while (first < end) {
    const middle = (first + end) >>> 1
    if ((all[middle] ?? '') <= after) first = middle + 1
    else end = middle
  }
  return { names: all.slice(first, first + limit), total: all.length, isCut: first + limit < all.length }
}

/** The lowest names behind one; those of the agent's own parts are not among them. */
async function lowestNames(
  all: Iterable<string>,
  { after, limit, signal }: { readonly after: string; readonly limit: number; readonly signal: AbortSignal },
): Promise<{ names: string[]; total: number; isCut: boolean }> {
  const mayGoOn = pacer(() => signal.aborted)
  const most = 2 * limit + 1000
  let names: string[] = []
  let total = 0
  let isCut = false
  const cut = (): void => {
    names.sort()
    isCut ||= names.length > limit
    names = names.slice(0, limit)
  }
  for (const name of all) {
    if (isPart(name)) continue
    total++
    if (name <= after) continue
    names.push(name)
    if (names.length >= most) cut()
    if (total % 256 === 0 && !(await mayGoOn())) throw cancelled()
  }
  cut()
  return { names, total, isCut }
}

function bytesAfter(after: string | null): string {
  if (after === null) return ''
  const bytes = pathBytes(after)
  if (bytes === undefined) {
    throw new AgentFailure('PATH_INVALID', 'must be the name that the page before has answered', { field: 'after' })
  }
  return Buffer.from(bytes).toString('latin1')
}

function lastName(last: string | undefined): string | null {
  return last === undefined ? null : pathText(Buffer.from(last, 'latin1'))
}
