import type { MigrationJob, MigrationStep } from '../../../shared/api/migration.ts'
import type { MigrationCounts } from '../../../shared/kernel/migration.ts'

/** A step that is under way. */
export interface ActiveStep {
  readonly stepId: string
  readonly action: string
  readonly name: string
  readonly bytes: number
  readonly totalBytes: number | null
}

/** A step that has failed. */
export interface FailedStep {
  readonly action: string
  readonly name: string
  readonly error: string
}

/** How far a migration is, as the one who waits for it sees it. */
export interface Progress {
  readonly sourceUrl: string
  readonly sourceKind: string | null
  /** `plan`: it ends with the plan; `verify`: it only compares. */
  readonly what: 'move' | 'plan' | 'verify'
  readonly status: MigrationJob['status']
  readonly requested: MigrationJob['requested']
  readonly phase: string | null
  readonly counts: MigrationCounts
  /** In the order in which they began. */
  readonly active: readonly ActiveStep[]
  /** The last ones of those that have failed since the watching began. */
  readonly failed: readonly FailedStep[]
  /** How many have. */
  readonly failures: number
  /** Until when the source wants to be left alone, in milliseconds of the clock that never jumps. */
  readonly throttledUntilMs: number
  /** Why nothing comes from the panel now. */
  readonly cutOff: string | null
}

/** An event of the panel, as its stream brings it. */
export interface MigrationEvent {
  readonly id: string
  readonly type: string
  readonly data: Readonly<Record<string, unknown>>
}

const MOST_FAILED = 100

/** What is known as soon as a migration was looked at. */
export function progressOf(job: MigrationJob, running: readonly MigrationStep[], before?: Progress): Progress {
  const { sourceUrl, sourceKind, status, requested, currentPhase: phase, progress: counts, config } = job
  const what = config.verifyOf !== null ? 'verify' : config.dryRun ? 'plan' : 'move'
  const active = running.map(({ stepId, action, name }) => {
    const known = before?.active.find((step) => step.stepId === stepId)
    return known ?? { stepId, action, name, bytes: 0, totalBytes: null }
  })
  const { failed = [], failures = 0, throttledUntilMs = 0 } = before ?? {}
  const now = { status, requested, phase, counts, active, cutOff: null }
  return { sourceUrl, sourceKind, what, ...now, failed, failures, throttledUntilMs }
}

/** The same after an event; fields that a newer panel has otherwise are passed over. */
export function afterEvent(progress: Progress, { type, data }: MigrationEvent, nowMs: number): Progress {
  switch (type) {
    case 'migration_status':
      return { ...progress, status: statusIn(data, progress.status), requested: null }
    case 'migration_progress':
      return { ...progress, phase: textIn(data, 'phase') ?? progress.phase, counts: countsIn(data, progress.counts) }
    case 'migration_step_updated':
      return afterStep(progress, data)
    case 'migration_step_progress': {
      const { stepId, bytes, totalBytes } = data
      const active = progress.active.map((step) =>
        step.stepId === stepId
          ? { ...step, bytes: Number(bytes), totalBytes: typeof totalBytes === 'number' ? totalBytes : null }
          : step,
      )
      return { ...progress, active }
    }
    case 'migration_throttled':
      return { ...progress, throttledUntilMs: nowMs + Number(data['waitSeconds']) * 1000 }
    default:
      return progress
  }
}

/** Whether a status is an end. */
export function isEnd(status: string): boolean {
  return status === 'completed' || status === 'failed' || status === 'cancelled'
}

function afterStep(progress: Progress, data: MigrationEvent['data']): Progress {
  const stepId = textIn(data, 'stepId') ?? ''
  const [action, name, status] = ['action', 'name', 'status'].map((field) => textIn(data, field) ?? '')
  const others = progress.active.filter((step) => step.stepId !== stepId)
  const step = { stepId, action: action ?? '', name: name ?? '' }
  if (status === 'running') {
    const known = progress.active.some((one) => one.stepId === stepId)
    return known ? progress : { ...progress, active: [...others, { ...step, bytes: 0, totalBytes: null }] }
  }
  if (status !== 'failed') return { ...progress, active: others }
  const error = textIn(data, 'error') ?? textIn(data, 'errorCode') ?? 'no reason is given'
  const failed = [...progress.failed, { action: step.action, name: step.name, error }].slice(-MOST_FAILED)
  return { ...progress, active: others, failed, failures: progress.failures + 1 }
}

function textIn(data: MigrationEvent['data'], field: string): string | undefined {
  const value = data[field]
  return typeof value === 'string' ? value : undefined
}

const STATUSES = ['pending', 'validating', 'running', 'paused', 'completed', 'failed', 'cancelled'] as const

function statusIn(data: MigrationEvent['data'], before: Progress['status']): Progress['status'] {
  return STATUSES.find((status) => status === data['to']) ?? before
}

function countsIn(data: MigrationEvent['data'], before: MigrationCounts): MigrationCounts {
  const { progress } = data
  if (typeof progress !== 'object' || progress === null) return before
  const fields = new Map<string, unknown>(Object.entries(progress))
  const count = (name: keyof MigrationCounts): number => {
    const value = fields.get(name)
    return typeof value === 'number' ? value : before[name]
  }
  return { total: count('total'), completed: count('completed'), failed: count('failed'), skipped: count('skipped') }
}
