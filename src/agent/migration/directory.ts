import { createHash } from 'node:crypto'
import { constants, type Stats } from 'node:fs'
import { readlink, realpath } from 'node:fs/promises'
import { sep } from 'node:path'
import { pathBytes, pathText } from '../../shared/kernel/path-text.ts'
import { FILE_LIMITS } from '../../shared/protocol/file-operations.ts'
import { MANIFEST_FILE, MIGRATION_LIMITS, ServerManifest } from '../../shared/protocol/migration.ts'
import { DocumentProblem, readDocument } from '../../shared/templates/document.ts'
import { AgentFailure } from '../failure.ts'
import { packed } from '../files/archive/archive.ts'
import { type ArchiveEntry, readTar } from '../files/archive/tar-read.ts'
import { codeOf, FolderHandle } from '../files/folder-handle.ts'
import { cancelled, jsonBytes } from '../files/list.ts'
import { MOST_PATH_BYTES, openRegular, pathIn, withFolder } from '../files/place.ts'
import type { ManyOptions } from '../files/remove.ts'
import { PathRules } from '../files/rules.ts'
import { walk } from '../files/walk.ts'

const ROW_BYTES = 200

/** The folders of this node that servers may be moved from. */
export interface DirectoryRules {
  /** As the machine's owner has written them. */
  readonly roots: readonly string[]
  /** The agent's own folder, of which nothing is read. */
  readonly dataDir: string
}

/** One sub-folder, with what its `panel-server.yaml` says, or why it cannot come. */
export interface DirectoryRow {
  readonly folder: string
  readonly manifest: ServerManifest | null
  readonly problem: string | null
  readonly bytes: number | null
  readonly files: number | null
  /** Of paths, sizes, modes and times: the same as long as nothing has changed. */
  readonly fingerprint: string | null
}

interface Page {
  readonly path: string
  readonly after: string | null
  readonly limit: number
  readonly signal: AbortSignal
  progress(report: { readonly entries: number; readonly bytes: number }): void
}

/** The servers of a folder behind the name `after`, in the order of their bytes; what is no folder and no link is passed over. */
export async function listServers(
  rules: DirectoryRules,
  { path, after, limit, signal, progress }: Page,
): Promise<{ servers: DirectoryRow[]; next: string | null }> {
  return await withAllowed(rules, path, async (folder) => {
    const behind = after === null ? '' : bytesOf(after).toString('latin1')
    const names = [...folder.names()].filter((name) => name > behind && !name.startsWith('.')).sort()
    const servers: DirectoryRow[] = []
    let left: number = FILE_LIMITS.answerBytes
    for (const text of names) {
      if (signal.aborted) throw cancelled()
      const name = Buffer.from(text, 'latin1')
      const facts = folder.statOf(name)
      if (facts?.isDirectory() !== true && facts?.isSymbolicLink() !== true) continue
      if (servers.length >= limit) return { servers, next: servers.at(-1)?.folder ?? null }
      const row = await rowOf(folder, name, { signal, progress })
      left -= ROW_BYTES + jsonBytes(row.folder) + jsonBytes(JSON.stringify(row.manifest))
      if (left < 0 && servers.length > 0) return { servers, next: servers.at(-1)?.folder ?? null }
      servers.push(row)
    }
    return { servers, next: null }
  })
}

/** The entries of one server's folder, without the file that describes it; `problems`: what was left out, once all were read. */
export async function withServerFolder<T>(
  rules: DirectoryRules,
  { path, folder: text }: { readonly path: string; readonly folder: string },
  options: Omit<ManyOptions, 'rules'>,
  take: (entries: AsyncIterable<ArchiveEntry>) => Promise<T>,
): Promise<{
  readonly taken: T
  readonly problems: readonly { path: string; reason: string }[]
  readonly problemCount: number
}> {
  return await withAllowed(rules, path, async (above) => {
    const name = bytesOf(text)
    const folder = openServer(above, name)
    if (typeof folder === 'string') throw new AgentFailure('PATH_INVALID', folder, { field: 'folder' })
    try {
      // What is open is read, whatever takes its name meanwhile.
      const { content, result } = packed(`/proc/self/fd/${folder.fd}/.`, '/', {
        ...options,
        rules: new PathRules([], []),
      })
      const taken = await take(withoutManifest(readTar(content)))
      const done = result()
      return { taken, problems: done?.problems ?? [], problemCount: done?.problemCount ?? 0 }
    } finally {
      folder.close()
    }
  })
}

async function* withoutManifest(entries: AsyncIterable<ArchiveEntry>): AsyncGenerator<ArchiveEntry> {
  for await (const entry of entries) if (entry.name.toString('latin1') !== MANIFEST_FILE) yield entry
}

/** Opens a folder that is, or lies below, one that the machine's owner allows. Below that one no link is followed. */
async function withAllowed<T>(
  { roots, dataDir }: DirectoryRules,
  path: string,
  work: (folder: FolderHandle) => Promise<T>,
): Promise<T> {
  const names = namesOf(path)
  if (!path.startsWith('/') || names.includes('..')) throw refused('must be an absolute path without ".."')
  const wanted = `/${names.join('/')}`
  const root = roots.find((each) => isWithin(wanted, `/${namesOf(each).join('/')}`))
  if (root === undefined) {
    throw refused(`${wanted.slice(0, 300)} is not below a folder that migration.roots of the node's agent.yaml allows`)
  }
  // The owner of the machine may have named a link; members of the panel may not.
  const real = await realpath(root).catch((cause: unknown) => {
    throw new AgentFailure('NOT_FOUND', `There is no folder ${root.slice(0, 300)} on the node`, {
      field: 'path',
      cause,
    })
  })
  const below = `/${names.slice(namesOf(root).length).join('/')}`
  return await withFolder(
    real,
    below,
    async (folder) => {
      const where = await readlink(`/proc/self/fd/${folder.fd}`)
      const own = await realpath(dataDir)
      if (isWithin(where, own) || isWithin(own, where)) throw refused("holds, or lies in, the agent's own folder")
      return await work(folder)
    },
    { field: 'path' },
  )
}

