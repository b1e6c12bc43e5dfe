import * as api from '../../../../shared/api/files.ts'
import type { Endpoint } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { ServerId } from '../../../../shared/kernel/ids.ts'
import * as protocol from '../../../../shared/protocol/file-operations.ts'
import type { Holder } from '../../../access/permit.ts'
import type { Turns } from '../../../gateway/transfers.ts'
import { askAgent, type FileDeps, refuseOldAgent } from './agent.ts'
import type { Change } from './changes.ts'
import { type FileRules, type NamedPaths, type Reached, reach } from './reach.ts'
import { folderOf } from './reads.ts'

const MIB = 1024 * 1024
const PULL_MS = 6 * 3600_000

/** How far work on files is. */
export interface FileProgress {
  readonly entries: number
  readonly bytes: number
}

/** What work on files works with. */
export interface WorkOptions {
  readonly nodeId: string
  /** What whoever asked does not get. */
  readonly rules: FileRules
  /** Names what is on its way, so that the same work begins anew after a crash. */
  readonly key?: string
  readonly signal: AbortSignal
  readonly onProgress?: (now: FileProgress) => void
  /** Where in the request its fields are. */
  readonly part: 'body' | 'query'
  /** Where a copy to another server goes. */
  readonly target?: Reached
}

/** What work has done: the change to report, and what its audit row and its caller hear. */
export interface WorkDone {
  readonly endpoint: Endpoint
  /** Whose files have changed. */
  readonly serverId: string
  readonly change: Change
  readonly paths?: readonly string[]
  readonly details: Readonly<Record<string, unknown>>
  readonly entries: number
  readonly bytes: number
  readonly problems: readonly { readonly path: string; readonly reason: string }[]
  readonly problemCount: number
  /** What it has made. */
  readonly made?: { readonly path: string; readonly size: number; readonly sha256?: string }
}

/** The paths that work names on its own server: those that it takes or makes as they are, and folders of which it takes what is allowed. */
export function placesOf(work: api.FileWork): Pick<NamedPaths, 'paths' | 'folders'> {
  if (work.kind === 'copy') return { paths: [work.to], folders: [work.from] }
  if (work.kind === 'delete') return { paths: work.paths }
  if (work.kind === 'compress') return { paths: [archivePathOf(work)], folders: work.paths }
  if (work.kind === 'decompress') return { paths: [work.archivePath], folders: [work.targetPath] }
  return { folders: [work.kind === 'pull' ? work.path : work.from] }
}

/** Where work goes on another server; throws PERMISSION_DENIED for a path that is not for whoever asks. */
export async function targetOf(deps: FileDeps, work: api.FileWork, caller: Holder): Promise<Reached | undefined> {
  if (work.kind !== 'copy_to_server') return undefined
  const path = `${folderOf(work.to)}${work.from.split('/').findLast((name) => name !== '') ?? ''}`
  return await reach(deps, work.toServerId, { caller, folders: [path] })
}

/** Has the agent do it, and waits for its end. */
export async function doWork(
  deps: FileDeps,
  { serverId, work }: { readonly serverId: ServerId; readonly work: api.FileWork },
  options: WorkOptions,
): Promise<WorkDone> {
  const { nodeId, rules, part, signal, onProgress } = options
  const key = options.key === undefined ? {} : { key: options.key }
  const ask = { nodeId, part, signal, onProgress }
  const common = { serverId, ...rules, ...key }
  if (work.kind === 'copy') {
    const { from, to, replace } = work
    const done = await askAgent(deps, protocol.copyEntry, { ...ask, input: { ...common, from, to, replace } })
    return { ...done, ...countsOf(done), serverId, endpoint: api.copyFile, change: { action: 'copy', from, to } }
  }
  if (work.kind === 'delete') {
    const { paths } = work
    const done = await askAgent(deps, protocol.deleteEntries, { ...ask, input: { serverId, ...rules, paths } })
    const details = { paths: paths.slice(0, 50).map((path) => path.slice(0, 500)), pathCount: paths.length }
    const change: Change = { action: 'delete' }
    return {
      ...done,
      bytes: 0,
      serverId,
      endpoint: api.deleteFiles,
      change,
      paths,
      details: { ...details, entries: done.entries },
    }
  }
  if (work.kind === 'compress') {
    const to = archivePathOf(work)
    const input = { ...common, paths: work.paths, to, replace: work.replace }
    const fieldOf = (field: string): string => (field === 'to' ? 'archiveName' : field)
    const done = await askAgent(deps, protocol.compressFiles, { ...ask, fieldOf, input })
    const made = { path: to, size: done.archiveBytes }
    return {
      ...done,
      ...countsOf(done),
      serverId,
      endpoint: api.compressFiles,
      change: { action: 'compress', path: to },
      made,
    }
  }
  if (work.kind === 'decompress') {
    const { archivePath: path, targetPath: to, replace } = work
    const fieldOf = (field: string): string => (field === 'to' ? 'targetPath' : 'archivePath')
    const input = { ...common, path, to, replace }
    const done = await askAgent(deps, protocol.extractArchive, { ...ask, fieldOf, input })
    const change: Change = { action: 'decompress', from: path, to }
    const paths = [`${folderOf(to)}entry`]
    return { ...done, ...countsOf(done), serverId, endpoint: api.decompressFile, change, paths }
  }
  if (work.kind === 'pull') return await pull(deps, { serverId, work }, options)
  return await copyToServer(deps, { serverId, work }, options)
}

