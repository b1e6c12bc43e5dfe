import { z } from 'zod'
import { deleteBackup } from '../../../../shared/protocol/backups.ts'
import type { Tx } from '../../../db/db.ts'
import { defineJob } from '../../../jobs/job-type.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import { announce } from './announce.ts'
import type { BackupDeps, By } from './deps.ts'
import { afterFailure, DAY_MS, reasonOf } from './job-ends.ts'
import { laneFor, POOL } from './lanes.ts'
import { nodeOf, type Placed, stored, withStore } from './reach-store.ts'
import { findShown, moveBackup, removeBackup, type ShownBackup, setBackup } from './rows.ts'

const HOUR_MS = 3_600_000
const Where = z.object({
  id: z.string(),
  ownerId: z.string(),
  storeId: z.string(),
  storeKind: z.enum(['local', 's3']),
  nodeId: z.string().nullable(),
  kind: z.enum(['archive', 'incremental']),
})

/** Removes a backup from its store, and its row when that is done. */
export const DELETE_BACKUP = defineJob({
  kind: 'backups.delete',
  input: z.object({
    backupId: z.string(),
    name: z.string(),
    lane: z.string(),
    deletedBy: z.string().nullable(),
    /** Whose right to delete it counts; `null`: that of an administrator. */
    serverId: z.string().nullable(),
  }),
  state: z.object({}),
  first: () => ({}),
  title: ({ name }) => `Delete the backup ${name}`,
  pool: POOL,
  lane: ({ lane }) => lane,
  ordered: false,
  background: false,
  plan: () => [{ step: 'delete', name: 'delete' }],
  needs: ({ serverId }) =>
    serverId === null ? { panel: 'admin.write' } : { server: serverId, permissions: ['backup.delete'] },
})

/** Removes what a backup that has failed may have left in its store; nobody sees it. */
export const CLEAN_BACKUP = defineJob({
  kind: 'backups.clean',
  input: z.object({ backup: Where, lane: z.string() }),
  state: z.object({}),
  first: () => ({}),
  title: ({ backup }) => `Remove what is left of the backup ${backup.id}`,
  pool: POOL,
  lane: ({ lane }) => lane,
  ordered: false,
  background: true,
  plan: () => [{ step: 'delete', name: 'delete' }],
})

/** Marks a backup as being deleted and has that done; answers the id of the job. */
export async function startDelete(
  tx: Tx,
  deps: BackupDeps,
  backup: ShownBackup,
  { by, cause, asAdmin = false }: { readonly by: By; readonly cause: string; readonly asAdmin?: boolean },
): Promise<string | null> {
  const { id, name, serverId, ownerId, nodeId } = backup
  const deletedBy = by.userId
  const lane = await laneFor(tx, nodeId ?? backup.storeId, serverId ?? ownerId)
  const jobId = await deps.jobs.queue.add(tx, DELETE_BACKUP, {
    input: { backupId: id, name, lane, deletedBy, serverId: asAdmin ? null : serverId },
    cause,
    key: `${DELETE_BACKUP.kind} ${id}`,
    ...(serverId === null ? {} : { serverId }),
    ...(nodeId === null ? {} : { nodeId }),
    onBehalfOf: by.caller,
  })
  await setBackup(tx, id, { status: 'deleting', ...(jobId === undefined ? {} : { jobId }) })
  if (serverId !== null) {
    await announce(tx, deps, { type: 'backup_delete_started', serverId, data: { backupId: id, backupName: name } })
  }
  return jobId ?? backup.jobId
}

/** Has removed what a backup may have left that was not made. */
export async function cleanUp(tx: Tx, deps: Pick<BackupDeps, 'jobs'>, backup: ShownBackup): Promise<void> {
  const lane = await laneFor(tx, backup.nodeId ?? backup.storeId, backup.ownerId)
  await deps.jobs.queue.add(tx, CLEAN_BACKUP, {
    input: { backup: Where.parse(backup), lane },
    cause: 'backup',
    key: `${CLEAN_BACKUP.kind} ${backup.id}`,
    ...(backup.nodeId === null ? {} : { nodeId: backup.nodeId }),
  })
}

/** Gives the engine the steps of both. */
export function registerDelete(jobs: Pick<Jobs, 'register'>, deps: BackupDeps): void {
  jobs.register(DELETE_BACKUP, {
    steps: {
      delete: {
        timeoutMs: DAY_MS,
        run: async ({ job, signal, progress }) => {
          const backup = await findShown(deps.db.read, job.input.backupId)
          if (backup === undefined) return undefined
          try {
            await remove(deps, backup, signal, ({ entries }) =>
              progress({ done: entries, total: null, unit: 'items', text: null }),
            )
          } catch (error) {
            const after = afterFailure(deps, error, signal)
            if (after === undefined) throw error
            return async () => ({ after })
          }
          return async (tx) => {
            await forget(tx, deps, backup, job.input.deletedBy)
            return undefined
          }
        },
      },
    },
    ended: async (tx, job, status) => {
      if (status === 'succeeded') return
      const backup = await findShown(tx.q, job.input.backupId)
      if (backup === undefined) return
      const error = await reasonOf(tx, job.id, status)
      // Whether all of it is still there only a verification can say; whoever wants it gone asks again.
      const back = backup.completedAt === null ? 'failed' : 'completed'
      await moveBackup(tx, backup.id, ['deleting'], {
        status: back,
        error: `It was not deleted: ${error}`.slice(0, 1000),
      })
      if (backup.serverId === null) return
      const data = { backupId: backup.id, backupName: backup.name, success: false, error: error.slice(0, 500) }
      await announce(tx, deps, { type: 'backup_delete_complete', serverId: backup.serverId, data })
    },
  })
  jobs.register(CLEAN_BACKUP, {
    steps: {
      delete: {
        attempts: 50,
        timeoutMs: HOUR_MS,
        run: async ({ job, signal }) => {
          try {
            await remove(deps, job.input.backup, signal)
            return undefined
          } catch (error) {
            // A node that was deleted takes its folder with it.
            if (job.input.backup.storeKind === 'local' && job.input.backup.nodeId === null) return undefined
            const after = afterFailure(deps, error, signal)
            if (after?.kind !== 'again') throw error
            return async () => ({ after })
          }
        },
      },
    },
  })
}

async function remove(
  deps: BackupDeps,
  backup: Placed,
  signal: AbortSignal,
  onProgress: (now: { entries: number }) => void = () => {},
): Promise<void> {
  const nodeId = nodeOf(deps, backup, null)
  const grant = { nodeId, ownerId: backup.ownerId, mode: 'write', signal } as const
  await withStore(deps, backup.storeId, grant, (store) =>
    deps.gateway.request(nodeId, deleteBackup, stored(backup, store), { signal, onProgress }),
  )
}

/** The row goes, and whoever watches is notified. */
export async function forget(
  tx: Tx,
  deps: Pick<BackupDeps, 'bus'>,
  { id: backupId, name: backupName, serverId }: ShownBackup,
  deletedBy: string | null,
): Promise<void> {
  await removeBackup(tx, backupId)
  if (serverId !== null) {
    const data = { backupId, backupName, success: true }
    await announce(tx, deps, { type: 'backup_delete_complete', serverId, data })
  }
  await announce(tx, deps, {
    type: 'backup_deleted',
    data: { backupId, backupName, backupServerId: serverId, deletedBy },
  })
}
