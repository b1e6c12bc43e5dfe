import type * as api from '../../../shared/api/migration.ts'
import type { MigrationCounts } from '../../../shared/kernel/migration.ts'
import { shortDuration } from '../../kit/output/cell.ts'
import { column, type View, wide } from '../../kit/output/view.ts'
import { UNLIMITED_WORDS } from './unlimited-words.ts'

export const MIGRATIONS: View<api.MigrationJob> = {
  id: (row) => row.id,
  name: (row) => row.sourceUrl,
  columns: [
    column('SOURCE', (row) => row.sourceUrl),
    column('STATUS', (row) => ({ status: statusOf(row) })),
    column('WHAT', whatOf),
    column('PHASE', (row) => row.currentPhase),
    column('STEPS', (row) => `${doneOf(row.progress)}/${row.progress.total}`),
    column('FAILED', (row) => row.progress.failed),
    column('CREATED', (row) => ({ time: row.createdAt })),
    column('ID', (row) => row.id),
    wide('KIND', (row) => row.sourceKind),
    wide('SCOPE', (row) => row.config.scope),
    wide('SKIPPED', (row) => row.progress.skipped),
    wide('STARTED', (row) => ({ time: row.startedAt })),
    wide('ENDED', (row) => ({ time: row.completedAt })),
    wide('KEYS', (row) => (row.hasKeys ? 'kept' : 'gone')),
    wide('ERROR', (row) => row.error),
  ],
}

export const STARTED: View<{ readonly jobId: string }> = {
  id: (row) => row.jobId,
  name: (row) => row.jobId,
  columns: [column('ID', (row) => row.jobId)],
}

export const STEPS: View<api.MigrationStep> = {
  id: (row) => row.id,
  name: (row) => row.name,
  columns: [
    column('#', (row) => row.seq),
    column('PHASE', (row) => row.phase),
    column('ACTION', (row) => row.action),
    column('NAME', (row) => row.name),
    column('STATUS', (row) => ({ status: row.status })),
    column('WHY', (row) => row.error ?? row.reason),
    wide('CODE', (row) => row.errorCode),
    wide('RETRYABLE', (row) => (row.status === 'failed' ? row.retryable : null)),
    wide('ATTEMPT', (row) => row.attempt),
    wide('TOOK', (row) => (row.durationMs === null ? null : shortDuration(row.durationMs))),
    wide('NOT BEFORE', (row) => ({ time: row.notBefore })),
    wide('SOURCE ID', (row) => (row.sourceId === null ? null : `${row.sourceType} ${row.sourceId}`)),
    wide('TARGET', (row) => row.targetId),
    wide('ID', (row) => row.id),
  ],
}

export const NODES: View<api.TargetNode> = {
  id: (row) => row.id,
  name: (row) => row.name,
  columns: [
    column('NAME', (row) => row.name),
    column('STATUS', (row) => ({ status: row.isOnline ? 'online' : 'offline' })),
    column('HOST', (row) => row.hostname),
    column('LOCATION', (row) => row.locationName),
    column('SERVERS', (row) => row.serverCount),
    column('MEMORY USED', (row) => ({ mib: row.usedMemoryMb })),
    column('MEMORY', (row) => ({ mib: row.maxMemoryMb })),
    column('ID', (row) => row.id),
    wide('LAST SEEN', (row) => ({ time: row.lastSeenAt })),
  ],
}

export const SOURCE_NODES: View<api.SourceTest['nodes'][number]> = {
  id: (row) => row.id,
  name: (row) => row.name,
  columns: [
    column('NODE', (row) => row.name),
    column('HOST', (row) => row.fqdn),
    column('SERVERS', (row) => row.serverCount),
    column('MEMORY', (row) => ({ mib: row.memory })),
    column('ID', (row) => row.id),
  ],
}

export const SOURCE_SERVERS: View<api.SourceTest['servers'][number]> = {
  id: (row) => row.id,
  name: (row) => row.name,
  columns: [
    column('SERVER', (row) => row.name),
    column('NODE', (row) => row.nodeName),
    column('EGG', (row) => row.eggName),
    column('STATE', (row) => ({ status: row.suspended ? 'suspended' : row.state })),
    column('MEMORY', (row) => (row.memory === 0 ? 'unlimited' : { mib: row.memory })),
    column('DISK', (row) => (row.disk === 0 ? 'unlimited' : { mib: row.disk })),
    column('ID', (row) => row.id),
  ],
}

export const CONFLICTS: View<api.PlanConflict> = {
  id: (row) => row.code,
  name: (row) => row.source.name,
  columns: [
    column('CONFLICT', (row) => row.code),
    column('OF', (row) => `${row.source.type} ${row.source.name}`),
    column('WHY', (row) => row.text),
    column('DECIDED BY', decidedBy),
  ],
}

export const LOST: View<api.Lost> = {
  id: (row) => row.what,
  name: (row) => row.what,
  columns: [
    column('CANNOT COME', (row) => row.what),
    column('HOW MANY', (row) => (row.count === 0 ? null : row.count)),
    column('WHY', (row) => row.why),
  ],
}

/** What is under way of a migration, or asked of it. */
export function statusOf({
  status,
  requested,
  outcome,
}: Pick<api.MigrationJob, 'status' | 'requested' | 'outcome'>): string {
  if (requested !== null) return requested === 'pause' ? 'pausing' : 'cancelling'
  return status === 'completed' && outcome === 'with_failures' ? 'completed with failures' : status
}

/** How many steps have ended. */
export function doneOf({ completed, failed, skipped }: MigrationCounts): number {
  return completed + failed + skipped
}

/** The flag that decides a conflict. */
function decidedBy({ policy, policyOptions }: api.PlanConflict): string | null {
  if (policy === null) return null
  const [group, name] = policy.split('.')
  if (group === 'conflicts' && name !== undefined) return `--on-conflict ${name}=${policyOptions.join('|')}`
  if (group === 'unlimited' && name !== undefined) return `--unlimited ${UNLIMITED_WORDS[name] ?? name}=VALUE`
  if (policy === 'runtimes') return `--runtime ${policyOptions.join('|')}`
  return policyOptions.length === 0 ? policy : `${policy}: ${policyOptions.join(', ')}`
}

function whatOf({ config }: api.MigrationJob): string {
  if (config.verifyOf !== null) return 'verify'
  return config.dryRun ? 'plan' : 'move'
}
