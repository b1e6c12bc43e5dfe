/** The commands that test/cli/job-commands.test.ts runs. */
export const JOBS: readonly string[] = [
  'jobs cancel',
  'jobs list',
  'jobs pause',
  'jobs resume',
  'jobs retry',
  'jobs view',
  'jobs watch',
]
