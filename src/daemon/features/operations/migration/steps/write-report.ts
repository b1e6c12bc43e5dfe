import { z } from 'zod'
import { MigrationPlan, type MigrationReport } from '../../../../../shared/api/migration.ts'
import { parseJson } from '../../../../db/json.ts'
import { findPapers, type MigrationStepRow } from '../rows.ts'
import { SourceFailure } from '../source/source.ts'
import { type StepContext, stepAction } from './step.ts'
import { TransferNotes } from './transfer-files.ts'

type Totals = MigrationReport['totals'][string]

/** Names of what was left out that a report shows. */
const MOST_SKIPPED = 10_000

const Notes = z.looseObject({
  warnings: z.array(z.string()).default([]),
  portChanges: z.array(z.object({ from: z.string(), to: z.string() })).default([]),
  needsPassword: z.boolean().default(false),
})

/** Adds up what has become of everything that was read, and keeps it with the migration. */
export const writeReport = stepAction({
  input: z.object({}),
  run: async (context) => {
    const { deps, jobId, stepId } = context
    const usage = await usageOf(context)
    return async (tx) => {
      const papers = await findPapers(tx.q, jobId)
      const plan = papers?.plan == null ? undefined : parseJson(MigrationPlan, papers.plan)
      const steps = await tx.q
        .selectFrom('migrationStep')
        .selectAll()
        .where('jobId', '=', jobId)
        .where('id', '!=', stepId)
        .orderBy('seq')
        .execute()
      const maps = await tx.q.selectFrom('migrationMap').selectAll().where('jobId', '=', jobId).execute()
      const created = new Set(
        maps.flatMap(({ sourceType, sourceId, created }) => (created === 1 ? [`${sourceType} ${sourceId}`] : [])),
      )
      const report: MigrationReport = {
        clean: steps.every(({ status }) => status === 'completed' || status === 'skipped'),
        totals: totalsOf(steps, created),
        servers: serversOf(steps),
        ...shownOf(steps),
        lost: plan?.lost ?? [],
        sourceLeftovers: steps.flatMap(leftover),
        warnings: [...(plan?.warnings ?? []), ...warningsOf(steps)],
        api: usage,
      }
      await tx.q
        .updateTable('migrationJob')
        .set({ report: JSON.stringify(report), updatedAt: tx.now })
        .where('id', '=', jobId)
        .execute()
      deps.log.info({ jobId, clean: report.clean }, 'migration report written')
      return { kind: 'done' }
    }
  },
})

/** A report is written also when the source is gone by now. */
async function usageOf({ source, signal }: StepContext): Promise<MigrationReport['api']> {
  try {
    const { requests, retries, throttledMs } = (await source()).usage
    return { requests, retries, throttledSeconds: throttledMs / 1000 }
  } catch (error) {
    if (signal.aborted || !(error instanceof SourceFailure)) throw error
    return { requests: 0, retries: 0, throttledSeconds: 0 }
  }
}

/** Actions that bring what things hold. */
const CONTENTS: ReadonlySet<string> = new Set(['place_files', 'copy_database'])

/** By the kind of things; files count once for each server. */
function totalsOf(steps: readonly MigrationStepRow[], created: ReadonlySet<string>): Record<string, Totals> {
  const totals: Record<string, Totals> = {}
  const count = (type: string, outcome: Exclude<keyof Totals, 'read'>, by = 1): void => {
    const of = totals[type] ?? none()
    totals[type] = of
    of.read += by
    of[outcome] += by
  }
  for (const step of steps) {
    const { action, sourceType } = step
    if (!action.startsWith('import_') && !CONTENTS.has(action)) continue
    const outcome = outcomeOf(step, created)
    count(sourceType ?? '', outcome)
    if (action !== 'import_server') continue
    const { source } = parseJson(ServerInput, step.input)
    count('allocation', outcome, source.allocations?.length ?? 0)
  }
  return totals
}

function none(): Totals {
  return { read: 0, created: 0, linked: 0, updated: 0, unchanged: 0, skipped: 0, failed: 0 }
}

