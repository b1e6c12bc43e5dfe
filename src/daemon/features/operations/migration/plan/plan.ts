import type { MigrationPlan } from '../../../../../shared/api/migration.ts'
import type { MigrationPhase } from '../../../../../shared/kernel/migration.ts'
import type { IsoTime } from '../../../../../shared/kernel/time.ts'
import type { SourceKind } from '../source/model.ts'
import { planLocations, planTemplates } from './catalog.ts'
import { contentHash } from './content-hash.ts'
import { Draft, type PlannedStep } from './draft.ts'
import { type Planning, type PlanRequest, phasesOf, serversInScope } from './scope.ts'
import { planServers } from './servers.ts'
import type { SourceSnapshot, TargetState } from './state.ts'
import { planUsers } from './users.ts'

/** A plan as people see it, and the steps that carry it out, in their order. */
export interface BuiltPlan {
  readonly plan: MigrationPlan
  readonly steps: readonly PlannedStep[]
}

/** How many items an answer shows. */
const MOST_ITEMS = 20_000
/** What things that cannot be read would have belonged to. */
const PHASE_OF: Readonly<Partial<Record<SourceKind, MigrationPhase>>> = {
  location: 'locations',
  nest: 'templates',
  egg: 'templates',
  user: 'users',
  server: 'servers',
  subuser: 'subusers',
  database: 'databases',
  schedule: 'schedules',
  backup: 'backups',
}

/**
 * What a migration is going to do, from what the source has, what this panel has, and what was asked for. It reads nothing else and
 * changes nothing; the same three give the same plan, and the same hash.
 */
export function buildPlan(
  source: SourceSnapshot,
  target: TargetState,
  { request, createdAt }: { readonly request: PlanRequest; readonly createdAt: IsoTime },
): BuiltPlan {
  const { fingerprint } = source
  const draft = new Draft({ fingerprint, brought: target.brought })
  const planning = { source, target, request, phases: phasesOf(request.phases), draft }
  const servers = serversInScope(planning)
  planLocations(planning, servers)
  planTemplates(planning, servers)
  planUsers(planning, servers)
  planServers(planning, servers)
  for (const [index, one] of source.unreadable.entries()) planUnreadable(planning, one, index)
  for (const { what, count, why } of source.losses) draft.lost.push({ what, count: count ?? 0, why })
  planReport(planning)
  return { plan: planOf(planning, createdAt), steps: draft.steps }
}

function planOf({ source, request, draft }: Planning, createdAt: IsoTime): MigrationPlan {
  const { items, steps, conflicts, lost, warnings, requests } = draft
  const counts = { create: 0, link: 0, update: 0, skip: 0, conflict: 0 }
  for (const { op } of items) counts[op]++
  const hasFiles = items.some(({ action, op }) => action === 'transfer_files' && op !== 'skip')
  const bytes = hasFiles ? null : items.reduce((sum, { bytesEstimate }) => sum + (bytesEstimate ?? 0), 0)
  const apiRequests = source.isDirectory ? 0 : requests
  // Less than that the throttle of the source does not allow, however fast everything else is.
  const perMinute = source.requestsPerMinute
  const minSeconds = perMinute === null || perMinute === 0 ? 0 : Math.ceil((apiRequests * 60) / perMinute)
  const inputs = steps.map(({ input }) => input)
  return {
    planVersion: 1,
    sourceFp: source.fingerprint,
    createdAt,
    hash: contentHash({ source: source.fingerprint, request, items, conflicts, inputs }),
    counts,
    items: items.slice(0, MOST_ITEMS),
    conflicts,
    lost,
    warnings,
    estimate: { apiRequests, bytes, minSeconds },
  }
}

/** It counts as read all the same, so that what was read is the sum of what has become of it. */
function planUnreadable(
  { phases, draft }: Planning,
  { kind, id, name, reason }: SourceSnapshot['unreadable'][number],
  index: number,
): void {
  const phase = PHASE_OF[kind]
  draft.warn(`${kind} ${name ?? id ?? 'of unknown id'} cannot be read: ${reason}`)
  if (phase === undefined || !phases.has(phase)) return
  const item = { phase, action: `import_${kind}`, type: kind, id: `unreadable ${id ?? index}`, target: null } as const
  draft.add({
    ...item,
    name: name ?? id ?? kind,
    op: 'skip',
    reason: 'unreadable',
    input: { reason, nodeId: '', source: { uuid: '', name: name ?? '', nodeId: '' } },
  })
}

/** What has become of everything is said at the end, however it went. */
function planReport({ source, draft }: Planning): void {
  draft.add({
    phase: 'finish',
    action: 'write_report',
    type: 'report',
    id: source.fingerprint,
    name: 'report',
    target: null,
    op: 'create',
    follows: draft.steps.map(({ id }) => id),
    input: {},
  })
}
