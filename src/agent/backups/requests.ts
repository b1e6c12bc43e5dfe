import { randomBytes } from 'node:crypto'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { pathText } from '../../shared/kernel/path-text.ts'
import * as backups from '../../shared/protocol/backups.ts'
import { keepFiles } from '../../shared/protocol/migration.ts'
import { AgentFailure } from '../failure.ts'
import { freshKey } from '../files/archive/archive.ts'
import { compress } from '../files/archive/compression.ts'
import { type ArchiveEntry, readTar } from '../files/archive/tar-read.ts'
import { FileWork, numbered } from '../files/file-work.ts'
import { notFound } from '../files/place.ts'
import { PathRules } from '../files/rules.ts'
import type { Bulk } from '../link/bulk.ts'
import { onRequest, type RequestContext, type RequestHandler } from '../link/request-handler.ts'
import type { MigrationSteps } from '../migration/steps.ts'
import type { ServerTable } from '../server/commands.ts'
import type { GameServer } from '../server/server.ts'
import { asArchive, asTar, type Backup, openBackup, openBytes } from './contents.ts'
import { createBackup, type Extra } from './create.ts'
import { bytesOf, isBelow, listEntries, listHeads } from './listing.ts'
import { archiveKey, entriesOf, type ListEntry } from './manifest.ts'
import { OwnerLocks } from './owner-locks.ts'
import { hasRepository, prune, removeBackup } from './prune.ts'
import { type RestoreOptions, restoreAll, restorePaths } from './restore.ts'
import { damaged, type ObjectStore, readSmall, writeSmall } from './store.ts'
import { StoreMarks } from './store-marks.ts'
import { type BackupFolders, createStores } from './stores.ts'
import { verify } from './verify.ts'

const MIB = 1024 * 1024
const PROBE_BYTES = 64

/** What the answers to requests of backups are made from. */
export interface BackupRequestDeps {
  readonly servers: ServerTable
  readonly bulk: Bulk
  readonly backups: BackupFolders
  /** Where is kept which folders for backups have been used. */
  readonly backupMarksFile: string
  /** A folder of the agent's own for what is on its way. */
  readonly workFolder: string
  /** Opens an object store at a ticket. */
  readonly objectStore: (ticket: string) => ObjectStore
  /** What has come from another panel. */
  readonly migrations: Pick<MigrationSteps, 'readyFolder'>
}

/** One backup as requests name it. */
interface Stored {
  readonly store: backups.StoreAccess
  readonly ownerId: string
  readonly backupId: string
  readonly kind: backups.BackupKind
}

type Moving = { readonly entries: number; readonly bytes: number; readonly totalBytes: number | null }
type Watch = Pick<RequestContext<Moving>, 'signal' | 'progress'>

