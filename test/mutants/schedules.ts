import type { Mutant } from './mutant.ts'

const FOLDER = 'src/daemon/features/servers/schedules'
const TIMES = 'src/daemon/core/cron-times.ts'
const RUNS = 'test/daemon/schedules/runs.test.ts'
const DUE = 'test/daemon/schedules/due-together.test.ts'

/** Mistakes in schedules, each planted alone. */
export const MUTANTS: readonly Mutant[] = [
  {
    title: 'a set time that comes twice is due twice',
    topic: 'schedules',
    file: TIMES,
    find: '(isRepeating ? instants : [first])',
    replace: '(isRepeating || instants.length > 1 ? instants : [first])',
    seenBy: [DUE],
  },
  {
    title: 'a set time that is left out is due when the clocks would have shown it',
    topic: 'schedules',
    file: TIMES,
    find: 'instants[0] ?? zone.changeAt(wall)',
    replace: 'instants[0] ?? zone.changeAt(wall) + QUARTER',
    seenBy: [DUE],
  },
  {
    title: 'what was missed runs although it is to be skipped',
    topic: 'schedules',
    file: `${FOLDER}/due-job.ts`,
    find: "if (isMissed && schedule.missed === 'skip')",
    replace: "if (isMissed && schedule.missed === 'once')",
    seenBy: [DUE],
  },
  {
    title: 'a clock that was ahead leaves its times',
    topic: 'schedules',
    file: `${FOLDER}/due-job.ts`,
    find: 'await followClock(deps, signal)',
    replace: 'await Promise.resolve()',
    seenBy: [DUE],
  },
  {
    title: 'the rights of steps are not looked at when they run',
    topic: 'schedules',
    file: `${FOLDER}/run-type.ts`,
    find: "['server.schedule', ...permissionsOf(steps)]",
    replace: "['server.schedule', ...permissionsOf(steps).slice(0, 0)]",
    seenBy: [RUNS],
  },
  {
    title: 'the end of a suspension enables what was disabled before it',
    topic: 'schedules',
    file: `${FOLDER}/server-life.ts`,
    find: '} else if (row.disabledBySuspension === 1) {',
    replace: '} else {',
    seenBy: [RUNS],
  },
  {
    title: 'a failed step is gone on from without being told to',
    topic: 'schedules',
    file: `${FOLDER}/run-job.ts`,
    find: 'if (continueOnFailure && outcome.ends !== true)',
    replace: 'if (outcome.ends !== true || continueOnFailure)',
    seenBy: [RUNS],
  },
]
