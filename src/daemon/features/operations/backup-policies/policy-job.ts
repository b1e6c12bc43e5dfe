import { z } from 'zod'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { Tx } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { defineJob } from '../../../jobs/job-type.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import { type BackupDeps, NOBODY } from '../../servers/backups/deps.ts'
import { addBackup } from '../../servers/backups/new-backup.ts'
import { findServerRow } from '../../servers/servers/rows.ts'
import * as rows from './rows.ts'
import { nextRun } from './times.ts'

/** Nobody wakes it where a clock has jumped. */
const LONGEST_MS = 3600_000

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
  plan: () => [{ step: 'run', name: 'run' }],
})

/** Has it look now, in this transaction's commit. */
export async function lookNow(tx: Tx, { queue }: Pick<Jobs, 'queue'>): Promise<void> {
  await queue.schedule(tx, RUN_POLICIES, { input: {}, cause: 'backup policies', key: RUN_POLICIES.kind, at: tx.now })
}

/** Gives the engine the step of it; it looks again when a backup has ended or a node has come back. */
export function registerPolicies(jobs: Jobs, deps: BackupDeps): void {
  jobs.register(RUN_POLICIES, {
    steps: {
      run: {
        attempts: Number.POSITIVE_INFINITY,
        // All of it is one transaction: what ends or comes back meanwhile is seen in it, or wakes the next look.
        run: async () => async (tx) => {
          const atMs = await look(tx, deps)
          return { after: { kind: 'again', atMs } }
        },
      },
    },
  })
  deps.bus.enlist(async (tx, { type, data }) => {
    if (type === 'backup_complete') await noteEnd(tx, jobs, data)
    if (type === 'node_updated' && data['isOnline'] === true) await lookNow(tx, jobs)
  })
}

/** Makes due what is to run, and dispatches what has a turn; answers when to look again. */
async function look(tx: Tx, deps: BackupDeps): Promise<number> {
  const nowMs = Date.parse(tx.now)
  let next = nowMs + LONGEST_MS
  const policies = await tx.q.selectFrom('backupPolicy').selectAll().orderBy('id').execute()
  for (const policy of policies) {
    const { enabled, nextRunAt } = policy
    if (enabled === 1 && nextRunAt !== null) {
      // Times that have passed while the daemon was down are made up for once.
      const at = nextRunAt <= tx.now ? await run(tx, policy) : nextRunAt
      if (at !== null) next = Math.min(next, Date.parse(at))
    }
    await dispatch(tx, deps, policy)
  }
  return next
}

/** One run of a policy: a backup of each of its servers is due. */
async function run(tx: Tx, policy: rows.PolicyRow): Promise<IsoTime | null> {
  await rows.forgetOthers(tx, policy)
  await rows.makeDue(tx, policy, policy.nextRunAt ?? tx.now)
  const nextRunAt = nextRun(policy.cron, policy.timeZone, Date.parse(tx.now))
  await tx.q
    .updateTable('backupPolicy')
    .set({ lastRunAt: tx.now, nextRunAt })
    .where('id', '=', policy.id)
    .execute()
  return nextRunAt
}

/** A run that somebody asks for; answers how many servers it is for. */
export async function runNow(tx: Tx, jobs: Pick<Jobs, 'queue'>, policy: rows.PolicyRow): Promise<number> {
  await rows.forgetOthers(tx, policy)
  const servers = await rows.makeDue(tx, policy, tx.now)
  await tx.q.updateTable('backupPolicy').set({ lastRunAt: tx.now }).where('id', '=', policy.id).execute()
  await lookNow(tx, jobs)
  return servers
}

async function dispatch(tx: Tx, deps: BackupDeps, policy: rows.PolicyRow): Promise<void> {
  const { gateway } = deps
  const pending = await rows.pendingOf(tx.q, policy.id)
  if (pending.length === 0) return
  const open = await rows.openByNode(tx.q, policy.id)
  for (const { serverId, nodeId, status } of pending) {
    if (status === 'pending' || status === 'in_progress') continue
    const count = open.get(nodeId) ?? 0
    if (count >= policy.perNode || !gateway.isOnline(nodeId) || !gateway.can(nodeId, 'backups@1')) continue
    const backupId = await make(tx, deps, policy, serverId)
    if (backupId === undefined) continue
    open.set(nodeId, count + 1)
    await rows.setServer(tx, { policyId: policy.id, serverId }, { backupId, pending: 0 })
  }
}

async function make(tx: Tx, deps: BackupDeps, policy: rows.PolicyRow, serverId: string): Promise<string | undefined> {
  const row = await findServerRow(tx.q, serverId)
  // One that is being installed or restored has its turn when that is over.
  if (row === undefined || row.installed === 0 || row.deletingAt !== null || row.activity !== null) return undefined
  const { id, name, kind, compression, label, storeId, allocationMb } = policy
  try {
    const made = await addBackup(tx, deps, row, {
      by: NOBODY,
      cause: `backup policy ${name}`.slice(0, 100),
      name: `${name.replace(/[^A-Za-z0-9._-]/g, '_').slice(0, 80)}-${tx.now.slice(0, 19).replaceAll(':', '-')}Z`,
      ...{ kind, compression, label },
      ...(storeId === null ? {} : { storeId }),
      ignored: parseJson(z.array(z.string()), policy.ignored),
      databases: policy.databases === 1,
      policy: { id, allocationMb },
    })
    return made.backupId
  } catch (error) {
    if (!(error instanceof PanelError)) throw error
    const failed = { pending: 0, lastFailureAt: tx.now, lastError: error.message.slice(0, 500) } as const
    await rows.setServer(tx, { policyId: id, serverId }, failed)
    return undefined
  }
}

/** A backup has ended: the policy that has made it learns how, and its node has a place again. */
async function noteEnd(tx: Tx, jobs: Pick<Jobs, 'queue'>, data: Readonly<Record<string, unknown>>): Promise<void> {
  const backup = await tx.q
    .selectFrom('backup')
    .select(['policyId', 'serverId'])
    .where('id', '=', String(data['backupId']))
    .executeTakeFirst()
  if (backup?.policyId == null || backup.serverId === null) return
  const of = { policyId: backup.policyId, serverId: backup.serverId }
  if (data['status'] === 'completed') {
    await rows.setServer(tx, of, { dueAt: null, lastSuccessAt: tx.now, lastError: null })
  } else {
    const lastError = typeof data['error'] === 'string' ? data['error'] : 'It has failed'
    await rows.setServer(tx, of, { lastFailureAt: tx.now, lastError })
  }
  await lookNow(tx, jobs)
}

/** The next time of a policy that is switched on. */
export function nextOf({ enabled, cron, timeZone }: Pick<rows.PolicyRow, 'enabled' | 'cron' | 'timeZone'>, nowMs: number): IsoTime | null {
  return enabled === 1 ? nextRun(cron, timeZone, nowMs) : null
}

