import type { Clock } from '../../shared/kernel/time.ts'
import { FILE_LIMITS } from '../../shared/protocol/file-operations.ts'
import type { FilesSource, PulledFiles } from '../../shared/protocol/migration.ts'
import { prepareFolder, type UnpackAside, unpackAside, wholeRoom } from '../backups/restore.ts'
import { AgentFailure } from '../failure.ts'
import { compressionOf, decompress } from '../files/archive/compression.ts'
import { type ArchiveEntry, readTar } from '../files/archive/tar-read.ts'
import type { Unpacked, UnpackOptions } from '../files/archive/unpack.ts'
import { noSpace } from '../files/place.ts'
import type { PullConfig } from '../files/pull-ports.ts'
import { PathRules } from '../files/rules.ts'
import type { Bulk } from '../link/bulk.ts'
import type { GameServer } from '../server/server.ts'
import { Arrival } from './arrival.ts'
import { type DirectoryRules, withServerFolder } from './directory.ts'
import { FileList } from './file-list.ts'
import { paced } from './paced.ts'
import { openArchive } from './source-archive.ts'
import type { Coming, PullWork } from './steps.ts'

/** The bound of the whole work comes before that of unpacking. */
const LATE_MS = 60_000
const ENTRY_BYTES = 2048
/** Behind the last entry: tars end with blocks of zeros. */
const TAIL_BYTES = 1024 * 1024

/** What files are fetched with. */
export interface PullDeps {
  readonly bulk: Bulk
  readonly pull: PullConfig
  readonly directories: DirectoryRules
}

/** What is fetched for a server. */
export interface PullRequest {
  readonly source: FilesSource
  readonly expectBytes: number | null
  readonly expectSha1: string | null
  readonly most: { readonly entries: number; readonly bytes: number; readonly ms: number }
  /** How fast an archive may come; as fast as it does where nothing is said. */
  readonly bytesPerSecond?: number | undefined
}

/** Of an archive, or nothing of a folder. */
type Came = Pick<PulledFiles, 'archiveBytes' | 'archiveSha1' | 'problems' | 'problemCount'> & {
  readonly unpacked: Unpacked
}

/** Unpacks a server's files beside its folder. What fails leaves nothing. */
export async function pullFiles(
  server: GameServer,
  { source, expectBytes, expectSha1, most, bytesPerSecond }: PullRequest,
  { staged, listPath, progress, ...work }: PullWork,
  deps: PullDeps,
): Promise<PulledFiles> {
  const { clock } = server.context
  return await within(clock, most.ms, work.signal, async (signal) => {
    const uid = await server.order(() => prepareFolder(server))
    const roomBytes = Math.min(most.bytes, await wholeRoom(server))
    const list = new FileList()
    const coming = { entries: 0, bytes: 0, archiveBytes: 0, totalBytes: expectBytes }
    const report = (change: Partial<Coming>): void => progress(Object.assign(coming, change))
    const options = (readBytes: () => number): UnpackOptions => ({
      to: '/',
      key: '',
      rules: new PathRules(server.spec.mounts ?? [], []),
      replace: true,
      roomBytes,
      readBytes,
      monotonicMs: () => clock.monotonicMs(),
      nowMs: clock.nowMs(),
      most: { entries: most.entries, timeMs: most.ms + LATE_MS },
      keepsModes: true,
      written: (name, file) => list.set(name, file),
      signal,
      progress: report,
    })
    const { unpacked, ...came } = await unpackAside(server, staged, {
      uid,
      take: async (unpack) => {
        if (source.kind === 'directory') return await takeFolder(source, deps.directories, { unpack, options, signal })
        const expected = { bytes: expectBytes, sha1: expectSha1, mostBytes: mostOf(most) }
        const take = (content: AsyncIterable<Uint8Array>): Promise<Came> => {
          const slow = bytesPerSecond === undefined ? content : paced(content, { bytesPerSecond, clock, signal })
          return takeArchive(new Arrival(slow, expected, (archiveBytes) => report({ archiveBytes })), {
            unpack,
            options,
          })
        }
        return source.kind === 'url'
          ? await take(await openArchive(urlOf(source, deps), signal))
          : await byTicket(source.ticket, take, { deps, signal })
      },
    })
    const { files, bytes, sha256 } = await list.write(listPath)
    return { entries: unpacked.entries, files, bytes, manifestSha256: sha256, ...came }
  })
}

