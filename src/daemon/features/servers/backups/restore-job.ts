import { z } from 'zod'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import * as protocol from '../../../../shared/protocol/backups.ts'
import type { ResultOf } from '../../../../shared/protocol/define.ts'
import { userIdOf } from '../../../access/operation.ts'
import type { Tx } from '../../../db/db.ts'
import { defineJob, type JobOf } from '../../../jobs/job-type.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import { refuseSuspended } from '../servers/orders.ts'
import { findServerRow, type ServerRow } from '../servers/rows.ts'
import { statusOf } from '../servers/view.ts'
import { announce } from './announce.ts'
import { restoreDumps } from './database-dumps.ts'
import type { BackupDeps } from './deps.ts'
import { refuseUnready } from './find.ts'
import { afterFailure, DAY_MS, keyOf, reasonOf } from './job-ends.ts'
import { POOL } from './lanes.ts'
import { addBackup } from './new-backup.ts'
import { nodeOf, stored, withStore } from './reach-store.ts'
import { findBackup, findShown, moveBackup, type ShownBackup, setBackup } from './rows.ts'

const MOST_PROBLEMS = 20

/** Brings a backup, or paths of it, back to its server or to another one. */
export const RESTORE_BACKUP = defineJob({
  kind: 'backups.restore',
  input: z.object({
    backupId: z.string(),
    name: z.string(),
    lane: z.string(),
    /** Where it is restored to. */
    serverId: z.string(),
    paths: z.array(z.string()).nullable(),
    replace: z.boolean(),
    keepOthers: z.boolean(),
    preBackup: z.boolean(),
    files: z.boolean(),
    /** Dumps by their names, with the database that each is restored to. */
    databases: z.array(z.object({ name: z.string(), databaseId: z.string() })),
    /** Patterns of what whoever has started it does not get. */
    denied: z.array(z.string()),
  }),
  state: z.object({
    preBackupId: z.string().nullable(),
    entries: z.number().nullable(),
    bytes: z.number().nullable(),
    problems: z.array(z.string()),
  }),
  first: () => ({ preBackupId: null, entries: null, bytes: null, problems: [] }),
  title: ({ name }) => `Restore the backup ${name}`,
  pool: POOL,
  lane: ({ lane }) => lane,
  ordered: false,
  background: false,
  plan: ({ preBackup, files, databases }) => [
    ...(preBackup ? [{ step: 'before', name: 'back up what is there' } as const] : []),
    ...(files ? [{ step: 'files', name: 'files' } as const] : []),
    ...(databases.length > 0 ? [{ step: 'databases', name: 'databases' } as const] : []),
  ],
  needs: ({ serverId, databases }) => ({
    server: serverId,
    permissions: databases.length > 0 ? ['backup.restore', 'database.read'] : ['backup.restore'],
  }),
})

type Job = JobOf<z.output<typeof RESTORE_BACKUP.input>, z.output<typeof RESTORE_BACKUP.state>>
type Restored = ResultOf<typeof protocol.restoreBackup>

