import { z } from 'zod'
import { PanelError } from '../../../../../shared/kernel/errors.ts'
import {
  askFiles,
  type FilesSource,
  MIGRATION_LIMITS,
  type PulledFiles,
  pullFiles,
  wipeFiles,
} from '../../../../../shared/protocol/migration.ts'
import { agentCodeOf } from '../../../../gateway/agent-errors.ts'
import { findMapped } from '../map.ts'
import { SourceFailure } from '../source/source.ts'
import { fetchArchive } from './fetch-archive.ts'
import { FileListing } from './file-listing.ts'
import { FilesInput, nodeStepId, notesOf, type ServerThere, serverHere, serverThere } from './files-input.ts'
import { freeze } from './freeze-source.ts'
import { archiveAtSource, Way } from './source-archive.ts'
import { type StepContext, StepDelay, StepRefusal, stepAction } from './step.ts'
import { tarOfTree } from './tar-of-tree.ts'

/** Brings a server's files to its node, beside its folder, where nobody reaches them. */
export const transferFiles = stepAction({
  input: FilesInput,
  run: async (context, input) => {
    const state = await stateOfFolder(context)
    if (state !== null && (await isBrought(context, state))) {
      return () => Promise.resolve({ kind: 'skipped', reason: 'unchanged' })
    }
    const { pulled, way } = await broughtFiles(context, input)
    const { files, bytes, entries, manifestSha256, archiveSha1, problems, problemCount } = pulled
    const about = { files, bytes, entries, manifestSha256, archiveSha1, way, state }
    const warnings = [...left(problems, problemCount), ...(await missing(context, pulled))]
    return () => Promise.resolve({ kind: 'done', notes: { ...about, warnings } })
  },
  abandon: async (context) => {
    const { deps } = context
    const { nodeId } = await serverHere(context)
    if (deps.gateway.isOnline(nodeId)) await deps.gateway.request(nodeId, wipeFiles, { stepId: nodeStepId(context) })
  },
})

/** What the step writes down. */
export const TransferNotes = z.looseObject({
  files: z.number(),
  bytes: z.number(),
  manifestSha256: z.string(),
  archiveSha1: z.string().nullable(),
  way: z.string(),
  warnings: z.array(z.string()),
})

type Pulled = PulledFiles

/** What a node says of the files of a folder of its own; another text means that something has changed. */
async function stateOfFolder({ source: open, sourceId, signal }: StepContext): Promise<string | null> {
  const source = await open()
  if (source.directory === null) return null
  return (await source.server(sourceId, signal))?.filesFingerprint ?? null
}

async function isBrought({ deps, sourceFp, sourceId }: StepContext, state: string): Promise<boolean> {
  const before = await findMapped(deps.db.read, { sourceFp, sourceType: 'files', sourceId })
  if (before?.contentHash !== state) return false
  const row = await deps.db.read.selectFrom('server').select('id').where('id', '=', before.targetId).executeTakeFirst()
  return row !== undefined
}

/** The files as they lie ready on the node; brought once more where they are not. */
export async function broughtFiles(
  context: StepContext,
  input: FilesInput,
): Promise<{ readonly pulled: Pulled; readonly way: string; readonly isPlaced: boolean }> {
  const { deps, signal } = context
  const here = await serverHere(context)
  await isKnown(context, here)
  const stepId = nodeStepId(context)
  const known = await ask(context, here.nodeId, () => deps.gateway.request(here.nodeId, askFiles, { stepId }))
  if (known.pulled !== null)
    return { pulled: known.pulled, way: await wayOf(context), isPlaced: known.state === 'placed' }
  const { directory } = await context.source()
  if (directory !== null) {
    const from = { kind: 'directory', path: directory.path, folder: context.sourceId } as const
    const pulled = await pull(context, { ...here, stepId }, { source: from, expectBytes: null, expectSha1: null })
    return { pulled, way: 'directory', isPlaced: false }
  }
  const there = await serverThere(context)
  await freeze(context, there)
  const chosen = await notesOf(context, 'create_backup', Way)
  // What did not work when it was chosen is not waited for once more.
  const way = chosen?.notes?.way === 'node' ? chosen.notes : await archiveAtSource(context, there)
  signal.throwIfAborted()
  if (way.way === 'node') {
    const pulled = await byDaemon(context, { ...here, stepId }, () => openTree(context, there))
    return { pulled, way: 'node', isPlaced: false }
  }
  const archive = { uuid: way.uuid, sha1: way.sha1, bytes: way.bytes }
  const from = { ...there, archive, nodeOrigin: input.nodeOrigin }
  return { pulled: await pulledFrom(context, from, { ...here, stepId }), way: 'backup', isPlaced: false }
}

