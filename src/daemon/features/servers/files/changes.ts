import * as api from '../../../../shared/api/files.ts'
import type { Data, Endpoint, Input } from '../../../../shared/kernel/contract.ts'
import { type ErrorCode, fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import type { EventData } from '../../../../shared/kernel/events.ts'
import * as protocol from '../../../../shared/protocol/file-operations.ts'
import { type Principal, recordChange, userIdOf } from '../../../access/operation.ts'
import type { Tx } from '../../../db/db.ts'
import { type Context, callerOf } from '../../../http/route.ts'
import { askAgent, type FileDeps } from './agent.ts'
import { type Written, writeContent } from './content.ts'
import { keepWhileReached, reach, refuseOutside } from './reach.ts'
import { folderOf } from './reads.ts'

type Asking = Pick<Context, 'principal' | 'signal' | 'caller'>
/** What an event of changed files says, before its folders. */
export type Change = Omit<EventData<'server_files_changed'>, 'folders' | 'allFolders' | 'changedBy'>

const MIB = 1024 * 1024
const MOST_TEXT = 10 * MIB
const MOST_FOLDERS = 100
const MOST_AUDITED = 500
/** With these nothing was done: what else ends an operation may have left a part of it. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set([
  'AGENT_VERSION',
  'CONFLICT',
  'FILE_NOT_FOUND',
  'FILE_PATH_INVALID',
  'NODE_OFFLINE',
  'PERMISSION_DENIED',
])

/** A folder, or a file that is not there yet. */
export async function createEntry(
  deps: FileDeps,
  { params: { serverId }, body }: Input<typeof api.createFile>,
  asking: Asking,
): Promise<Data<typeof api.createFile>> {
  const { path, isDirectory, content, parents } = body
  if (isDirectory && content !== undefined) throw fieldError('body.content', 'is for files: a folder has none')
  const caller = callerOf(asking)
  const { nodeId } = await reach(deps, serverId, { caller, ...(isDirectory ? { paths: [path] } : { files: [path] }) })
  const { signal } = asking
  let created = true
  if (isDirectory) {
    const input = { serverId, path, parents }
    created = (await askAgent(deps, protocol.makeServerFolder, { nodeId, input, part: 'body', signal })).made
  } else {
    const above = folderOf(path).slice(0, -1).split('/').slice(0, -1).join('/')
    if (parents && above !== '') {
      const input = { serverId, path: above, parents }
      await askAgent(deps, protocol.makeServerFolder, { nodeId, input, part: 'body', signal })
    }
    const body = textBody(content ?? '')
    await writeContent(deps, { serverId, path, body, ifMatch: null, ifNone: true, part: 'body', caller }, asking).catch(
      (error: unknown) => {
        if (!(error instanceof PanelError) || error.code !== 'ETAG_MISMATCH') throw error
        throw new PanelError('CONFLICT', `There is already something at ${path.slice(0, 300)}`, {
          details: [{ field: 'body.path', message: 'names a file that is there' }],
        })
      },
    )
  }
  await note(deps, { endpoint: api.createFile, serverId, asking }, { action: 'create', path })
  return { path, created }
}

/** A text in the place of a file. */
export async function writeTextFile(
  deps: FileDeps,
  { params: { serverId }, body: { path, content } }: Input<typeof api.writeText>,
  context: Asking & Pick<Context, 'writes'>,
): Promise<api.WrittenFile> {
  const caller = callerOf(context)
  await reach(deps, serverId, { caller, files: [path] }) // before conditions that are wrong
  const conditions = context.writes()
  const body = textBody(content)
  const written = await writeContent(deps, { serverId, path, body, ...conditions, part: 'body', caller }, context)
  return await noteWritten(deps, { endpoint: api.writeText, serverId, asking: context }, written)
}

/** A file of a form: its name is the form's, its folder the field `path`. */
export async function uploadForm(
  deps: FileDeps,
  { params: { serverId }, query, body }: Input<typeof api.uploadFile>,
  context: Asking & Pick<Context, 'keepWhile'>,
): Promise<api.WrittenFile> {
  const unknown = Object.keys(body.fields ?? {}).find((field) => field !== 'path')
  if (unknown !== undefined) throw fieldError(`body.${unknown.slice(0, 100)}`, 'is not a field of this request')
  const folder = query.path ?? body.fields?.['path'] ?? '/'
  const name = body.fileName.split(/[/\\]/).at(-1) ?? ''
  if (name === '' || name === '.' || name === '..') throw fieldError('body.file', 'must have a file name')
  const path = `${folderOf(folder)}${name}`
  if (path.length > 4096) throw fieldError('body.path', 'must be at most 4096 characters with the name of the file')
  const content = { ...body, length: null, cancel: () => {} }
  keepWhileReached(deps, serverId, { context, path })
  const written = await writeContent(
    deps,
    { serverId, path, body: content, ifMatch: null, ifNone: false, part: 'body', caller: callerOf(context) },
    context,
  )
  return await noteWritten(deps, { endpoint: api.uploadFile, serverId, asking: context }, written)
}

/** Another name or place. */
export async function renameEntry(
  deps: FileDeps,
  { params: { serverId }, body }: Input<typeof api.renameFile>,
  asking: Asking,
): Promise<null> {
  const { nodeId, rules } = await reach(deps, serverId, { caller: callerOf(asking), paths: [body.from, body.to] })
  const input = { serverId, ...body, ...rules }
  await askAgent(deps, protocol.renameEntry, { nodeId, input, part: 'body', signal: asking.signal })
  const { from, to } = body
  await note(deps, { endpoint: api.renameFile, serverId, asking }, { action: 'rename', from, to })
  return null
}

/** A link. */
export async function linkEntry(
  deps: FileDeps,
  { params: { serverId }, body }: Input<typeof api.linkFile>,
  asking: Asking,
): Promise<null> {
  const { nodeId, rules } = await reach(deps, serverId, { caller: callerOf(asking), files: [body.path] })
  if (rules.filePaths !== undefined) refuseOutside(rules.filePaths, { paths: [whereLinkLeads(body)] })
  const input = { serverId, ...body }
  await askAgent(deps, protocol.linkEntry, { nodeId, input, part: 'body', signal: asking.signal })
  const { path, target } = body
  await note(deps, { endpoint: api.linkFile, serverId, asking }, { action: 'link', path }, { target: cut(target) })
  return null
}

/** A copy within the server. */
export async function copyEntry(
  deps: FileDeps,
  { params: { serverId }, body }: Input<typeof api.copyFile>,
  asking: Asking,
): Promise<Data<typeof api.copyFile>> {
  const { nodeId, rules } = await reach(deps, serverId, {
    caller: callerOf(asking),
    paths: [body.to],
    folders: [body.from],
  })
  const input = { serverId, ...body, ...rules }
  const copied = await askAgent(deps, protocol.copyEntry, { nodeId, input, part: 'body', signal: asking.signal })
  const { entries, bytes } = copied
  const { from, to } = body
  await note(deps, { endpoint: api.copyFile, serverId, asking }, { action: 'copy', from, to }, { entries, bytes })
  return copied
}

/** Modes. */
export async function setPermissions(
  deps: FileDeps,
  { params: { serverId }, body }: Input<typeof api.setFilePermissions>,
  asking: Asking,
): Promise<Data<typeof api.setFilePermissions>> {
  const { path, mode, recursive, folderMode } = body
  const { nodeId, rules } = await reach(deps, serverId, { caller: callerOf(asking), paths: [path] })
  const input = { serverId, paths: [path], mode, recursive, folderMode: folderMode ?? null, ...rules }
  const of = { endpoint: api.setFilePermissions, serverId, asking }
  const change: Change = { action: 'permissions', path }
  const details = { mode: mode.toString(8).padStart(3, '0'), recursive }
  return await noting(deps, { of, change, details }, () =>
    askAgent(deps, protocol.setModes, { nodeId, input, part: 'body', signal: asking.signal, fieldOf: ofOne }),
  )
}

/** One entry that is no longer there. */
export async function deleteEntry(
  deps: FileDeps,
  { params: { serverId }, query: { path } }: Input<typeof api.deleteFile>,
  asking: Asking,
): Promise<Data<typeof api.deleteFile>> {
  const { nodeId, rules } = await reach(deps, serverId, { caller: callerOf(asking), paths: [path] })
  const of = { endpoint: api.deleteFile, serverId, asking }
  return await noting(deps, { of, change: { action: 'delete', path }, details: {} }, () =>
    askAgent(deps, protocol.deleteEntries, {
      nodeId,
      input: { serverId, paths: [path], ...rules },
      part: 'query',
      signal: asking.signal,
      fieldOf: ofOne,
    }),
  )
}

/** Several of them. */
export async function deleteEntries(
  deps: FileDeps,
  { params: { serverId }, body: { paths } }: Input<typeof api.deleteFiles>,
  asking: Asking,
): Promise<Data<typeof api.deleteFiles>> {
  const { nodeId, rules } = await reach(deps, serverId, { caller: callerOf(asking), paths })
  const of = { endpoint: api.deleteFiles, serverId, asking, paths }
  const input = { serverId, paths, ...rules }
  const details = { paths: paths.slice(0, 50).map(cut), pathCount: paths.length }
  return await noting(deps, { of, change: { action: 'delete' }, details }, () =>
    askAgent(deps, protocol.deleteEntries, { nodeId, input, part: 'body', signal: asking.signal }),
  )
}

/** Writes the audit row and the event of a written file, and answers it. */
export async function noteWritten(deps: FileDeps, of: Noted, written: Written): Promise<api.WrittenFile> {
  const { path, size, sha256 } = written
  await note(deps, of, { action: of.endpoint.id === 'files.upload' ? 'upload' : 'write', path }, { size, sha256 })
  return written
}

interface Noted {
  readonly endpoint: Endpoint
  readonly serverId: string
  readonly asking: Pick<Context, 'principal'>
  /** Where the event names none. */
  readonly paths?: readonly string[]
}

/** What ends such work in the middle leaves a row that says so. */
async function noting<T extends { readonly entries: number }>(
  deps: FileDeps,
  { of, change, details }: { readonly of: Noted; readonly change: Change; readonly details: Record<string, unknown> },
  work: () => Promise<T>,
): Promise<T> {
  let done: T
  try {
    done = await work()
  } catch (error) {
    if (!(error instanceof PanelError) || !REFUSALS.has(error.code)) {
      const failed = error instanceof PanelError ? error.code : 'INTERNAL_ERROR'
      await note(deps, of, change, { ...details, failed })
    }
    throw error
  }
  await note(deps, of, change, { ...details, entries: done.entries })
  return done
}

async function note(
  deps: FileDeps,
  { asking: { principal }, ...of }: Noted,
  change: Change,
  details: Record<string, unknown> = {},
): Promise<void> {
  await deps.db.write((tx) => recordNote(tx, deps, principal, { ...of, change, details }))
}

/** Writes the audit row and the event of a change, for whomever it was made. */
export async function recordNote(
  tx: Tx,
  deps: FileDeps,
  principal: Principal,
  {
    endpoint,
    serverId,
    change,
    paths = [],
    details,
  }: Pick<Noted, 'endpoint' | 'serverId' | 'paths'> & {
    readonly change: Change
    readonly details: Readonly<Record<string, unknown>>
  },
): Promise<void> {
  const { path, from, to } = change
  const named = [path, from, to].filter((one) => one !== undefined)
  const folders = [...new Set([...named, ...paths].map(aboveOf))]
  const data = {
    ...change,
    folders: folders.slice(0, MOST_FOLDERS),
    allFolders: folders.length <= MOST_FOLDERS,
    changedBy: userIdOf(principal),
  }
  const where = Object.fromEntries(
    Object.entries({ path, from, to }).flatMap(([name, text]) => (text === undefined ? [] : [[name, cut(text)]])),
  )
  await recordChange(
    tx,
    { deps, principal, endpoint },
    {
      audit: { resourceId: serverId, details: { ...where, ...details } },
      events: [{ type: 'server_files_changed', serverId, data }],
    },
  )
}

/** The place that the text of a link names, read as it stands. Whether it leads out is for the agent to say. */
function whereLinkLeads({ path, target }: { readonly path: string; readonly target: string }): string {
  const names = folderOf(path)
    .split('/')
    .filter((name) => name !== '')
    .slice(0, -1)
  for (const name of target.split('/')) {
    if (name === '..') names.pop()
    else names.push(name)
  }
  return `/${names.join('/')}`
}

/** The API has one path where the agent takes several. */
function ofOne(field: string): string {
  return field === 'paths.0' ? 'path' : field
}

function aboveOf(path: string): string {
  const folder = folderOf(path).slice(0, -1)
  return folder.slice(0, folder.lastIndexOf('/')) || '/'
}

function cut(path: string): string {
  return path.slice(0, MOST_AUDITED)
}

function textBody(text: string) {
  const bytes = new TextEncoder().encode(text)
  if (bytes.length > MOST_TEXT) {
    const message = 'The text is larger than 10 MiB; send it as bytes (PUT /files/content)'
    throw new PanelError('PAYLOAD_TOO_LARGE', message, { meta: { maxBytes: MOST_TEXT } })
  }
  async function* content(): AsyncGenerator<Uint8Array> {
    if (bytes.length > 0) yield bytes
  }
  return { contentType: 'text/plain', length: bytes.length, content: content(), cancel: () => {} }
}
