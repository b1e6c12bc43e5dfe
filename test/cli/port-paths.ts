/** The commands that test/cli/port-commands.test.ts runs. */
export const PORTS: readonly string[] = [
  'servers ports add',
  'servers ports list',
  'servers ports primary',
  'servers ports remove',
]
