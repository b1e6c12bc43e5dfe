import { z } from 'zod'
import { verifyBackups } from '../../../../shared/protocol/backups.ts'
import { defineJob } from '../../../jobs/job-type.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import type { BackupDeps } from './deps.ts'
import { afterFailure, DAY_MS } from './job-ends.ts'
import { POOL } from './lanes.ts'
import { nodeOf, withStore } from './reach-store.ts'
import { findShown, type ShownBackup, setBackup } from './rows.ts'

const MOST_AT_ONCE = 1000

/** Compares a backup with its hashes; increments together with all others of their server, which share pieces with them. */
export const VERIFY_BACKUP = defineJob({
  kind: 'backups.verify',
  input: z.object({
    backupId: z.string(),
    name: z.string(),
    lane: z.string(),
    serverId: z.string().nullable(),
    deep: z.boolean(),
  }),
  state: z.object({ damaged: z.array(z.string()), bytes: z.number().nullable() }),
  first: () => ({ damaged: [], bytes: null }),
  title: ({ name }) => `Verify the backup ${name}`,
  pool: POOL,
  lane: ({ lane }) => lane,
  ordered: false,
  background: false,
  plan: () => [{ step: 'verify', name: 'verify' }],
  needs: ({ serverId }) =>
    serverId === null ? { panel: 'backup.read' } : { server: serverId, permissions: ['backup.read'] },
})

/** Gives the engine the step of it. A backup that is damaged fails the job, and says so in its row. */
export function registerVerify(jobs: Pick<Jobs, 'register'>, deps: BackupDeps): void {
  jobs.register(VERIFY_BACKUP, {
    steps: {
      verify: {
        timeoutMs: DAY_MS,
        run: async ({ job, signal, progress }) => {
          const backup = await findShown(deps.db.read, job.input.backupId)
          if (backup === undefined) return undefined
          try {
            const looked = await together(deps, backup)
            const { damaged, bytes } = await verify(deps, { backup, looked, deep: job.input.deep, signal }, (now) =>
              progress({ done: now.bytes, total: now.totalBytes, unit: 'bytes', text: null }),
            )
            const found = new Map(damaged.map((one) => [one.backupId, textOf(one)]))
            return async (tx) => {
              for (const { id } of looked)
                await setBackup(tx, id, { verifiedAt: tx.now, damage: found.get(id) ?? null })
              const state = { damaged: [...found.keys()].slice(0, 100), bytes }
              if (found.size === 0) return { state }
              const names = looked.filter(({ id }) => found.has(id)).map(({ name }) => name)
              const error = `damaged: ${names.slice(0, 20).join(', ')}${names.length > 20 ? ' and more' : ''}`
              return { state, after: { kind: 'fail', error, code: 'BACKUP_DAMAGED' } }
            }
          } catch (error) {
            const after = afterFailure(deps, error, signal)
            if (after === undefined) throw error
            return async () => ({ after })
          }
        },
      },
    },
  })
}

/** What is verified with it. */
async function together({ db }: BackupDeps, backup: ShownBackup): Promise<Pick<ShownBackup, 'id' | 'name' | 'kind'>[]> {
  if (backup.kind === 'archive') return [backup]
  const others = await db.read
    .selectFrom('backup')
    .select(['id', 'name', 'kind'])
    .where('ownerId', '=', backup.ownerId)
    .where('storeId', '=', backup.storeId)
    .where('kind', '=', 'incremental')
    .where('status', 'in', ['completed', 'restoring'])
    .where('id', '!=', backup.id)
    .orderBy('createdAt', 'desc')
    .limit(MOST_AT_ONCE - 1)
    .execute()
  return [backup, ...others]
}

async function verify(
  deps: BackupDeps,
  {
    backup,
    looked,
    deep,
    signal,
  }: {
    readonly backup: ShownBackup
    readonly looked: readonly Pick<ShownBackup, 'id' | 'kind'>[]
    readonly deep: boolean
    readonly signal: AbortSignal
  },
  onProgress: (now: { bytes: number; totalBytes: number | null }) => void,
) {
  const { storeId, ownerId } = backup
  const nodeId = nodeOf(deps, backup, null)
  const backups = looked.map(({ id: backupId, kind }) => ({ backupId, kind }))
  return await withStore(deps, storeId, { nodeId, ownerId, mode: 'read', signal }, (store) =>
    deps.gateway.request(nodeId, verifyBackups, { store, ownerId, backups, deep }, { signal, onProgress }),
  )
}

function textOf({ reason, paths, pathCount }: { reason: string; paths: readonly string[]; pathCount: number }): string {
  if (pathCount === 0) return reason
  const shown = paths.slice(0, 10).join(', ')
  return `${reason}: ${shown}${pathCount > 10 ? ` and ${pathCount - 10} more` : ''}`.slice(0, 2000)
}
