import { z } from 'zod'

/** Where a migration stands: `validating` reads the source and makes the plan; the last three are ends, of which only `failed` can be resumed. */
export const MigrationJobStatus = z.enum([
  'pending',
  'validating',
  'running',
  'paused',
  'completed',
  'failed',
  'cancelled',
])
export type MigrationJobStatus = z.infer<typeof MigrationJobStatus>

/** Where a step of a migration stands. A `skipped` one says why. */
export const MigrationStepStatus = z.enum(['pending', 'running', 'completed', 'failed', 'skipped'])
export type MigrationStepStatus = z.infer<typeof MigrationStepStatus>

/** What steps belong to, for people. They are carried out by `seq`: one server goes through all of its phases before others begin. */
export const MigrationPhase = z.enum([
  'validate',
  'locations',
  'templates',
  'users',
  'servers',
  'subusers',
  'databases',
  'schedules',
  'backups',
  'files',
  'finish',
])
export type MigrationPhase = z.infer<typeof MigrationPhase>

/** How a migration ended that ran to its end. */
export const MigrationOutcome = z.enum(['clean', 'with_failures'])
export type MigrationOutcome = z.infer<typeof MigrationOutcome>

/** How far a migration is, in steps. */
export const MigrationCounts = z.object({
  total: z.int(),
  completed: z.int(),
  failed: z.int(),
  skipped: z.int(),
})
export type MigrationCounts = z.infer<typeof MigrationCounts>
