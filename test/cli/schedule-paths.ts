/** The commands that test/cli/schedule-commands.test.ts runs. */
export const SCHEDULES: readonly string[] = [
  'schedules abort',
  'schedules create',
  'schedules delete',
  'schedules disable',
  'schedules edit',
  'schedules enable',
  'schedules list',
  'schedules next',
  'schedules run',
  'schedules runs',
  'schedules view',
]