/** A server here, and by what its node knows the work. */
interface Here {
  readonly id: string
  readonly nodeId: string
  readonly stepId: string
}

/** Has the node fetch an archive of the source. Where it may not ask there, the same archive goes through the panel, in a stream. */
export async function pulledFrom(
  context: StepContext,
  {
    files,
    server,
    archive,
    nodeOrigin,
  }: Pick<ServerThere, 'files' | 'server'> & {
    readonly archive: { readonly uuid: string; readonly sha1: string; readonly bytes: number }
    readonly nodeOrigin: string | null
  },
  here: Here,
): Promise<Pulled> {
  const { options, insecure, signal } = context
  const named = options.archiveOrigins.map((text) => new URL(text).origin)
  const origins = nodeOrigin === null ? named : [nodeOrigin, ...named]
  const expected = { expectBytes: archive.bytes, expectSha1: archive.sha1 }
  const { url } = await files.download(server, archive.uuid, signal)
  try {
    return await pull(context, here, { source: { kind: 'url', url, origins, insecure }, ...expected })
  } catch (error) {
    if (!(error instanceof StepRefusal) || error.code !== 'URL_REFUSED') throw error
    // At a new URL, since each is good for one request.
    const again = await files.download(server, archive.uuid, signal)
    return byDaemon(context, here, () => fetched(context, again.url, origins), expected)
  }
}

interface Expected {
  readonly expectBytes: number | null
  readonly expectSha1: string | null
}

async function openTree({ signal }: StepContext, { files, server }: ServerThere) {
  const tree = await files.tree(server, signal)
  if (tree === undefined) {
    throw new StepRefusal('SOURCE_RIGHTS_MISSING', 'The key may not read the configuration of nodes')
  }
  return (ended: AbortSignal) => tarOfTree(tree, ended)
}

/** Through the panel, in a stream: read of the source at the node's pace. */
async function byDaemon(
  context: StepContext,
  here: Here,
  open: () => Promise<(ended: AbortSignal) => AsyncIterable<Uint8Array>>,
  expected: Expected = { expectBytes: null, expectSha1: null },
): Promise<Pulled> {
  const content = await open()
  // Why the source broke off is known here; the node only sees that it did.
  let failure: unknown
  const watched = async function* (ended: AbortSignal): AsyncGenerator<Uint8Array> {
    try {
      yield* content(AbortSignal.any([ended, context.signal]))
    } catch (error) {
      failure = error
      throw error
    }
  }
  const offer = context.deps.transfers.offer(here.nodeId, watched)
  try {
    return await pull(context, here, { source: { kind: 'ticket', ticket: offer.ticket }, ...expected })
  } catch (error) {
    throw failure instanceof SourceFailure || failure instanceof StepRefusal ? failure : error
  } finally {
    offer.close()
  }
}

async function fetched({ sourceHost, insecure }: StepContext, url: string, origins: readonly string[]) {
  const place = { url, origins, sourceHost, insecure }
  return (ended: AbortSignal) => fetchArchive(place, ended)
}

function pull(
  context: StepContext,
  { id: serverId, nodeId, stepId }: Here,
  { source, ...expected }: Expected & { readonly source: FilesSource },
): Promise<Pulled> {
  const { deps, signal, progress, options } = context
  const { bytesPerSecond } = options
  const bytes = expected.expectBytes === null ? MOST_BYTES : Math.min(MOST_BYTES, expected.expectBytes * MOST_RATIO)
  const most = { entries: MIGRATION_LIMITS.entries, bytes: Math.max(bytes, LEAST_BYTES), ms: MIGRATION_LIMITS.mostMs }
  const input = { stepId, serverId, source, ...expected, most, bytesPerSecond }
  const onProgress = ({
    bytes: came,
    entries,
    totalBytes,
  }: {
    bytes: number
    entries: number
    totalBytes: number | null
  }) => progress({ bytes: came, entries, totalBytes })
  return ask(context, nodeId, () => deps.gateway.request(nodeId, pullFiles, input, { signal, onProgress }))
}

