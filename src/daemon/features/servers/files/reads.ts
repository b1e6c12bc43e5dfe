import type {
  FileEntry,
  listFiles,
  measureFiles,
  searchFiles,
  statFile,
  sumFiles,
} from '../../../../shared/api/files.ts'
import type { Data, Input } from '../../../../shared/kernel/contract.ts'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import { isoTime } from '../../../../shared/kernel/time.ts'
import * as protocol from '../../../../shared/protocol/file-operations.ts'
import { type Context, callerOf } from '../../../http/route.ts'
import { askAgent, type FileDeps } from './agent.ts'
import { type FileRules, reach, refuseOutside } from './reach.ts'

type Asking = Pick<Context, 'signal' | 'caller'>

const MIB = 1024 * 1024

/** A page of a folder: in as many parts as the frames of the node need. */
export async function listFolder(
  deps: FileDeps,
  { params: { serverId }, query: { path, after, limit } }: Input<typeof listFiles>,
  asking: Asking,
): Promise<Data<typeof listFiles>> {
  const { nodeId, rules } = await reach(deps, serverId, { caller: callerOf(asking), seen: [path] })
  const { signal } = asking
  const files: FileEntry[] = []
  let next: string | null = after ?? null
  let total: number
  do {
    const input = { serverId, path, after: next, limit: limit - files.length, ...seenBy(rules) }
    const page = await askAgent(deps, protocol.listFolder, { nodeId, input, part: 'query', signal })
    const above = folderOf(path)
    for (const entry of page.entries) files.push(entryOf(entry, `${above}${entry.name}`))
    next = page.next
    total = page.total
  } while (next !== null && files.length < limit)
  return { path, files, total, next }
}

/** One entry. */
export async function statEntry(
  deps: FileDeps,
  { params: { serverId }, query: { path } }: Input<typeof statFile>,
  asking: Asking,
): Promise<FileEntry> {
  const { nodeId, rules } = await reach(deps, serverId, { caller: callerOf(asking), seen: [path] })
  const { signal } = asking
  const input = { serverId, path }
  const entry = await askAgent(deps, protocol.describeEntry, { nodeId, input, part: 'query', signal })
  // Only now it is known whether it is a folder on the way.
  if (rules.filePaths !== undefined && entry.kind !== 'folder') refuseOutside(rules.filePaths, { files: [path] })
  return entryOf(entry, folderOf(path).slice(0, -1) || '/')
}

/** Checksums as the agent has counted them. */
export async function checksumsOf(
  deps: FileDeps,
  { params: { serverId }, body: { paths } }: Input<typeof sumFiles>,
  asking: Asking,
): Promise<Data<typeof sumFiles>> {
  const { nodeId, rules } = await reach(deps, serverId, { caller: callerOf(asking), folders: paths })
  const { signal } = asking
  return await askAgent(deps, protocol.sumFiles, { nodeId, input: { serverId, paths, ...rules }, part: 'body', signal })
}

/** The largest folders. */
export async function usageOf(
  deps: FileDeps,
  { params: { serverId }, query: { path, depth, limit } }: Input<typeof measureFiles>,
  asking: Asking,
): Promise<Data<typeof measureFiles>> {
  const { nodeId, rules } = await reach(deps, serverId, { caller: callerOf(asking), seen: [path] })
  const { signal } = asking
  const input = { serverId, path, depth, limit, ...seenBy(rules) }
  const usage = await askAgent(deps, protocol.measureFolders, { nodeId, input, part: 'query', signal })
  return { path, ...usage }
}

/** What a search has found. */
export async function searchIn(
  deps: FileDeps,
  { params: { serverId }, query }: Input<typeof searchFiles>,
  asking: Asking,
): Promise<Data<typeof searchFiles>> {
  const { path, name, text, regex, ignoreCase, kind, limit, maxFileMb, maxSeconds } = query
  if (regex && text === undefined) throw fieldError('query.regex', 'is for a text that is looked for; give text as well')
  if (ignoreCase && text === undefined && name === undefined) {
    throw fieldError('query.ignoreCase', 'is for a name or a text that is looked for; give name or text as well')
  }
  if (text !== undefined && kind !== undefined && kind !== 'file') {
    throw fieldError('query.kind', 'must be file, or left out, where a text is looked for')
  }
  const { nodeId, rules } = await reach(deps, serverId, { caller: callerOf(asking), folders: [path] })
  const { signal } = asking
  const what = { name: name ?? null, text: text ?? null, isPattern: regex, ignoreCase, kind: kind ?? null, limit }
  const input = { serverId, path, ...what, maxFileBytes: maxFileMb * MIB, maxMs: maxSeconds * 1000, ...rules }
  const found = await askAgent(deps, protocol.searchFiles, { nodeId, input, part: 'query', signal })
  const hits = found.hits.map(({ modifiedMs, ...hit }) => ({ ...hit, modified: isoTime(modifiedMs) }))
  return { ...found, hits }
}

/** What is shown to somebody: names that the template keeps from members are among it. */
function seenBy({ filePaths }: FileRules): Pick<FileRules, 'filePaths'> {
  return filePaths === undefined ? {} : { filePaths }
}

/** The path of a folder with one slash at either end. */
export function folderOf(path: string): string {
  const names = path.split('/').filter((name) => name !== '' && name !== '.')
  return names.length === 0 ? '/' : `/${names.join('/')}/`
}

/** Field by field: copies of thousands of entries by spreading take ten times as long. */
function entryOf(entry: protocol.EntryFacts, path: string): FileEntry {
  const { name, kind, size, allocated, mode, uid, gid, modifiedMs, target } = entry
  const isDirectory = kind === 'folder'
  return { name, path, kind, isDirectory, size, allocated, mode, uid, gid, modified: isoTime(modifiedMs), target }
}
