import type { BackupPolicy, PolicyServer } from '../../../../shared/api/backup-policies.ts'
import { z } from 'zod'
import type { Queries } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { type PolicyRow, type Standing, serverIdsOf, standings } from './rows.ts'
import { overdueAtMs } from './times.ts'

/** A policy as the API answers it. */
export async function toPolicy(q: Queries, row: PolicyRow, nowMs: number): Promise<BackupPolicy> {
  const { targetId, target, ignored, serverIds: _, ...fields } = row
  const servers = (await standings(q, row)).map((one) => stateOf(one, row, nowMs))
  const count = (state: PolicyServer['state']): number => servers.filter((one) => one === state).length
  const overdue = count('overdue')
  const running = count('running')
  return {
    ...fields,
    // The columns hold ids that newId made or an import checked.
    ...(fields as unknown as Pick<BackupPolicy, 'id' | 'storeId'>),
    enabled: row.enabled === 1,
    databases: row.databases === 1,
    target,
    locationId: (target === 'location' ? targetId : null) as BackupPolicy['locationId'],
    nodeId: (target === 'node' ? targetId : null) as BackupPolicy['nodeId'],
    serverIds: serverIdsOf(row) as BackupPolicy['serverIds'],
    ignored: parseJson(z.array(z.string()), ignored),
    counts: { servers: servers.length, due: count('due') + running + overdue, running, failed: count('failed'), overdue },
  }
}

/** How a policy stands with one server, as the API answers it. */
export function toPolicyServer(one: Standing, policy: PolicyRow, nowMs: number): PolicyServer {
  const { status: _, pending: __, backupId, ...fields } = one
  return {
    ...fields,
    ...(fields as unknown as Pick<PolicyServer, 'serverId' | 'nodeId'>),
    state: stateOf(one, policy, nowMs),
    nextRunAt: policy.nextRunAt,
    lastBackupId: backupId as PolicyServer['lastBackupId'],
  }
}

function stateOf({ status, dueAt, pending }: Standing, policy: PolicyRow, nowMs: number): PolicyServer['state'] {
  if (status === 'pending' || status === 'in_progress') return 'running'
  if (dueAt === null) return 'waiting'
  if (policy.enabled === 1 && nowMs >= overdueAtMs(policy, Date.parse(dueAt))) return 'overdue'
  return pending === 1 ? 'due' : 'failed'
}
