import { z } from 'zod'
import { defineJob } from '../../../jobs/job-type.ts'

/** Carries out one step of a migration: it begins in one transaction, and in another one stands what came of it. */
export const MIGRATION_STEP = defineJob({
  kind: 'migration.step',
  input: z.object({ jobId: z.string(), stepId: z.string(), name: z.string() }),
  state: z.object({}),
  first: () => ({}),
  title: ({ name }) => `Import ${name}`,
  pool: { name: 'migration.steps', size: 16 },
  lane: ({ jobId, stepId }) => `${jobId} ${stepId}`,
  ordered: false,
  background: true,
  plan: ({ name }) => [{ step: 'carry out', name }],
  needs: () => ({ panel: 'admin.write' }),
})
