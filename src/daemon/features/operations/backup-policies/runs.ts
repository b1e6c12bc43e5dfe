import { BackupName } from '../../../../shared/api/backups.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { Tx } from '../../../db/db.ts'
import type { PolicyRunStatus } from '../../../db/schema/backups.ts'
import { findJob } from '../../../jobs/rows.ts'
import { type BackupDeps, NOBODY } from '../../servers/backups/deps.ts'
import { addBackup } from '../../servers/backups/new-backup.ts'
import { findServerRow } from '../../servers/servers/rows.ts'
import { ignoredOf, makeDue, openByNode, type PolicyRow, setServer } from './rows.ts'
import * as runs from './run-rows.ts'

type RunRow = runs.RunRow

/**
 * Begins a run: a backup of each server that the policy means is due. What the run before has not come to belongs to this one, so that a
 * server that was away gets one backup and not one for each run that it has missed.
 */
export async function startRun(
  tx: Tx,
  deps: BackupDeps,
  policy: PolicyRow,
  wanted: Pick<RunRow, 'cause' | 'dueAt' | 'startedBy'>,
): Promise<RunRow> {
  const before = await runs.openRun(tx.q, policy.id)
  const underWay = before === undefined ? [] : await runs.runningResults(tx.q, before.id)
  if (before !== undefined) {
    await runs.skipOpen(tx, before.id, 'left to the next run')
    await finish(tx, deps, policy, { run: before, status: 'superseded' })
  }
  await makeDue(tx, policy, wanted.dueAt)
  const run = await runs.insertRun(tx, deps.clock, policy, wanted)
  for (const { serverId, backupId, startedAt } of underWay) {
    await runs.setResult(tx, { runId: run.id, serverId }, { state: 'running', backupId, startedAt })
  }
  await runs.forgetRuns(tx, policy.id)
  await tx.q.updateTable('backupPolicy').set({ lastRunAt: tx.now }).where('id', '=', policy.id).execute()
  const counts = (await runs.countResults(tx.q, [run.id])).get(run.id)
  const data = {
    policyId: policy.id,
    policyName: policy.name,
    runId: run.id,
    cause: run.cause,
    servers: (counts?.waiting ?? 0) + (counts?.running ?? 0),
    startedBy: run.startedBy,
  }
  await deps.bus.append(tx, { type: 'backup_policy_run_started', data })
  return run
}

/** Cancels a run with the backups that it makes; what of it was due is due no more. */
export async function cancelRun(tx: Tx, deps: BackupDeps, policy: PolicyRow, run: RunRow): Promise<void> {
  const underWay = await runs.runningResults(tx.q, run.id)
  await runs.clearDue(tx, run)
  await runs.skipOpen(tx, run.id, 'the run was cancelled')
  await finish(tx, deps, policy, { run, status: 'cancelled' })
  for (const { jobId } of underWay) {
    const job = jobId === null ? undefined : await findJob(tx.q, jobId)
    if (job !== undefined) await deps.jobs.queue.cancel(tx, job)
  }
}

/**
 * Brings the run of a policy that is under way further: writes down which backups have ended, gives nodes that are there new ones as far
 * as they have places, and ends the run after the last. Answers whether something waits that nobody will report.
 */
export async function advance(tx: Tx, deps: BackupDeps, policy: PolicyRow): Promise<{ readonly isBlocked: boolean }> {
  const run = await runs.openRun(tx.q, policy.id)
  if (run === undefined) return { isBlocked: false }
  await settle(tx, deps, run)
  const isBlocked = await dispatch(tx, deps, policy, run)
  const counts = (await runs.countResults(tx.q, [run.id])).get(run.id)
  if (counts !== undefined && counts.waiting + counts.running === 0) {
    await finish(tx, deps, policy, { run, status: counts.failed > 0 ? 'failed' : 'completed' })
  }
  return { isBlocked }
}

