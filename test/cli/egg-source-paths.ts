/** The commands that test/cli/egg-sources.test.ts runs. */
export const EGG_SOURCES: readonly string[] = [
  'templates sources diff',
  'templates sources import',
  'templates sources list',
]
