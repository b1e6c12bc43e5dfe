/** The commands that test/cli/migration-commands.test.ts runs. */
export const MIGRATION_COMMANDS: readonly string[] = [
  'migration cancel',
  'migration list',
  'migration nodes',
  'migration pause',
  'migration plan',
  'migration report',
  'migration resume',
  'migration retry',
  'migration start',
  'migration steps',
  'migration test',
  'migration verify',
  'migration view',
  'migration watch',
]
