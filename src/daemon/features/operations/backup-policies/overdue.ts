import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { Queries } from '../../../db/db.ts'
import { overdueAtMs } from './times.ts'

/** A backup that a policy was to make of a server, and has not when the next run has come, or after a day. */
export interface OverdueBackup {
  readonly policyId: string
  readonly policyName: string
  readonly dueAt: IsoTime
  /** Why the last backup has failed, if one has since the last that is whole. */
  readonly lastError: string | null
}

/** All that are overdue now, by server. Policies that are paused have none. */
export async function overdueBackups(q: Queries, nowMs: number): Promise<Map<string, OverdueBackup[]>> {
  const rows = await q
    .selectFrom('backupPolicyServer as standing')
    .innerJoin('backupPolicy', 'backupPolicy.id', 'standing.policyId')
    .select(['standing.serverId', 'standing.policyId', 'standing.dueAt', 'standing.lastError'])
    .select(['backupPolicy.name as policyName', 'backupPolicy.cron', 'backupPolicy.timeZone'])
    .where('standing.dueAt', 'is not', null)
    .where('backupPolicy.enabled', '=', 1)
    .orderBy('standing.dueAt')
    .execute()
  const overdue = new Map<string, OverdueBackup[]>()
  // Many servers of a policy are due since the same moment.
  const limits = new Map<string, number>()
  for (const { serverId, dueAt, cron, timeZone, ...about } of rows) {
    if (dueAt === null) continue
    const key = `${about.policyId} ${dueAt}`
    const limitMs = limits.get(key) ?? overdueAtMs({ cron, timeZone }, Date.parse(dueAt))
    limits.set(key, limitMs)
    if (nowMs < limitMs) continue
    const found = overdue.get(serverId) ?? []
    found.push({ ...about, dueAt })
    overdue.set(serverId, found)
  }
  return overdue
}
