import { z } from 'zod'
import { MigrationPlan, type MigrationReport } from '../../../../../shared/api/migration.ts'
import { parseJson } from '../../../../db/json.ts'
import { findJob, type MigrationStepRow } from '../rows.ts'
import { stepAction } from './step.ts'

type Totals = MigrationReport['totals'][string]

const Notes = z.looseObject({
  warnings: z.array(z.string()).default([]),
  portChanges: z.array(z.object({ from: z.string(), to: z.string() })).default([]),
  needsPassword: z.boolean().default(false),
})

/** Adds up what has become of everything that was read, and keeps it with the migration. */
export const writeReport = stepAction({
  input: z.object({}),
  run: async ({ deps, jobId, stepId, source }) => {
    const { requests, retries, throttledMs } = (await source()).usage
    return async (tx) => {
      const job = await findJob(tx.q, jobId)
      const plan = job?.plan == null ? undefined : parseJson(MigrationPlan, job.plan)
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
      const totals: Record<string, Totals> = {}
      for (const step of steps.filter(({ action }) => action.startsWith('import_'))) {
        const type = step.sourceType ?? ''
        const of = totals[type] ?? none()
        totals[type] = of
        of.read++
        of[outcomeOf(step, created)]++
      }
      const imported = steps.filter(({ action }) => action === 'import_server')
      const noted = steps.map((step) => ({ step, notes: parseJson(Notes, step.result ?? '{}') }))
      const report: MigrationReport = {
        clean: steps.every(({ status }) => status !== 'failed'),
        totals,
        servers: imported.map((step) => serverOf(step, noted.find((one) => one.step === step)?.notes.warnings ?? [])),
        portChanges: noted.flatMap(({ step, notes }) =>
          notes.portChanges.map((one) => ({ server: step.name, ...one })),
        ),
        passwordResets: noted.flatMap(({ step: { targetId, name }, notes }) =>
          notes.needsPassword && targetId !== null ? [{ userId: targetId, email: name }] : [],
        ),
        skipped: steps.flatMap(({ status, reason, sourceType, sourceId, name }) =>
          status === 'skipped' && reason !== 'unchanged'
            ? [{ type: sourceType ?? '', id: sourceId ?? '', name, reason: reason ?? '' }]
            : [],
        ),
        lost: plan?.lost ?? [],
        sourceLeftovers: steps.flatMap(({ action, status, name, error }) =>
          action === 'source_cleanup' && status === 'failed' ? [`${name}: ${error ?? ''}`] : [],
        ),
        warnings: plan?.warnings ?? [],
        api: { requests, retries, throttledSeconds: throttledMs / 1000 },
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

function none(): Totals {
  return { read: 0, created: 0, linked: 0, updated: 0, unchanged: 0, skipped: 0, failed: 0 }
}

/** Each step counts once, so that what was read is the sum of the others. */
function outcomeOf(
  { status, reason, sourceType, sourceId, input }: MigrationStepRow,
  created: ReadonlySet<string>,
): Exclude<keyof Totals, 'read'> {
  if (status === 'skipped') return reason === 'unchanged' ? 'unchanged' : reason === 'exists' ? 'linked' : 'skipped'
  if (status !== 'completed') return 'failed'
  if (parseJson(z.looseObject({ op: z.string().optional() }), input).op === 'update') return 'updated'
  return created.has(`${sourceType} ${sourceId}`) ? 'created' : 'linked'
}

function serverOf(step: MigrationStepRow, warnings: readonly string[]): MigrationReport['servers'][number] {
  const Input = z.looseObject({
    nodeId: z.string(),
    source: z.looseObject({ uuid: z.string(), name: z.string(), nodeId: z.string() }),
  })
  const { nodeId, source } = parseJson(Input, step.input)
  return {
    source: { id: step.sourceId ?? '', uuid: source.uuid, name: source.name, node: source.nodeId },
    target: step.targetId === null ? null : { id: step.targetId, nodeId },
    files: null,
    warnings: [...warnings],
  }
}
