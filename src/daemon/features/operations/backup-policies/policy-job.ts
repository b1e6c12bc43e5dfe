import { z } from 'zod'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import { PANEL, recordFact } from '../../../access/operation.ts'
import { nextTime } from '../../../core/cron.ts'
import type { Tx } from '../../../db/db.ts'
import { defineJob } from '../../../jobs/job-type.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import type { BackupDeps } from '../../servers/backups/deps.ts'
import type { PolicyRow } from './rows.ts'
import { advance, startRun } from './runs.ts'

/** It looks as often as this also when nothing is due: a clock may have jumped. */
const LONGEST_MS = 3_600_000
/** How soon it looks again at a server that is being installed, restored or moved when its turn has come. */
const BLOCKED_MS = 60_000
/** How long a node that is back waits for others. */
const SOON_MS = 1000

/** Runs backup policies at their times, and gives each node as many backups at a time as a policy says. */
export const RUN_POLICIES = defineJob({
  kind: 'backups.policies',
  input: z.object({}),
  state: z.object({}),
  first: () => ({}),
  title: () => 'Backup policies',
  pool: { name: 'backups.policies', size: 1 },
  lane: () => 'policies',
  ordered: false,
  background: true,
  plan: () => [{ step: 'look', name: 'look' }],
})

/** Has it look at all policies as soon as this transaction is committed. */
export async function lookNow(tx: Tx, { queue }: Pick<Jobs, 'queue'>): Promise<void> {
  await queue.schedule(tx, RUN_POLICIES, { input: {}, cause: 'backup policies', key: RUN_POLICIES.kind, at: tx.now })
}

/** Nodes come back by hundreds: all that come within a moment are looked at together. */
async function lookSoon(tx: Tx, { queue }: Pick<Jobs, 'queue'>): Promise<void> {
  const at = isoTime(Date.parse(tx.now) + SOON_MS)
  await queue.scheduleBy(tx, RUN_POLICIES, { input: {}, cause: 'backup policies', key: RUN_POLICIES.kind, at })
}

/** Gives the engine the step of it. A backup that has ended and a node that is back wake it. */
export function registerPolicies(jobs: Pick<Jobs, 'register' | 'queue'>, deps: BackupDeps): void {
  jobs.register(RUN_POLICIES, {
    steps: {
      look: {
        attempts: Number.POSITIVE_INFINITY,
        // All of it is one transaction: what ends or comes back meanwhile is seen in it, or wakes the next look.
        run: async () => async (tx) => ({ after: { kind: 'again', atMs: await look(tx, deps) } }),
      },
    },
  })
  const looked = new WeakSet<Tx>()
  deps.bus.enlist(async (tx, { type, data }) => {
    const isPolicyBackup = type === 'backup_complete' && (await hasPolicy(tx, String(data['backupId'])))
    if (isPolicyBackup) await lookNow(tx, jobs)
    if (type !== 'node_updated' || data['isOnline'] !== true || looked.has(tx)) return
    looked.add(tx) // once for all nodes of a transaction
    await lookSoon(tx, jobs)
  })
}

async function hasPolicy(tx: Tx, backupId: string): Promise<boolean> {
  const backup = await tx.q.selectFrom('backup').select('policyId').where('id', '=', backupId).executeTakeFirst()
  return backup?.policyId != null
}

/** Begins the runs that are due and brings those under way further; answers when to look again (milliseconds since the epoch). */
async function look(tx: Tx, deps: BackupDeps): Promise<number> {
  const nowMs = Date.parse(tx.now)
  let nextMs = nowMs + LONGEST_MS
  const policies = await tx.q.selectFrom('backupPolicy').selectAll().orderBy('id').execute()
  for (const policy of policies) {
    const { enabled, nextRunAt } = policy
    if (enabled === 1 && nextRunAt !== null) {
      const at = nextRunAt <= tx.now ? await runDue(tx, deps, policy, nextRunAt) : await pullBack(tx, policy, nextRunAt)
      if (at !== null) nextMs = Math.min(nextMs, Date.parse(at))
    }
    const { isBlocked } = await advance(tx, deps, policy)
    if (isBlocked) nextMs = Math.min(nextMs, nowMs + BLOCKED_MS)
  }
  return nextMs
}

/** Counts a time anew that a wall clock has given which was ahead and has been set back since; answers when the policy is due. */
async function pullBack(tx: Tx, policy: PolicyRow, dueAt: IsoTime): Promise<IsoTime> {
  const { id, lastRunAt, updatedAt } = policy
  if (updatedAt <= tx.now && (lastRunAt === null || lastRunAt <= tx.now)) return dueAt
  const nextRunAt = nextTime(policy, Date.parse(tx.now))
  if (nextRunAt === null || nextRunAt >= dueAt) return dueAt
  await tx.q.updateTable('backupPolicy').set({ nextRunAt }).where('id', '=', id).execute()
  return nextRunAt
}

/** Times that have passed while the daemon was down are made up for by one run. */
async function runDue(tx: Tx, deps: BackupDeps, policy: PolicyRow, dueAt: IsoTime): Promise<IsoTime | null> {
  const { id: runId } = await startRun(tx, deps, policy, { cause: 'schedule', dueAt, startedBy: null })
  const nextRunAt = nextTime(policy, Date.parse(tx.now))
  await tx.q.updateTable('backupPolicy').set({ nextRunAt }).where('id', '=', policy.id).execute()
  const details = { name: policy.name, runId, dueAt, cause: 'schedule' }
  const audit = { action: 'backup_policy.run', resource: 'backup_policy', resourceId: policy.id, details }
  await recordFact(tx, { deps, principal: PANEL }, { audit })
  return nextRunAt
}
