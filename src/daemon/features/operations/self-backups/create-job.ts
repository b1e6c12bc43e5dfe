import { join } from 'node:path'
import { z } from 'zod'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import type { Caller } from '../../../access/caller.ts'
import type { Tx } from '../../../db/db.ts'
import { troubleOf } from '../../../db/sqlite/failures.ts'
import { defineJob, type JobOf } from '../../../jobs/job-type.ts'
import { StoreFailure } from '../../../object-store/store-failure.ts'
import { findStore, type StoreRow } from '../stores/rows.ts'
import { clearFolder, packBackup } from './archive.ts'
import { copyDatabase, freshFolder } from './backup-file.ts'
import type { SelfBackupDeps } from './deps.ts'
import { nameOf, placeIn } from './places.ts'
import { findBackup, outlived, type SelfBackupRow } from './rows.ts'
import { fingerprintOf, SealedKey } from './sealed-key.ts'

const HOUR_MS = 3_600_000
const ATTEMPTS = 3

/** Makes one backup of the panel, and removes what the schedule has made before and need not keep. */
export const SELF_BACKUP = defineJob({
  kind: 'self_backups.create',
  input: z.object({
    backupId: z.string(),
    /** Sealed when the backup was asked for: the passphrase is never written down. */
    key: SealedKey.nullable(),
    /** How many of the schedule stay; `null`: nothing is removed. */
    keep: z.int().nullable(),
  }),
  state: z.object({}),
  first: () => ({}),
  title: () => 'Back the panel up',
  pool: { name: 'system', size: 4 },
  lane: () => 'self-backup',
  ordered: true,
  background: false,
  plan: ({ keep }) => [
    { step: 'create', name: 'create' },
    ...(keep === null ? [] : [{ step: 'prune', name: 'remove old ones' } as const]),
  ],
})

type Input = z.infer<typeof SELF_BACKUP.input>

/** Who has asked for one, and how. */
interface Asked {
  readonly store: StoreRow
  readonly cause: SelfBackupRow['cause']
  readonly key: SealedKey | undefined
  readonly keep: number | null
  readonly caller?: Pick<Caller, 'kind' | 'userId' | 'credentialId'> | undefined
}

/** Adds a backup and the job that makes it. */
export async function addBackup(
  tx: Tx,
  { clock, jobs, bus }: Pick<SelfBackupDeps, 'clock' | 'jobs' | 'bus'>,
  { store, cause, key, keep, caller }: Asked,
): Promise<{ readonly id: string; readonly jobId: string }> {
  const id = newId('pbk', clock)
  const jobId = await jobs.queue.add(tx, SELF_BACKUP, {
    input: { backupId: id, key: key ?? null, keep },
    cause: cause === 'schedule' ? 'schedule of self-backups' : 'self-backup',
    onBehalfOf: caller,
  })
  if (jobId === undefined) throw new Error('a job without a key was not added')
  await tx.q
    .insertInto('selfBackup')
    .values({
      ...{
        id,
        name: nameOf(id, tx.now),
        storeId: store.id,
        status: 'pending',
        cause,
        includesKey: key === undefined ? 0 : 1,
      },
      ...{ bytes: null, sha256: null, panelVersion: null, schemaVersion: null, error: null, jobId },
      ...{ createdAt: tx.now, completedAt: null },
    })
    .execute()
  await announce(tx, bus, { id, status: 'pending', error: null })
  return { id, jobId }
}

/** Gives the engine the steps. */
export function registerSelfBackups(jobs: SelfBackupDeps['jobs'], deps: SelfBackupDeps): void {
  jobs.register(SELF_BACKUP, {
    steps: {
      create: {
        attempts: ATTEMPTS,
        timeoutMs: 24 * HOUR_MS,
        run: async ({ job, signal, progress }) => {
          const row = await findBackup(deps.db.read, job.input.backupId)
          if (row === undefined) return fail('the backup was deleted')
          const store = await findStore(deps.db.read, row.storeId)
          if (store === undefined) return fail('its store is gone')
          const report = (bytes: number, total: number): void =>
            progress({ done: bytes, total, unit: 'bytes', text: `to ${store.name}` })
          try {
            const made = await makeBackup(deps, { row, store, jobId: job.id, key: job.input.key, signal, report })
            return async (tx) => {
              const done = { ...made, status: 'completed', error: null, completedAt: tx.now } as const
              await tx.q.updateTable('selfBackup').set(done).where('id', '=', row.id).execute()
              await announce(tx, deps.bus, { id: row.id, status: 'completed', error: null })
              return {}
            }
          } catch (error) {
            if (signal.aborted || (mayPass(error) && job.attempt < ATTEMPTS)) throw error
            if (row.cause === 'schedule') deps.systemErrors.capture(error, { component: 'self-backup' })
            const code = error instanceof PanelError ? error.code : undefined
            return fail(error instanceof Error ? error.message : String(error), code)
          }
        },
      },
      prune: {
        run: async ({ job, signal }) => {
          const old = await outlived(deps.db.read, job.input.keep ?? Number.POSITIVE_INFINITY, deps.clock.nowMs())
          for (const row of old) {
            await removeBackup(deps, row, signal)
            await deps.db.write((tx) => forget(tx, deps.bus, row.id))
          }
          return undefined
        },
      },
    },
    ended: async (tx, job, status) => {
      if (status === 'succeeded') return
      await noteFailure(tx, deps, job, status)
    },
  })
}

