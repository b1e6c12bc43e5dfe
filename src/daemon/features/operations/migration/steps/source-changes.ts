import { z } from 'zod'
import { parseJson } from '../../../../db/json.ts'
import { stepId } from '../plan/content-hash.ts'
import type { SourceBuild } from '../source/source.ts'
import type { StepContext } from './step.ts'

/** The action that puts back what was changed on the source: it is carried out also when a migration is cancelled. */
export const CLEANUP = 'source_cleanup'
/** The action that says what has become of everything: that also of what was cancelled. */
export const REPORT = 'write_report'

const Build: z.ZodType<SourceBuild> = z.object({
  allocationId: z.string(),
  limits: z.object({
    memoryMb: z.number(),
    swapMb: z.number(),
    diskMb: z.number(),
    ioWeight: z.number(),
    cpuPercent: z.number(),
    threads: z.string().nullable(),
    isOomKillerOff: z.boolean(),
  }),
  featureLimits: z.object({
    databases: z.number().nullable(),
    allocations: z.number().nullable(),
    backups: z.number().nullable(),
  }),
})

/** What a migration was about to change on a server of the source, as it was before. */
export const SourceChanges = z.object({
  /** Names of backups that it was about to make. */
  backups: z.array(z.string()).default([]),
  build: Build.nullable().default(null),
  wasSuspended: z.boolean().nullable().default(null),
  wasRunning: z.boolean().default(false),
})
export type SourceChanges = z.infer<typeof SourceChanges>

/**
 * Writes down what is about to be changed on the source, with the step that puts it back. What was written first is kept: that is how it
 * was found.
 */
export async function noteChange(
  { deps, jobId, sourceFp, sourceId }: StepContext,
  change: Partial<SourceChanges>,
): Promise<void> {
  const id = stepId(sourceFp, CLEANUP, 'files', sourceId)
  await deps.db.write(async (tx) => {
    const row = await tx.q
      .selectFrom('migrationStep')
      .select('intent')
      .where('jobId', '=', jobId)
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
    const before = parseJson(SourceChanges, row.intent ?? '{}')
    const after: SourceChanges = {
      backups: [...new Set([...before.backups, ...(change.backups ?? [])])],
      build: before.build ?? change.build ?? null,
      wasSuspended: before.wasSuspended ?? change.wasSuspended ?? null,
      wasRunning: before.wasRunning || change.wasRunning === true,
    }
    await tx.q
      .updateTable('migrationStep')
      .set({ intent: JSON.stringify(after), updatedAt: tx.now })
      .where('jobId', '=', jobId)
      .where('id', '=', id)
      .execute()
  })
}

/** What is to be put back; `undefined`: nothing was changed. */
export async function changesOf({ deps, jobId, stepId: id }: StepContext): Promise<SourceChanges | undefined> {
  const row = await deps.db.read
    .selectFrom('migrationStep')
    .select('intent')
    .where('jobId', '=', jobId)
    .where('id', '=', id)
    .executeTakeFirst()
  return row?.intent == null ? undefined : parseJson(SourceChanges, row.intent)
}
