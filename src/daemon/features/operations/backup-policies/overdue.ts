import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { Queries } from '../../../db/db.ts'
import { overdueAtMs } from './times.ts'

/** A backup that a policy was to make of a server, and has not when its next run has come. */
export interface OverdueBackup {
  readonly policyId: string
  readonly policyName: string
  readonly dueAt: IsoTime
  readonly lastError: string | null
}

/** All that are overdue now, by server. Policies that are switched off have none. */
export async function overdueBackups(q: Queries, nowMs: number): Promise<Map<string, OverdueBackup[]>> {
  const rows = await q
    .selectFrom('backupPolicyServer')
    .innerJoin('backupPolicy', 'backupPolicy.id', 'backupPolicyServer.policyId')
    .select(['serverId', 'policyId', 'backupPolicy.name as policyName', 'dueAt', 'lastError', 'cron', 'timeZone'])
    .where('dueAt', 'is not', null)
    .where('backupPolicy.enabled', '=', 1)
    .orderBy('dueAt')
    .execute()
  const overdue = new Map<string, OverdueBackup[]>()
  for (const { serverId, dueAt, cron, timeZone, ...about } of rows) {
    if (dueAt === null || nowMs < overdueAtMs({ cron, timeZone }, Date.parse(dueAt))) continue
    const found = overdue.get(serverId) ?? []
    found.push({ ...about, dueAt })
    overdue.set(serverId, found)
  }
  return overdue
}