/** Gives the engine the steps of it. */
export function registerRestore(jobs: Pick<Jobs, 'register'>, deps: BackupDeps): void {
  const attempt = async <T>(signal: AbortSignal, work: () => Promise<T>) => {
    try {
      return { done: await work() }
    } catch (error) {
      const after = afterFailure(deps, error, signal)
      if (after === undefined) throw error
      return { after }
    }
  }
  jobs.register(RESTORE_BACKUP, {
    steps: {
      before: {
        run: async ({ job }) => {
          const row = await targetOf(deps, job.input)
          return async (tx) => {
            // Whoever may restore may have this made; the rights were looked at for that.
            const by = { userId: userIdOf(job.principal), caller: undefined }
            const name = `before-${job.input.name}`.slice(0, 120)
            const made = { name, parentId: job.id, by, cause: 'restore', wholeOnly: true } as const
            const { backupId } = await addBackup(tx, deps, row, made)
            return { state: { ...job.state, preBackupId: backupId }, after: { kind: 'children' } }
          }
        },
      },
      files: {
        timeoutMs: DAY_MS,
        run: async ({ job, signal, progress }) => {
          const ended = await attempt(signal, async () => {
            const [backup, row] = await both(deps, job)
            return await restore(deps, { job, backup, row, signal, progress })
          })
          if (ended.after !== undefined) return async () => ({ after: ended.after })
          const { entries, bytes, problems } = ended.done
          const shown = problems.slice(0, MOST_PROBLEMS).map(({ path, reason }) => `${path}: ${reason}`.slice(0, 500))
          return async () => ({ state: { ...job.state, entries, bytes, problems: shown } })
        },
      },
      databases: {
        timeoutMs: DAY_MS,
        run: async ({ job, signal, progress }) => {
          const ended = await attempt(signal, async () => {
            const [backup] = await both(deps, job)
            const report = (done: number): void => progress({ done, total: null, unit: 'bytes', text: 'databases' })
            return await restoreDumps(deps, { backup, databases: job.input.databases, signal, report })
          })
          if (ended.after !== undefined) return async () => ({ after: ended.after })
          const problems = [...job.state.problems, ...ended.done].slice(0, 2 * MOST_PROBLEMS)
          return async () => ({ state: { ...job.state, problems } })
        },
      },
    },
    ended: async (tx, job, status) => {
      const backup = await findBackup(tx.q, job.input.backupId)
      if (backup === undefined) return
      const { id: backupId, name: backupName } = backup
      const failure = status === 'succeeded' ? undefined : await reasonOf(tx, job.id, status)
      await moveBackup(tx, backupId, ['restoring'], { status: 'completed' })
      if (failure === undefined) await setBackup(tx, backupId, { restoredAt: tx.now, error: null })
      else await setBackup(tx, backupId, { error: `It was not restored: ${failure}`.slice(0, 1000) })
      const outcome = failure === undefined ? { success: true } : { success: false, error: failure.slice(0, 500) }
      const data = { backupId, backupName, ...outcome }
      await announce(tx, deps, { type: 'backup_restore_complete', serverId: job.input.serverId, data })
    },
  })
}

async function targetOf({ db }: BackupDeps, { serverId }: Job['input']): Promise<ServerRow> {
  const row = await findServerRow(db.read, serverId)
  if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'The server is gone')
  refuseSuspended(row)
  return row
}

/** The backup and the server, as they are now; throws where the one made before has failed, or what is restored is not whole. */
async function both(deps: BackupDeps, { id: jobId, input, state }: Job): Promise<readonly [ShownBackup, ServerRow]> {
  const backup = await findShown(deps.db.read, input.backupId)
  if (backup === undefined) throw new PanelError('BACKUP_NOT_FOUND', 'The backup is gone')
  // A step that is tried again after the end takes the backup anew, so that nobody deletes it meanwhile.
  if (backup.status !== 'restoring' || backup.jobId !== jobId) {
    refuseUnready(backup)
    const taken = { status: 'restoring', jobId, error: null } as const
    if (!(await deps.db.write((tx) => moveBackup(tx, backup.id, ['completed'], taken)))) {
      throw new PanelError('BACKUP_NOT_READY', `The backup ${backup.name} is no longer ready; look again`)
    }
  }
  if (state.preBackupId !== null) {
    const before = await findBackup(deps.db.read, state.preBackupId)
    if (before?.completedAt == null) {
      const why = before?.error ?? 'it is gone'
      throw new PanelError('BACKUP_NOT_READY', `Nothing was restored: what is there was not backed up before (${why})`)
    }
  }
  return [backup, await targetOf(deps, input)]
}

