import { sql } from 'kysely'
import { z } from 'zod'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import type { Batch, Tx } from '../../../db/db.ts'
import { statement } from '../../../db/statement.ts'
import { defineJob } from '../../../jobs/job-type.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import type { BackupDeps } from './deps.ts'
import { retire } from './retention.ts'

const PERIOD_MS = 6 * 3600_000
/** A backup that has failed so long ago is forgotten. */
const FAILED_DAYS_MS = 30 * 24 * 3600_000

/** Keeps what the keep rules say, also of servers that make no backups any more. */
export const BACKUP_UPKEEP = defineJob({
  kind: 'backups.upkeep',
  input: z.object({}),
  state: z.object({}),
  first: () => ({}),
  title: () => 'Keep rules of backups',
  pool: { name: 'backups.upkeep', size: 1 },
  lane: () => 'upkeep',
  ordered: false,
  background: true,
  plan: () => [{ step: 'retire', name: 'retire' }],
})

/** Gives the engine the step of it. */
export function registerUpkeep(jobs: Pick<Jobs, 'register'>, deps: BackupDeps): void {
  const { clock, log, systemErrors } = deps
  jobs.register(BACKUP_UPKEEP, {
    steps: {
      retire: {
        attempts: Number.POSITIVE_INFINITY,
        run: async () => {
          try {
            await once(deps)
          } catch (err) {
            log.error({ err }, 'keep rules of backups failed, retrying in six hours')
            systemErrors.capture(err, { component: 'backups' })
          }
          const atMs = clock.nowMs() + PERIOD_MS
          return async () => ({ after: { kind: 'again', atMs } })
        },
      },
    },
  })
  // What waits for a node goes on when that is back. Nodes come back by hundreds: those of a commit are looked at together.
  const nodesBack: Batch<NodeBack> = {
    write: async ({ q, onCommit }, back) => {
      const ids = JSON.stringify(back.map(({ nodeId }) => nodeId))
      const [first] = back
      const woken = first === undefined ? [] : await wakeBackups(q, { ids, now: first.now })
      if (woken.length > 0) onCommit(() => deps.jobs.queue.wake())
    },
  }
  deps.bus.enlist(async (tx, { type, data }) => {
    if (type !== 'node_updated' || data['isOnline'] !== true) return
    tx.collect(nodesBack, { nodeId: String(data['nodeId']), now: tx.now })
  })
}

/** A node that is back, as of this time. */
interface NodeBack {
  readonly nodeId: string
  readonly now: IsoTime
}

/** Begins with it now, at a start of the daemon. */
export async function beginBackupUpkeep(tx: Tx, { queue }: Pick<Jobs, 'queue'>): Promise<void> {
  await queue.schedule(tx, BACKUP_UPKEEP, { input: {}, cause: 'upkeep', key: BACKUP_UPKEEP.kind, at: tx.now })
}

/** Of the nodes with these ids (as JSON). */
const wakeBackups = statement((q, { ids, now }: { ids: string; now: IsoTime }) =>
  q
    .updateTable('job')
    .set({ dueAt: now, notBefore: now, updatedAt: now })
    .where('pool', '=', 'backups')
    .where('nodeId', 'in', sql<string>`(select value from json_each(${ids}))`)
    .where('status', '=', 'queued')
    .where('dueAt', '>', now)
    .returning('id'),
)

async function once(deps: BackupDeps): Promise<void> {
  const { db, clock } = deps
  const servers = await db.read
    .selectFrom('backup')
    .select('serverId')
    .distinct()
    .where('serverId', 'is not', null)
    .where('status', '=', 'completed')
    .where('locked', '=', 0)
    .execute()
  for (const { serverId } of servers) if (serverId !== null) await db.write((tx) => retire(tx, deps, serverId))
  const before = isoTime(clock.nowMs() - FAILED_DAYS_MS)
  await db.write(async (tx) => {
    await tx.q.deleteFrom('backup').where('status', '=', 'failed').where('createdAt', '<', before).execute()
  })
}