/** Each step counts once, so that what was read is the sum of the others. */
function outcomeOf(
  { status, reason, sourceType, sourceId, input, action, result }: MigrationStepRow,
  created: ReadonlySet<string>,
): Exclude<keyof Totals, 'read'> {
  if (status === 'skipped') return reason === 'unchanged' ? 'unchanged' : reason === 'exists' ? 'linked' : 'skipped'
  if (status !== 'completed') return 'failed'
  if (CONTENTS.has(action)) {
    return parseJson(z.looseObject({ replaced: z.boolean().default(false) }), result ?? '{}').replaced
      ? 'updated'
      : 'created'
  }
  if (parseJson(z.looseObject({ op: z.string().optional() }), input).op === 'update') return 'updated'
  return created.has(`${sourceType} ${sourceId}`) ? 'created' : 'linked'
}

const ServerInput = z.looseObject({
  nodeId: z.string(),
  source: z.looseObject({
    uuid: z.string(),
    name: z.string(),
    nodeId: z.string(),
    allocations: z.array(z.unknown()).nullish(),
  }),
})

function serversOf(steps: readonly MigrationStepRow[]): MigrationReport['servers'] {
  const of = (action: string, sourceId: string | null): MigrationStepRow | undefined =>
    steps.find((step) => step.action === action && step.sourceId === sourceId)
  return steps.flatMap((step) => {
    if (step.action !== 'import_server') return []
    const { nodeId, source } = parseJson(ServerInput, step.input)
    const transfer = of('transfer_files', step.sourceId)
    const came = transfer?.status === 'completed' ? parseJson(TransferNotes, transfer.result ?? '{}') : undefined
    const isHalf = step.status === 'completed' && of('activate_server', step.sourceId)?.status !== 'completed'
    return [
      {
        source: { id: step.sourceId ?? '', uuid: source.uuid, name: source.name, node: source.nodeId },
        target: step.targetId === null ? null : { id: step.targetId, nodeId },
        files:
          came === undefined
            ? null
            : {
                ...{ count: came.files, bytes: came.bytes, manifestSha256: came.manifestSha256 },
                ...{ archiveSha1: came.archiveSha1, way: came.way },
              },
        warnings: [
          ...parseJson(Notes, step.result ?? '{}').warnings,
          ...(came?.warnings ?? []),
          ...(isHalf ? ['it is not whole yet: it stays suspended until the migration goes on'] : []),
        ],
      },
    ]
  })
}

function shownOf(
  steps: readonly MigrationStepRow[],
): Pick<MigrationReport, 'portChanges' | 'passwordResets' | 'skipped'> {
  const noted = steps.map((step) => ({ step, notes: parseJson(Notes, step.result ?? '{}') }))
  return {
    portChanges: noted.flatMap(({ step, notes }) => notes.portChanges.map((one) => ({ server: step.name, ...one }))),
    passwordResets: noted.flatMap(({ step: { targetId, name }, notes }) =>
      notes.needsPassword && targetId !== null ? [{ userId: targetId, email: name }] : [],
    ),
    skipped: steps
      .flatMap(({ status, reason, sourceType, sourceId, name }) =>
        status === 'skipped' && reason !== 'unchanged' && reason !== 'exists'
          ? [{ type: sourceType ?? '', id: sourceId ?? '', name, reason: reason ?? '' }]
          : [],
      )
      .slice(0, MOST_SKIPPED),
  }
}

/** Those of servers stand with them. */
function warningsOf(steps: readonly MigrationStepRow[]): string[] {
  return steps.flatMap(({ action, name, result }) =>
    action === 'import_server' || action === 'transfer_files' || result === null
      ? []
      : parseJson(Notes, result).warnings.map((text) => `${name}: ${text}`),
  )
}

function leftover({ action, status, name, error, intent }: MigrationStepRow): string[] {
  if (action !== 'source_cleanup' || status === 'completed' || intent === null) return []
  const why = error === null ? '' : ` (${error})`
  return [`server ${name}: put back by hand what was changed on the source: ${intent.slice(0, 1000)}${why}`]
}
