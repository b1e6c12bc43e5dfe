import { z } from 'zod'
import { pruneBackups } from '../../../../shared/protocol/backups.ts'
import { defineJob } from '../../../jobs/job-type.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import type { BackupDeps } from './deps.ts'
import { afterFailure, DAY_MS } from './job-ends.ts'
import { POOL } from './lanes.ts'
import { nodeOf, withStore } from './reach-store.ts'
import { keptIn } from './rows.ts'

/** Removes from a store what no backup of a server needs: pieces, and what attempts that were cut off have left. */
export const PRUNE_STORE = defineJob({
  kind: 'backups.prune',
  input: z.object({
    serverId: z.string().nullable(),
    ownerId: z.string(),
    storeId: z.string(),
    storeKind: z.enum(['local', 's3']),
    nodeId: z.string().nullable(),
    lane: z.string(),
  }),
  state: z.object({ freedBytes: z.number().nullable() }),
  first: () => ({ freedBytes: null }),
  title: () => 'Tidy up a backup store',
  pool: POOL,
  lane: ({ lane }) => lane,
  ordered: false,
  background: false,
  plan: () => [{ step: 'prune', name: 'prune' }],
  needs: ({ serverId }) =>
    serverId === null ? { panel: 'admin.write' } : { server: serverId, permissions: ['backup.delete'] },
})

/** Gives the engine the step of it. */
export function registerPrune(jobs: Pick<Jobs, 'register'>, deps: BackupDeps): void {
  jobs.register(PRUNE_STORE, {
    steps: {
      prune: {
        timeoutMs: DAY_MS,
        run: async ({ job, signal, progress }) => {
          const { ownerId, storeId, nodeId: lies, storeKind } = job.input
          try {
            const placed = { id: '', kind: 'incremental', ownerId, storeId, storeKind, nodeId: lies } as const
            const nodeId = nodeOf(deps, placed, lies)
            // Read when it runs: one that is being made is among them.
            const keep = await keptIn(deps.db.read, { ownerId, storeId })
            const { freedBytes } = await withStore(deps, storeId, { nodeId, ownerId, mode: 'write', signal }, (store) =>
              deps.gateway.request(
                nodeId,
                pruneBackups,
                { store, ownerId, keep, dryRun: false },
                {
                  signal,
                  onProgress: ({ bytes }) => progress({ done: bytes, total: null, unit: 'bytes', text: null }),
                },
              ),
            )
            return async () => ({ state: { freedBytes } })
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