/** The requests of backups. */
export function backupRequests(deps: BackupRequestDeps): readonly RequestHandler[] {
  const { servers, bulk } = deps
  const marks = new StoreMarks(deps.backupMarksFile)
  const stores = createStores(deps.backups, { remote: deps.objectStore, marks })
  const work = new FileWork(servers)
  const locks = new OwnerLocks()
  const locked = <T>(
    { store, ownerId }: Pick<Stored, 'store' | 'ownerId'>,
    use: 'read' | 'write' | 'prune',
    signal: AbortSignal,
    work: () => Promise<T>,
  ): Promise<T> => locks.with(`${store.storeId}/${ownerId}`, use, signal, work)
  const reading = <T>(what: Stored, signal: AbortSignal, use: (backup: Backup) => Promise<T>): Promise<T> =>
    locked(
      what,
      'read',
      signal,
      async () => await use(await openBackup(stores.of(what.store, what.ownerId), what, signal)),
    )
  const pruning = (signal: AbortSignal, progress: Watch['progress']) => {
    const key = freshKey()
    return { key, workFolder: join(deps.workFolder, key), signal, progress }
  }
  return [
    onRequest(backups.probeStore, async ({ store: access }, { signal }) => {
      const store = stores.of(access, 'probe', 'write')
      const [key, content] = [`probe-${randomBytes(8).toString('hex')}`, randomBytes(PROBE_BYTES)]
      try {
        await writeSmall(store, key, content, signal)
        const read = await readSmall(store, key, { most: PROBE_BYTES, signal })
        if (read?.equals(content) !== true) throw damaged('the store does not give back what was written into it')
      } finally {
        await store.remove([key])
      }
      return { freeBytes: await store.freeBytes() }
    }),
    onRequest(
      backups.createBackup,
      ({ serverId, store: access, ownerId, key, extras, ...what }, { signal, progress }) =>
        work.long(serverId, key, () =>
          locked({ store: access, ownerId }, 'write', signal, async () => {
            const server = work.server(serverId)
            const { clock, disk } = server.context
            const store = stores.of(access, ownerId, 'write')
            await store.sweep()
            const usedMb = disk.usedMb(serverId)
            const emptied = server.emptied.signal
            const either = AbortSignal.any([signal, emptied])
            const head = await createBackup(server.place.files, {
              ...what,
              store,
              ownerId,
              key,
              extras: extras.map((extra) => extraAt(bulk, extra, either)),
              workFolder: join(deps.workFolder, key),
              nowMs: () => clock.nowMs(),
              signal: either,
              progress: (report) => progress({ ...report, totalBytes: totalOf(usedMb, report.bytes) }),
            }).catch((error: unknown) => {
              throw emptied.aborted
                ? new AgentFailure('NOT_FOUND', 'The server was deleted while it was packed')
                : error
            })
            const { entries, bytes, storedBytes, sha256, problems, problemCount } = head
            return { entries, bytes, storedBytes, sha256, problems, problemCount }
          }),
        ),
    ),
    onRequest(keepFiles, ({ serverId, stepId, store: access, ownerId, key, ...what }, { signal, progress }) =>
      work.long(serverId, key, () =>
        locked({ store: access, ownerId }, 'write', signal, async () => {
          const { clock } = work.server(serverId).context
          const store = stores.of(access, ownerId, 'write')
          await store.sweep()
          const head = await createBackup(await deps.migrations.readyFolder(stepId), {
            ...what,
            kind: 'archive',
            store,
            ownerId,
            key,
            ignored: [],
            whole: true,
            extras: [],
            maxStoredBytes: null,
            workFolder: join(deps.workFolder, key),
            nowMs: () => clock.nowMs(),
            signal,
            progress,
          })
          const { entries, bytes, storedBytes, sha256, problems, problemCount } = head
          return { entries, bytes, storedBytes, sha256, problems, problemCount }
        }),
      ),
    ),
    onRequest(backups.restoreBackup, ({ serverId, key, paths, denied, ...what }, { signal, progress }) =>
      work.long(serverId, key, () =>
        reading(what, signal, (backup) =>
          work.changing(serverId, async (server) => {
            const wanted = wantedPaths(paths)
            const bytes = await openBytes(backup, { reuses: true })
            const source = {
              bytes: paths === null ? backup.head.bytes : null,
              entries: () => wanted.checked(asArchive(backup, bytes, wanted.wants)),
            }
            try {
              return await restore(server, source, { ...what, work, paths, denied, key, signal, progress })
            } finally {
              await bytes.close()
            }
          }),
        ),
      ),
    ),
    onRequest(backups.receiveBackup, ({ serverId, key, ticket, paths, denied, ...how }, { signal, progress }) =>
      work.long(serverId, key, () =>
        work.changing(serverId, async (server) => {
          const wanted = wantedPaths(paths)
          const take = (content: AsyncIterable<Uint8Array>) => {
            const source = { bytes: null, entries: () => wanted.checked(only(readTar(content), wanted.wants)) }
            return restore(server, source, { ...how, work, paths, denied, key, signal, progress })
          }
          return await bulk.fetch(ticket, take, { signal, progress: () => {} })
        }),
      ),
    ),
    onRequest(backups.describeBackup, (what, { signal }) =>
      reading(what, signal, async ({ head }) => {
        const { kind, archiveBytes, compression, entries, bytes, sha256, about, extras } = head
        const size = kind === 'archive' ? archiveBytes : null
        return { size, compression, entries, bytes, sha256, about, extras: extras.length }
      }),
    ),
    onRequest(backups.listBackupEntries, (what, { signal }) =>
      reading(what, signal, (backup) => listEntries(backup, what)),
    ),
    onRequest(backups.deliverBackup, (what, watch) =>
      reading(what, watch.signal, (backup) => deliver(backup, what, { bulk, watch })),
    ),
    onRequest(backups.verifyBackups, ({ store: access, ownerId, backups: wanted, deep }, { signal, progress }) =>
      locked({ store: access, ownerId }, 'read', signal, () =>
        verify(stores.of(access, ownerId), wanted, { deep, signal, progress }),
      ),
    ),
    onRequest(backups.deleteBackup, (what, { signal, progress }) =>
      locked(what, 'prune', signal, async () => {
        const store = stores.of(what.store, what.ownerId)
        await store.sweep()
        const freed = await removeBackup(store, what.backupId)
        if (what.kind === 'archive' || !(await hasRepository(store))) return { freedBytes: freed }
        const { freedBytes } = await prune(store, { ...pruning(signal, progress), keep: new Set(), dryRun: false })
        return { freedBytes: freed + freedBytes }
      }),
    ),
    onRequest(backups.pruneBackups, ({ store: access, ownerId, keep, dryRun }, { signal, progress }) =>
      locked({ store: access, ownerId }, 'prune', signal, async () => {
        const store = stores.of(access, ownerId)
        if (!dryRun) await store.sweep()
        return await prune(store, { ...pruning(signal, progress), keep: new Set(keep), dryRun })
      }),
    ),
    onRequest(backups.listStored, async ({ store: access, ownerId, after, limit }, { signal }) => {
      const owners = ownerId !== null ? [ownerId] : await stores.owners(access)
      const parts = owners.map((owner) => ({ ownerId: owner, store: stores.of(access, owner) }))
      const all = ownerId === null && access.kind === 's3'
      return await listHeads(all ? [{ ownerId: null, store: stores.of(access, '') }] : parts, { after, limit, signal })
    }),
  ]
}

