/** The commands that test/cli/database-commands.test.ts runs: they need a database host. */
export const DATABASE_COMMANDS: readonly string[] = [
  'databases adopt',
  'databases create',
  'databases delete',
  'databases list',
  'databases rotate',
  'databases view',
  'db-hosts create',
  'db-hosts delete',
  'db-hosts edit',
  'db-hosts list',
  'db-hosts ping',
  'db-hosts view',
]