async function settle(tx: Tx, deps: BackupDeps, run: RunRow): Promise<void> {
  await runs.skipGone(tx, run.id)
  for (const result of await runs.runningResults(tx.q, run.id)) {
    const { serverId, backupId, status, completedAt, nodeId } = result
    const [at, of] = [
      { runId: run.id, serverId },
      { policyId: run.policyId, serverId },
    ]
    if (status === 'pending' || status === 'in_progress') continue
    if (completedAt !== null) {
      await runs.setResult(tx, at, { state: 'completed', reason: null, endedAt: completedAt })
      await setServer(tx, of, { dueAt: null, lastBackupId: backupId, lastSuccessAt: completedAt, lastError: null })
      continue
    }
    const reason = status === null ? 'the backup was deleted before it was done' : (result.error ?? 'it has failed')
    await setServer(tx, of, { lastFailureAt: tx.now, lastError: reason })
    // A node that went away in the middle makes another one when it is back; else the next run does.
    const isAway = nodeId !== null && !deps.gateway.isOnline(nodeId)
    if (isAway) await runs.setResult(tx, at, { state: 'waiting', reason, backupId: null, startedAt: null })
    else await runs.setResult(tx, at, { state: 'failed', reason, endedAt: tx.now })
  }
}

/** Answers whether servers of a node that is there and has places could not be taken. */
async function dispatch(tx: Tx, deps: BackupDeps, policy: PolicyRow, run: RunRow): Promise<boolean> {
  if (!mayDispatch(policy, run)) return false
  const { gateway } = deps
  const open = await openByNode(tx.q, policy.id)
  let isBlocked = false
  for (const { nodeId, count } of await runs.waitingByNode(tx.q, run.id)) {
    if (!gateway.can(nodeId, 'backups@1')) continue
    let places = policy.perNode - (open.get(nodeId) ?? 0)
    let left = Number(count)
    while (places > 0 && left > 0) {
      const next = await runs.nextOnNode(tx.q, { runId: run.id, policyId: policy.id, nodeId, limit: places })
      if (next.length === 0) break
      for (const serverId of next) {
        left -= 1
        if (await make(tx, deps, policy, { runId: run.id, serverId })) places -= 1
      }
    }
    isBlocked ||= places > 0 && left > 0
  }
  return isBlocked
}

/** A policy that is paused makes backups only in runs that somebody has asked for. */
export function mayDispatch(policy: Pick<PolicyRow, 'enabled'>, run: Pick<RunRow, 'cause'>): boolean {
  return policy.enabled === 1 || run.cause === 'manual'
}

/** Has one backup made; false when it cannot be, which the result then says. */
async function make(
  tx: Tx,
  deps: BackupDeps,
  policy: PolicyRow,
  at: { readonly runId: string; readonly serverId: string },
): Promise<boolean> {
  const { id: policyId, name, kind, compression, label, storeId, allocationMb } = policy
  try {
    const row = await findServerRow(tx.q, at.serverId)
    if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'the server is gone')
    const { backupId } = await addBackup(tx, deps, row, {
      by: NOBODY,
      cause: `backup policy ${name}`,
      name: BackupName.parse(`${name.slice(0, 90)}-${stamp(tx.now)}`),
      ...{ kind, compression, label },
      ...(storeId === null ? {} : { storeId }),
      ignored: ignoredOf(policy),
      databases: policy.databases === 1,
      policy: { id: policyId, allocationMb },
    })
    await runs.setResult(tx, at, { state: 'running', backupId, reason: null, startedAt: tx.now })
    return true
  } catch (error) {
    if (!(error instanceof PanelError)) throw error
    const reason = error.message.slice(0, 500)
    await runs.setResult(tx, at, { state: 'failed', reason, endedAt: tx.now })
    await setServer(tx, { policyId, serverId: at.serverId }, { lastFailureAt: tx.now, lastError: reason })
    return false
  }
}

function stamp(at: IsoTime): string {
  return `${at.slice(0, 19).replaceAll(':', '-')}Z`
}

async function finish(
  tx: Tx,
  deps: Pick<BackupDeps, 'bus'>,
  { id: policyId, name: policyName }: PolicyRow,
  { run, status }: { readonly run: RunRow; readonly status: Exclude<PolicyRunStatus, 'running'> },
): Promise<void> {
  await runs.endRun(tx, run.id, status)
  const { completed = 0, failed = 0, skipped = 0 } = (await runs.countResults(tx.q, [run.id])).get(run.id) ?? {}
  const data = { policyId, policyName, runId: run.id, status, completed, failed, skipped }
  await deps.bus.append(tx, { type: 'backup_policy_run_ended', data })
}