interface RestoreRequest {
  readonly work: FileWork
  readonly paths: readonly string[] | null
  readonly denied: readonly string[]
  readonly key: string
  readonly replace: boolean
  readonly keepOthers: boolean
  readonly signal: AbortSignal
  readonly progress: RestoreOptions['progress']
}

async function restore(
  server: GameServer,
  source: Parameters<typeof restoreAll>[1],
  { work, paths, denied, replace, keepOthers, ...how }: RestoreRequest,
) {
  const rules = work.rulesFor(server.id, { denied, changes: paths === null ? [] : numbered(paths) })
  if (paths === null) return await restoreAll(server, source, { ...how, rules, denied, keepOthers })
  return await restorePaths(server, source, { ...how, rules, denied, replace })
}

/** Which entries some paths name; one that names none ends the work before anything is put in its place. */
function wantedPaths(paths: readonly string[] | null) {
  const all = (paths ?? ['/']).map((path, number) => ({
    path,
    number,
    isBelow: isBelow(path),
    isThere: bytesOf(path) === '',
  }))
  const wants = (entry: Pick<ListEntry, 'path'>): boolean => {
    let isWanted = false
    for (const one of all) {
      if (!one.isBelow(entry)) continue
      one.isThere = true
      isWanted = true
    }
    return isWanted
  }
  async function* checked(entries: AsyncIterable<ArchiveEntry>): AsyncGenerator<ArchiveEntry> {
    yield* entries
    const missing = all.find(({ isThere }) => !isThere)
    if (missing !== undefined) throw notFound(missing.path, { field: `paths.${missing.number}` })
  }
  return { wants, checked }
}

async function* only(
  entries: AsyncIterable<ArchiveEntry>,
  wants: (entry: Pick<ListEntry, 'path'>) => boolean,
): AsyncGenerator<ArchiveEntry> {
  for await (const entry of entries) {
    const path = entry.name.at(-1) === 0x2f ? entry.name.subarray(0, -1) : entry.name
    if (wants({ path })) yield entry
  }
}