/** What an archive has at most that was not pressed at all: names, and blocks that are not full. */
function mostOf({ entries, bytes }: PullRequest['most']): number {
  return bytes + entries * ENTRY_BYTES + TAIL_BYTES
}

interface Taking {
  readonly unpack: UnpackAside
  readonly options: (readBytes: () => number) => UnpackOptions
}

async function takeArchive(arrival: Arrival, { unpack, options }: Taking): Promise<Came> {
  const entries = async function* (): AsyncGenerator<ArchiveEntry> {
    yield* readTar(decompress(arrival.pieces(), compressionOf(await arrival.first())))
  }
  const read = options(() => arrival.bytes)
  try {
    // One that was damaged on its way looks like one that was made so: its hash says which it is.
    const [unpacked] = await Promise.allSettled([unpack(entries(), read)])
    if (unpacked.status === 'rejected' && !isOfArchive(unpacked.reason)) throw unpacked.reason
    const archiveSha1 = await arrival.end()
    if (unpacked.status === 'rejected') throw unpacked.reason
    const { problems, problemCount } = unpacked.value
    return { unpacked: unpacked.value, archiveBytes: arrival.bytes, archiveSha1, problems, problemCount }
  } finally {
    arrival.close()
  }
}

function isOfArchive(error: unknown): boolean {
  return error instanceof AgentFailure && error.code === 'ARCHIVE_UNSUPPORTED'
}

async function takeFolder(
  source: { readonly path: string; readonly folder: string },
  rules: DirectoryRules,
  { unpack, options, signal }: Taking & { readonly signal: AbortSignal },
): Promise<Came> {
  const { taken, ...left } = await withServerFolder(rules, source, { signal, progress: () => {} }, (entries) =>
    unpack(
      entries,
      // What a folder has on a disk is no archive that was made to become more.
      options(() => Number.MAX_SAFE_INTEGER),
    ),
  )
  return {
    unpacked: taken,
    archiveBytes: null,
    archiveSha1: null,
    problems: [...left.problems, ...taken.problems].slice(0, FILE_LIMITS.problems),
    problemCount: left.problemCount + taken.problemCount,
  }
}

/** Through the daemon, by a connection that may end as one to the source may. */
async function byTicket<T>(
  ticket: string,
  take: (content: AsyncIterable<Uint8Array>) => Promise<T>,
  { deps, signal }: { readonly deps: PullDeps; readonly signal: AbortSignal },
): Promise<T> {
  try {
    return await deps.bulk.fetch(ticket, take, { signal, progress: () => {} })
  } catch (error) {
    if (signal.aborted || !(error instanceof AgentFailure) || error.code !== 'CANCELLED') throw error
    throw new AgentFailure('INTERRUPTED', error.message, { cause: error })
  }
}

function urlOf(source: Extract<FilesSource, { kind: 'url' }>, { pull }: PullDeps) {
  return { ...source, allowedRanges: pull.allowedRanges ?? [] }
}

/** Ends work that takes too long; throws TIMEOUT then. */
async function within<T>(
  clock: Clock,
  ms: number,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const [late, over] = [new AbortController(), new AbortController()]
  void clock.sleep(ms, over.signal).then(() => late.abort())
  try {
    return await work(AbortSignal.any([signal, late.signal]))
  } catch (error) {
    if (signal.aborted || !late.signal.aborted) throw full(error)
    throw new AgentFailure('TIMEOUT', `The files have not come within ${Math.round(ms / 1000)} s`, { cause: error })
  } finally {
    over.abort()
  }
}

function full(error: unknown): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return code === 'ENOSPC' || code === 'EDQUOT' ? noSpace() : error
}