async function pull(
  deps: FileDeps,
  { serverId, work }: { readonly serverId: ServerId; readonly work: Extract<api.FileWork, { kind: 'pull' }> },
  { nodeId, rules, part, signal, onProgress, key }: WorkOptions,
): Promise<WorkDone> {
  const { url, path: to, name = null, replace } = work
  const limits = { maxBytes: deps.settings.get('files.maxFileMb') * MIB, maxMs: PULL_MS }
  const input = { serverId, ...rules, url, to, name, replace, ...limits, ...(key === undefined ? {} : { key }) }
  const fieldOf = (field: string): string => (field === 'to' ? 'path' : field)
  const made = await askAgent(deps, protocol.pullFile, { nodeId, part, signal, onProgress, fieldOf, input })
  const details = { url: withoutQuery(url), size: made.size, sha256: made.sha256 }
  const done = { entries: 1, bytes: made.size, problems: [], problemCount: 0 }
  return { ...done, serverId, endpoint: api.pullFile, change: { action: 'pull', path: made.path }, details, made }
}

/** As a tar from the one node to the other, through the daemon and never whole in it. */
async function copyToServer(
  deps: FileDeps,
  of: { readonly serverId: ServerId; readonly work: Extract<api.FileWork, { kind: 'copy_to_server' }> },
  options: WorkOptions,
): Promise<WorkDone> {
  const { nodeId, rules, signal, target } = options
  if (target === undefined) throw new Error('a copy to another server without a target')
  refuseOldAgent(deps.gateway, nodeId, rules)
  refuseOldAgent(deps.gateway, target.nodeId, target.rules)
  // Both turns before anything moves: two copies in opposite directions would wait for each other.
  return await deps.transfers.withTurns([nodeId, target.nodeId], signal, (turns) =>
    passOn(deps, of, { ...options, target, turns }),
  )
}

async function passOn(
  { gateway, transfers }: FileDeps,
  { serverId, work }: Parameters<typeof copyToServer>[1],
  {
    nodeId,
    rules,
    signal,
    onProgress,
    key,
    target,
    turns,
  }: WorkOptions & { readonly target: Reached; readonly turns: Turns },
): Promise<WorkDone> {
  const { from, to, toServerId, replace } = work
  let sent: readonly { path: string; reason: string }[] = []
  const content = await transfers.from(nodeId, { length: null, signal, turns }, async (ticket, options) => {
    const input = { serverId, path: from, ...rules, ticket }
    const done = await gateway.request(nodeId, protocol.sendTree, input, options)
    sent = done.problems
    return done
  })
  const source = { contentType: 'application/x-tar', length: null, content, cancel: () => content.destroy() }
  try {
    const done = await transfers.to(target.nodeId, { source, signal, turns }, (ticket, options) => {
      const input = {
        serverId: toServerId,
        to,
        replace,
        ...target.rules,
        ticket,
        ...(key === undefined ? {} : { key }),
      }
      const more = onProgress === undefined ? {} : { onProgress }
      return gateway.request(target.nodeId, protocol.receiveTree, input, { ...options, ...more })
    })
    const problems = [...sent, ...done.problems].slice(0, protocol.FILE_LIMITS.problems)
    const change: Change = { action: 'copy', to }
    const details = { ...countsOf(done).details, fromServerId: serverId, from: from.slice(0, 500) }
    const problemCount = done.problemCount + sent.length
    const paths = [`${folderOf(to)}entry`]
    return { ...done, problems, problemCount, serverId: toServerId, endpoint: api.copyFile, change, paths, details }
  } finally {
    content.destroy()
  }
}

function countsOf({ entries, bytes }: FileProgress): { readonly details: Record<string, unknown> } {
  return { details: { entries, bytes } }
}

/** A name alone lies in the folder that all of the paths lie in. */
export function archivePathOf({
  paths,
  archiveName,
}: {
  readonly paths: readonly string[]
  readonly archiveName: string
}): string {
  if (archiveName.includes('/')) return archiveName
  const all = paths.map((path) =>
    path
      .split('/')
      .filter((name) => name !== '' && name !== '.')
      .slice(0, -1),
  )
  const [first = []] = all
  const same = first.findIndex((name, at) => all.some((names) => names[at] !== name))
  return `/${[...(same < 0 ? first : first.slice(0, same)), archiveName].join('/')}`
}

/** Audit rows keep no secrets that a query may hold. */
function withoutQuery(url: string): string {
  const { origin, pathname } = new URL(url)
  return `${origin}${pathname}`.slice(0, 500)
}

/** Whether the same work would fail alike. */
export function isFinal(error: unknown): error is PanelError {
  return error instanceof PanelError && !PASSING.has(error.code)
}

const PASSING: ReadonlySet<string> = new Set([
  'AGENT_TIMEOUT',
  'NODE_OFFLINE',
  'RATE_LIMITED',
  'SHUTTING_DOWN',
  'DATABASE_READ_ONLY',
])
