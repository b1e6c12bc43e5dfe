import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { BackupKind, Compression } from '../../shared/protocol/backups.ts'
import { AgentFailure } from '../failure.ts'
import { codeOf } from '../files/folder-handle.ts'
import { cancelled } from '../files/list.ts'
import { noSpace } from '../files/place.ts'
import { Problems } from '../files/problems.ts'
import { removeFolder } from '../files/tree.ts'
import { packArchive } from './archive-backup.ts'
import { packIncrement } from './increment.ts'
import { archiveKey, type BackupHead, keysOf, LineWriter, readHead, writeHead } from './manifest.ts'
import { removePacksOf } from './repository.ts'
import { lost, type ObjectStore } from './store.ts'

/** A file beside the server's own, which is fetched when it is its turn. */
export interface Extra {
  readonly name: string
  /** Writes it to a file of the agent's own. */
  fetch(path: string): Promise<void>
}

/** What a backup is made with. */
export interface CreateOptions {
  readonly store: ObjectStore
  readonly ownerId: string
  readonly backupId: string
  readonly kind: BackupKind
  readonly key: string
  readonly compression: Compression
  readonly ignored: readonly string[]
  /** What the server's own patterns name is in. */
  readonly whole: boolean
  readonly extras: readonly Extra[]
  readonly about: Record<string, unknown>
  readonly maxStoredBytes: number | null
  /** A folder of the agent's own for what is on its way, which is empty. */
  readonly workFolder: string
  readonly nowMs: () => number
  readonly signal: AbortSignal
  progress(report: { readonly entries: number; readonly bytes: number; readonly totalBytes: number | null }): void
}

/** What both kinds of backup are packed with. */
export interface PackOptions extends CreateOptions {
  readonly problems: Problems
  readonly list: LineWriter
  /** Counts what goes into the store; throws NO_SPACE beyond what it may be. */
  spend(bytes: number): void
}

/** What packing has come to. */
export interface PackedFiles {
  readonly entries: number
  readonly bytes: number
  readonly extras: readonly { readonly name: string; readonly size: number }[]
  /** Of an archive. */
  readonly archive?: { readonly bytes: number; readonly sha256: string; readonly filesOffset: number }
}

/**
 * Makes a backup of a server's folder. What says that it is there is written last, so that one that failed or was cut off is not there; what
 * such an attempt has left is removed here, or by the next one. One that an attempt of the same key has finished is answered again.
 */
export async function createBackup(root: string, options: CreateOptions): Promise<BackupHead> {
  const { store, backupId, key, signal } = options
  const before = await readHead(store, backupId, signal)
  if (before?.key === key) return before
  if (before !== undefined) throw new AgentFailure('CONFLICT_STATE', 'The store has a backup of that id already')
  const startedMs = options.nowMs()
  await removeAttempt(store, options)
  await mkdir(options.workFolder, { recursive: true, mode: 0o700 })
  const problems = new Problems()
  const spent = { bytes: 0 }
  const spend = (bytes: number): void => {
    spent.bytes += bytes
    if (options.maxStoredBytes === null || spent.bytes <= options.maxStoredBytes) return
    throw new AgentFailure('NO_SPACE', 'The backup is larger than what is left for backups of this server')
  }
  let list: LineWriter | undefined
  try {
    list = await LineWriter.open(join(options.workFolder, 'entries.jsonl.gz'))
    const pack = options.kind === 'archive' ? packArchive : packIncrement
    const packed = await pack(root, { ...options, problems, list, spend })
    const stored = await list.store(store, keysOf(backupId).list, signal)
    spend(stored.bytes)
    await refuseLost(store, options, { archive: packed.archive?.bytes, list: stored.bytes })
    if (signal.aborted) throw cancelled()
    const head: BackupHead = {
      format: 1,
      kind: options.kind,
      compression: options.kind === 'archive' ? options.compression : 'gzip',
      ownerId: options.ownerId,
      backupId,
      key,
      startedMs,
      createdMs: options.nowMs(),
      entries: packed.entries,
      bytes: packed.bytes,
      storedBytes: packed.archive?.bytes ?? spent.bytes,
      sha256: packed.archive?.sha256 ?? stored.sha256,
      archiveBytes: packed.archive?.bytes ?? 0,
      filesOffset: packed.archive?.filesOffset ?? 0,
      listBytes: stored.bytes,
      listSha256: stored.sha256,
      extras: [...packed.extras],
      ...problems.answer,
      about: options.about,
    }
    await writeHead(store, head, signal)
    return head
  } catch (error) {
    await removeAttempt(store, options).catch(() => {}) // the next attempt does it; why this one failed says more
    throw isFull(error) ? noSpace() : error
  } finally {
    await list?.close()
    await removeFolder(options.workFolder)
  }
}

/** A store whose folder is taken away while it is written to has what was written last, and nothing of what was before. */
async function refuseLost(
  store: ObjectStore,
  { backupId, compression }: Pick<CreateOptions, 'backupId' | 'compression'>,
  { archive, list }: { readonly archive: number | undefined; readonly list: number },
): Promise<void> {
  const parts = [[keysOf(backupId).list, list] as const]
  if (archive !== undefined) parts.push([archiveKey(backupId, compression), archive])
  for (const [key, bytes] of parts) if ((await store.size(key)) !== bytes) throw lost(key)
}

/** Removes what an attempt at a backup that is not there has left: nothing else can need it. */
async function removeAttempt(
  store: ObjectStore,
  { backupId, key, kind }: Pick<CreateOptions, 'backupId' | 'key' | 'kind'>,
): Promise<void> {
  const keys: string[] = []
  for await (const found of store.list(keysOf(backupId).folder)) keys.push(found.key)
  await store.remove(keys)
  if (kind === 'incremental') await removePacksOf(store, key)
}

/** The disk of what is on its way. */
function isFull(error: unknown): boolean {
  const code = codeOf(error)
  return code === 'ENOSPC' || code === 'EDQUOT'
}
