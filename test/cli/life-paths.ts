/** The commands that test/cli/life-commands.test.ts runs. */
export const LIFE: readonly string[] = [
  'servers eula accept',
  'servers eula decline',
  'servers policy',
  'servers reset-crash-count',
  'servers variables list',
  'servers variables set',
]