function namesOf(path: string): string[] {
  return path.split('/').filter((name) => name !== '' && name !== '.')
}

function isWithin(path: string, folder: string): boolean {
  const above = folder.endsWith(sep) ? folder : `${folder}${sep}`
  return path === folder || path.startsWith(above)
}

/** A sub-folder, held open; a text says why it is none. */
function openServer(above: FolderHandle, name: Buffer): FolderHandle | string {
  if (above.statOf(name)?.isSymbolicLink() === true) return 'is a link, and links are not followed'
  let folder: FolderHandle | undefined
  try {
    folder = FolderHandle.open(above.pathOf(name))
  } catch (error) {
    if (codeOf(error) === 'EACCES' || codeOf(error) === 'EPERM') return 'is closed to the agent'
    throw error
  }
  if (folder === undefined) return 'is no folder, or is not there any more'
  if (folder.mount() === above.mount()) return folder
  folder.close()
  return 'is a mount of its own, and mounts are not entered'
}

async function rowOf(
  above: FolderHandle,
  name: Buffer,
  watch: Pick<Page, 'signal' | 'progress'>,
): Promise<DirectoryRow> {
  const shown = { folder: pathText(name), manifest: null, bytes: null, files: null, fingerprint: null }
  const folder = openServer(above, name)
  if (typeof folder === 'string') return { ...shown, problem: folder }
  try {
    const manifest = await readManifest(folder)
    if (typeof manifest === 'string') return { ...shown, problem: manifest }
    return { ...shown, manifest, problem: null, ...(await stateOf(folder, watch)) }
  } finally {
    folder.close()
  }
}

/** What a folder says of its server; a text says what is wrong with it. */
async function readManifest(folder: FolderHandle): Promise<ServerManifest | string> {
  let text: string
  try {
    const file = await openRegular({ folder, name: Buffer.from(MANIFEST_FILE) }, constants.O_RDONLY)
    if (file === undefined) return `has no ${MANIFEST_FILE}`
    try {
      if ((await file.stat()).size > MIGRATION_LIMITS.manifestBytes) return `its ${MANIFEST_FILE} is larger than 64 KiB`
      const content = Buffer.alloc(MIGRATION_LIMITS.manifestBytes)
      const { bytesRead } = await file.read(content, 0, content.length, 0)
      text = content.toString('utf8', 0, bytesRead)
    } finally {
      await file.close()
    }
  } catch (error) {
    if (error instanceof AgentFailure) return `its ${MANIFEST_FILE} cannot be read: ${error.message}`
    throw error
  }
  return manifestOf(text)
}

function manifestOf(text: string): ServerManifest | string {
  let written: unknown
  try {
    written = readDocument(text).value
  } catch (error) {
    if (error instanceof DocumentProblem) return `its ${MANIFEST_FILE} ${error.message}`
    throw error
  }
  const parsed = ServerManifest.safeParse(written)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const at = issue?.path.map(String).join('.').slice(0, 200) ?? ''
  return `its ${MANIFEST_FILE} is not valid: ${at === '' ? '' : `${at}: `}${issue?.message.slice(0, 300) ?? ''}`
}

async function stateOf(
  folder: FolderHandle,
  { signal, progress }: Pick<Page, 'signal' | 'progress'>,
): Promise<{ bytes: number; files: number; fingerprint: string }> {
  const state = { bytes: 0, files: 0 }
  const seen = createHash('sha256')
  const see = (path: Buffer | undefined, facts: Stats, rest: string): void => {
    const kind = facts.mode & constants.S_IFMT
    seen.update(`${path?.toString('latin1') ?? ''}\0${kind} ${facts.mode & 0o777} ${rest}\n`)
  }
  await walk(
    folder,
    {
      enter: (inner, name, above) => {
        see(pathIn(above.path(MOST_PATH_BYTES), name), inner.stat(), '')
      },
      entry: (at, name, position) => {
        const facts = at.statOf(name)
        const isManifest = position.depth === 0 && name.toString('latin1') === MANIFEST_FILE
        if (facts === undefined || isManifest) return
        const path = pathIn(position.path(MOST_PATH_BYTES), name)
        see(path, facts, facts.isDirectory() ? '' : `${facts.size} ${facts.mtimeMs}`)
        if (!facts.isFile()) return
        state.bytes += facts.size
        state.files++
        progress({ entries: state.files, bytes: state.bytes })
      },
    },
    () => signal.aborted,
    { sorted: true },
  )
  if (signal.aborted) throw cancelled()
  return { ...state, fingerprint: seen.digest('hex') }
}

function bytesOf(name: string): Buffer {
  const bytes = pathBytes(name)
  if (bytes === undefined || name === '.' || name === '..' || name.includes('/') || name.includes('\0')) {
    throw new AgentFailure('PATH_INVALID', 'must be the name of a folder', { field: 'folder' })
  }
  return Buffer.from(bytes)
}

function refused(reason: string): AgentFailure {
  return new AgentFailure('PATH_INVALID', reason, { field: 'path' })
}
