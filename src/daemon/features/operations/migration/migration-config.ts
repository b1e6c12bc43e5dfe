import { z } from 'zod'
import { MigrationOptions, MigrationScope } from '../../../../shared/api/migration.ts'
import { MigrationPhase } from '../../../../shared/kernel/migration.ts'

/** What a migration was started with, as its row keeps it. */
export const MigrationConfig = z.object({
  scope: MigrationScope,
  nodeMappings: z.record(z.string(), z.string()),
  serverMappings: z.record(z.string(), z.string()),
  dryRun: z.boolean(),
  phases: z.array(MigrationPhase),
  verifyOf: z.string().nullable(),
  options: MigrationOptions,
  planHash: z.string().nullable().default(null),
  allowDrift: z.boolean().default(false),
})
export type MigrationConfig = z.infer<typeof MigrationConfig>
