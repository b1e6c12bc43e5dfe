/** The commands that test/cli/overview-commands.test.ts runs. */
export const OVERVIEW: readonly string[] = [
  'dashboard',
  'db status',
  'health',
  'stats',
  'update check',
  'update status',
  'update watch',
]