/** Refuses a server that runs: its folder is about to be exchanged. */
export function refuseRunning(row: ServerRow): void {
  const status = statusOf(row)
  if (status === 'stopped' || status === 'crashed' || status === 'error') return
  throw new PanelError('SERVER_MUST_BE_STOPPED', `The server ${row.name} is ${status}; stop it first`, {
    meta: { currentStatus: status, allowed: ['stopped', 'crashed', 'error'] },
  })
}

interface Restoring {
  readonly job: Job
  readonly backup: ShownBackup
  readonly row: ServerRow
  readonly signal: AbortSignal
  readonly progress: Parameters<Parameters<Jobs['register']>[1]['steps'][string]['run']>[0]['progress']
}

async function restore(deps: BackupDeps, { job, backup, row, signal, progress }: Restoring): Promise<Restored> {
  const { gateway } = deps
  const { paths, replace, keepOthers, denied, serverId } = job.input
  if (!gateway.isOnline(row.nodeId)) throw new PanelError('NODE_OFFLINE', `The node ${row.nodeName} is not connected`)
  // An attempt of this job that was cut off may still be under way at the node, which refuses a server that runs itself.
  if (paths === null && statusOf(row) !== 'restoring') refuseRunning(row)
  const options = {
    signal,
    onProgress: ({ entries, bytes, totalBytes }: { entries: number; bytes: number; totalBytes: number | null }) =>
      progress({ done: bytes, total: totalBytes, unit: 'bytes', text: `${entries} entries` }),
  }
  const what = { serverId, key: keyOf(job.id), paths, replace, keepOthers, denied }
  const from = nodeOf(deps, backup, row.nodeId)
  const grant = { nodeId: from, ownerId: backup.ownerId, mode: 'read', signal } as const
  return await withStore(deps, backup.storeId, grant, async (store) => {
    if (from === row.nodeId)
      return await gateway.request(from, protocol.restoreBackup, { ...what, ...stored(backup, store) }, options)
    return await acrossNodes(deps, { what, from, to: row.nodeId, at: stored(backup, store), ...options })
  })
}

/** From the store of one node into a server of another one: a tar through the daemon. */
async function acrossNodes(
  { gateway, transfers }: BackupDeps,
  {
    what,
    from,
    to,
    at,
    signal,
    onProgress,
  }: {
    readonly what: Pick<Job['input'], 'serverId' | 'paths' | 'replace' | 'keepOthers' | 'denied'> & {
      readonly key: string
    }
    readonly from: string
    readonly to: string
    readonly at: ReturnType<typeof stored>
    readonly signal: AbortSignal
    readonly onProgress: (now: { entries: number; bytes: number; totalBytes: number | null }) => void
  },
): Promise<Restored> {
  const ended = new AbortController()
  const either = AbortSignal.any([signal, ended.signal])
  // The files alone, without the dumps of databases.
  const whole = {
    content: 'archive',
    path: '/',
    compression: 'none',
    offset: 0,
    length: null,
    denied: [] as string[],
  } as const
  const content = await transfers.from(from, { length: null, signal: either }, (ticket, options) =>
    gateway.request(from, protocol.deliverBackup, { ...at, ...whole, ticket }, options),
  )
  const source = { contentType: 'application/x-tar', length: null, content, cancel: () => ended.abort() }
  try {
    return await transfers.to(to, { source, signal: either }, (ticket, options) =>
      gateway.request(to, protocol.receiveBackup, { ...what, ticket }, { ...options, onProgress }),
    )
  } finally {
    content.destroy()
  }
}

/** Marks a backup as being restored, and notifies whoever watches. */
export async function beginRestore(
  tx: Tx,
  deps: BackupDeps,
  { id: backupId, name: backupName }: ShownBackup,
  { jobId, serverId }: { readonly jobId: string; readonly serverId: string },
): Promise<void> {
  await moveBackup(tx, backupId, ['completed'], { status: 'restoring', jobId, error: null })
  await announce(tx, deps, { type: 'backup_restore_started', serverId, data: { backupId, backupName } })
}