/** Removes the archive of a backup from its store. */
export async function removeBackup(
  { db, stores, backupDir }: Pick<SelfBackupDeps, 'db' | 'stores' | 'backupDir'>,
  { name, storeId }: Pick<SelfBackupRow, 'name' | 'storeId'>,
  signal?: AbortSignal,
): Promise<void> {
  const store = await findStore(db.read, storeId)
  if (store !== undefined) await placeIn(store, { stores, backupDir }).remove(name, signal)
}

/** Removes the row of a backup. */
export async function forget(tx: Tx, bus: SelfBackupDeps['bus'], id: string): Promise<void> {
  await tx.q.deleteFrom('selfBackup').where('id', '=', id).execute()
  await bus.append(tx, { type: 'self_backup_deleted', data: { backupId: id } })
}

interface Making {
  readonly row: SelfBackupRow
  readonly store: StoreRow
  readonly jobId: string
  readonly key: SealedKey | null
  readonly signal: AbortSignal
  readonly report: (bytes: number, total: number) => void
}

async function makeBackup(deps: SelfBackupDeps, { row, store, jobId, key, signal, report }: Making) {
  const { db, version, credentialKey, workDir } = deps
  const place = placeIn(store, deps)
  const folder = join(workDir, row.id)
  try {
    // What an attempt before this one has left, here and in the store, is no backup.
    await freshFolder(folder)
    if (row.bytes === null) await place.remove(row.name, signal)
    const schemaVersion = await copyDatabase(db.file, folder, { id: row.id, jobId, signal })
    const archive = join(folder, row.name)
    const about = {
      ...{ id: row.id, createdAt: row.createdAt, panelVersion: version, schemaVersion },
      ...{ keyFingerprint: credentialKey === undefined ? null : fingerprintOf(credentialKey), key: key ?? undefined },
    }
    const { bytes, sha256 } = await packBackup(folder, archive, about, signal)
    const watch = { signal, progress: (sent: number) => report(sent, bytes) }
    await place.take(row.name, { path: archive, bytes }, watch)
    return { bytes, sha256, panelVersion: version, schemaVersion }
  } finally {
    await clearFolder(folder)
  }
}

/** Also of a job that was cancelled, or whose steps could not be carried out at all. */
async function noteFailure(
  tx: Tx,
  deps: SelfBackupDeps,
  job: JobOf<Input, unknown>,
  status: 'failed' | 'cancelled',
): Promise<void> {
  const { backupId } = job.input
  const row = await findBackup(tx.q, backupId)
  if (row?.status !== 'pending') return
  const step = await tx.q
    .selectFrom('jobStep')
    .select('error')
    .where('jobId', '=', job.id)
    .where('error', 'is not', null)
    .orderBy('number', 'desc')
    .limit(1)
    .executeTakeFirst()
  const error = status === 'cancelled' ? 'it was cancelled' : (step?.error ?? 'its job has failed')
  const ended = { status: 'failed', error: error.slice(0, 1000), completedAt: tx.now } as const
  await tx.q.updateTable('selfBackup').set(ended).where('id', '=', backupId).execute()
  await announce(tx, deps.bus, { id: backupId, status: 'failed', error })
  // What a cancelled attempt may have left in the store is no reason to keep the transaction waiting.
  tx.onCommit(() => {
    removeBackup(deps, row).catch((err: unknown) =>
      deps.log.warn({ err, backupId }, 'cannot remove what a failed self-backup left'),
    )
  })
}

async function announce(
  tx: Tx,
  bus: SelfBackupDeps['bus'],
  {
    id,
    status,
    error,
  }: { readonly id: string; readonly status: SelfBackupRow['status']; readonly error: string | null },
): Promise<void> {
  await bus.append(tx, { type: 'self_backup_updated', data: { backupId: id, status, error } })
}

/** Whether another attempt may succeed without anybody having done something. */
function mayPass(error: unknown): boolean {
  return error instanceof StoreFailure ? error.passes : troubleOf(error) === 'unwritable'
}

function fail(error: string, code?: string) {
  const after = { kind: 'fail' as const, error, ...(code === undefined ? {} : { code }) }
  return async () => ({ after })
}
