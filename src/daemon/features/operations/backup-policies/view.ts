import type { BackupPolicy, PolicyResult, PolicyRun, PolicyServer } from '../../../../shared/api/backup-policies.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { Queries } from '../../../db/db.ts'
import type { Gateway } from '../../../gateway/gateway.ts'
import { countStandings, ignoredOf, type PolicyRow, type Standing, serverIdsOf } from './rows.ts'
import { countResults, openRun, type ResultRow, type RunRow } from './run-rows.ts'
import { mayDispatch } from './runs.ts'
import { overdueAtMs } from './times.ts'

/** What says whether nodes can make backups. */
type Nodes = Pick<Gateway, 'isOnline' | 'can'>

/** A policy as the API answers it. */
export async function toPolicy(q: Queries, row: PolicyRow, nowMs: number): Promise<BackupPolicy> {
  const { targetId, target, ...fields } = row
  const run = await openRun(q, row.id)
  const stateOf = stater(row, nowMs)
  const counts = { servers: 0, due: 0, running: 0, failed: 0, overdue: 0 }
  for (const { count, ...alike } of await countStandings(q, row, run?.id)) {
    const state = stateOf(alike)
    counts.servers += Number(count)
    if (alike.dueAt !== null) counts.due += Number(count)
    if (state === 'running' || state === 'failed' || state === 'overdue') counts[state] += Number(count)
  }
  return {
    ...fields,
    // The columns hold ids that newId made or an import checked.
    ...({ id: row.id, storeId: row.storeId } as Pick<BackupPolicy, 'id' | 'storeId'>),
    enabled: row.enabled === 1,
    databases: row.databases === 1,
    target,
    locationId: (target === 'location' ? targetId : null) as BackupPolicy['locationId'],
    nodeId: (target === 'node' ? targetId : null) as BackupPolicy['nodeId'],
    serverIds: serverIdsOf(row) as BackupPolicy['serverIds'],
    ignored: ignoredOf(row),
    counts,
  }
}

/** How a policy stands with its servers, as the API answers it. */
export function toPolicyServers(
  standings: readonly Standing[],
  of: { readonly policy: PolicyRow; readonly run: RunRow | undefined; readonly nodes: Nodes; readonly nowMs: number },
): PolicyServer[] {
  const stateOf = stater(of.policy, of.nowMs)
  return standings.map((one) => {
    const { turn, reason: said, lastError, activity, installed, serverId, nodeId, lastBackupId, ...fields } = one
    const waits = turn === 'waiting' ? (waitsFor(one, of) ?? said) : null
    return {
      ...fields,
      ...({ serverId, nodeId, lastBackupId } as Pick<PolicyServer, 'serverId' | 'nodeId' | 'lastBackupId'>),
      state: stateOf(one),
      reason: waits ?? (one.dueAt === null ? null : lastError),
    }
  })
}

/** Runs as the API answers them. */
export async function toRuns(q: Queries, rows: readonly RunRow[]): Promise<PolicyRun[]> {
  const counted = await countResults(
    q,
    rows.map(({ id }) => id),
  )
  return rows.map(({ createdAt, id, policyId, startedBy, ...row }) => {
    const counts = counted.get(id) ?? { waiting: 0, running: 0, completed: 0, failed: 0, skipped: 0 }
    const servers = Object.values(counts).reduce((sum, count) => sum + count, 0)
    return {
      ...row,
      ...({ id, policyId, startedBy } as Pick<PolicyRun, 'id' | 'policyId' | 'startedBy'>),
      startedAt: createdAt,
      counts: { servers, ...counts },
    }
  })
}

/** What became of one server in a run, as the API answers it. */
export function toResult(
  row: ResultRow,
  of: { readonly policy: PolicyRow; readonly run: RunRow; readonly nodes: Nodes },
): PolicyResult {
  const { activity, installed, serverId, nodeId, backupId, ...fields } = row
  return {
    ...fields,
    ...({ serverId, nodeId, backupId } as Pick<PolicyResult, 'serverId' | 'nodeId' | 'backupId'>),
    reason: row.state === 'waiting' ? (waitsFor(row, of) ?? row.reason) : row.reason,
  }
}

/** Says where servers of a policy stand; their due times are few, and what they mean is worked out once for each. */
function stater(policy: PolicyRow, nowMs: number) {
  const limits = new Map<IsoTime, number>()
  return ({ turn, dueAt }: Pick<Standing, 'turn' | 'dueAt'>): PolicyServer['state'] => {
    if (turn === 'running') return 'running'
    if (dueAt === null) return 'idle'
    const limitMs = limits.get(dueAt) ?? overdueAtMs(policy, Date.parse(dueAt))
    limits.set(dueAt, limitMs)
    if (policy.enabled === 1 && nowMs >= limitMs) return 'overdue'
    return turn === 'waiting' ? 'due' : 'failed'
  }
}

/** Why a server has not had its turn; `null`: others are before it. */
function waitsFor(
  row: Pick<ResultRow, 'nodeId' | 'nodeName' | 'activity' | 'installed'>,
  { policy, run, nodes }: { readonly policy: PolicyRow; readonly run: RunRow | undefined; readonly nodes: Nodes },
): string | null {
  if (run !== undefined && !mayDispatch(policy, run)) return 'the policy is paused'
  if (row.nodeId !== null && !nodes.isOnline(row.nodeId)) return `the node ${row.nodeName} is not connected`
  if (row.nodeId !== null && !nodes.can(row.nodeId, 'backups@1')) {
    return `the agent of the node ${row.nodeName} is too old to make backups; update it`
  }
  if (row.activity !== null) return `the server is ${row.activity}`
  return row.installed === 0 ? 'the server is not installed' : null
}