type Delivery = Parameters<typeof openBackup>[1] & {
  readonly ticket: string
  readonly content: 'archive' | 'file' | 'extra'
  readonly path: string | null
  readonly compression: backups.Compression
  readonly offset: number
  readonly length: number | null
  readonly denied: readonly string[]
}

/** Sends what was asked for, and answers what has left. */
async function deliver(
  backup: Backup,
  { ticket, content, path, compression, offset, length, denied }: Delivery,
  { bulk, watch }: { readonly bulk: Bulk; readonly watch: Watch },
): Promise<{ sha256: string; bytes: number }> {
  const { store, head, signal } = backup
  const sent = { bytes: 0 }
  const send = async (bytes: AsyncIterable<Buffer>): Promise<{ sha256: string; bytes: number }> => {
    const counted = counting(part(bytes, { offset, length }), sent, (count) =>
      watch.progress({ entries: 0, bytes: count, totalBytes: null }),
    )
    const sha256 = await bulk.deliver(ticket, counted, { signal, progress: () => {} })
    return { sha256, bytes: sent.bytes }
  }
  const isWhole = content === 'archive' && path === null && denied.length === 0
  if (isWhole && head.kind === 'archive' && head.compression === compression) {
    const range = { offset, length: Math.max(0, Math.min(length ?? head.archiveBytes, head.archiveBytes - offset)) }
    const asItLies = counting(store.read(archiveKey(head.backupId, compression), range, signal), sent, (count) =>
      watch.progress({ entries: 0, bytes: count, totalBytes: range.length }),
    )
    const sha256 = await bulk.deliver(ticket, asItLies, { signal, progress: () => {} })
    return { sha256, bytes: sent.bytes }
  }
  const bytes = await openBytes(backup, { reuses: false })
  try {
    if (content !== 'archive') return await send(bytes.of(await fileOf(backup, content, path ?? '')))
    const how = compression === 'gzip' ? 'gz' : compression === 'zstd' ? 'zst' : 'none'
    const wanted = wantedPaths(path === null ? null : [path])
    const rules = new PathRules([], denied)
    const wants = (entry: ListEntry): boolean =>
      wanted.wants(entry) && !rules.isDenied(pathText(entry.path), entry.kind === 'folder')
    const tar = asTar(backup, bytes, { wants, withExtras: path === null })
    return await send(compress(tar, how))
  } finally {
    await bytes.close()
  }
}

/** The one file that is asked for, or what lies beside the server's files under a name. */
async function fileOf({ store, head, signal }: Backup, content: 'file' | 'extra', path: string): Promise<ListEntry> {
  const wanted = content === 'file' ? bytesOf(path) : path
  for await (const entry of entriesOf(store, head, signal)) {
    if (entry.kind === content && entry.path.toString('latin1') === wanted) return entry
  }
  throw notFound(path)
}

async function* counting(
  content: AsyncIterable<Buffer>,
  sent: { bytes: number },
  report: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  for await (const piece of content) {
    sent.bytes += piece.length
    report(sent.bytes)
    yield piece
  }
}

async function* part(
  content: AsyncIterable<Buffer>,
  { offset, length }: { readonly offset: number; readonly length: number | null },
): AsyncGenerator<Buffer> {
  let at = 0
  const end = length === null ? Number.POSITIVE_INFINITY : offset + length
  for await (const piece of content) {
    const wanted = piece.subarray(Math.max(0, offset - at), Math.max(0, end - at))
    at += piece.length
    if (wanted.length > 0) yield wanted
    if (at >= end) return
  }
}

function extraAt(
  bulk: Bulk,
  { name, ticket }: { readonly name: string; readonly ticket: string },
  signal: AbortSignal,
): Extra {
  return {
    name,
    fetch: (path) =>
      bulk.fetch(
        ticket,
        async (content) => {
          const file = await open(path, 'w', 0o600)
          try {
            for await (const piece of content) await file.appendFile(piece)
          } finally {
            await file.close()
          }
        },
        { signal, progress: () => {} },
      ),
  }
}

/** What there is by the last count, which the server may have outgrown. */
function totalOf(usedMb: number | null | undefined, bytes: number): number | null {
  return usedMb == null ? null : Math.max(bytes, Math.ceil(usedMb * MIB))
}