/** What an archive may become; the disk of the server and of the node bound it as well. */
const MOST_BYTES = 16 * 1024 ** 4
const MOST_RATIO = 1000
const LEAST_BYTES = 1024 ** 3

/** What another attempt may get over. Each request to the node may be repeated. */
const MAY_PASS = new Set(['CHECKSUM', 'INTERRUPTED', 'CANCELLED', 'CONFLICT_STATE', 'INTERNAL'])

/** Asks the node; what it answers says whether another attempt may help. */
export async function ask<T>({ signal }: StepContext, nodeId: string, request: () => Promise<T>): Promise<T> {
  try {
    return await request()
  } catch (error) {
    if (signal.aborted || !(error instanceof PanelError)) throw error
    const { code, message } = error
    if (code === 'NODE_OFFLINE') throw new StepDelay(code, `The node ${nodeId} is not connected`, { cause: error })
    const agentCode = agentCodeOf(error)
    if (agentCode === 'PATH_INVALID') throw new StepRefusal('URL_REFUSED', message)
    if (agentCode === 'ARCHIVE_UNSUPPORTED') throw new StepRefusal('ARCHIVE_REFUSED', message, { isRetryable: false })
    if (code === 'AGENT_TIMEOUT' || (agentCode !== undefined && MAY_PASS.has(agentCode))) {
      throw new StepDelay(agentCode ?? code, message, { cause: error })
    }
    throw error
  }
}

/** Waits until the node knows its server, of which it learns by an order. */
async function isKnown(
  { deps, signal }: StepContext,
  { id, nodeId }: { readonly id: string; readonly nodeId: string },
): Promise<void> {
  const { db, clock, gateway } = deps
  for (const untilMs = clock.monotonicMs() + KNOWN_MS; ; ) {
    const open = await db.read
      .selectFrom('command')
      .select('id')
      .where('serverId', '=', id)
      .where('endedAt', 'is', null)
      .executeTakeFirst()
    if (open === undefined) return
    if (!gateway.isOnline(nodeId)) throw new StepDelay('NODE_OFFLINE', `The node ${nodeId} is not connected`)
    if (clock.monotonicMs() > untilMs) throw new StepDelay('AGENT_TIMEOUT', 'The node has not taken its server yet')
    await clock.sleep(KNOWN_LOOK_MS, signal)
    signal.throwIfAborted()
  }
}

const KNOWN_MS = 60_000
const KNOWN_LOOK_MS = 50

async function wayOf(context: StepContext): Promise<string> {
  const chosen = await notesOf(context, 'create_backup', Way)
  return chosen?.notes?.way ?? 'backup'
}

/** What the node has left out, for people. */
function left(problems: Pulled['problems'], count: number): string[] {
  const shown = problems.slice(0, 20).map(({ path, reason }) => `not taken: ${path}: ${reason}`)
  return count > shown.length ? [...shown, `not taken: ${count - shown.length} more`] : shown
}

/** What the source's node has shown and no archive of the source brings. */
async function missing(context: StepContext, { files }: Pulled): Promise<string[]> {
  const seen = await notesOf(context, 'freeze_source', z.looseObject({ listing: FileListing.nullish() }))
  const listing = seen?.notes?.listing
  if (listing == null) return []
  const said = (count: number, what: string, names: readonly string[]): string[] =>
    count === 0 ? [] : [`${count} ${what} of the source cannot be brought: ${names.join(', ')}`]
  const differ = listing.files === files ? [] : [`the source's node shows ${listing.files} files; ${files} have come`]
  return [
    ...differ,
    ...said(listing.links, 'links', listing.linkNames),
    ...((await wayOf(context)) === 'node' ? [] : said(listing.emptyFolders, 'empty folders', listing.emptyFolderNames)),
  ]
}
