import { type Argument, command, noun, type Option } from '../../kit/command.ts'
import { BODY_FILE, DELETE, field, IDEMPOTENCY, LIST, one, prose, requiring, WAIT, YES } from '../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

const WHICH: Argument = { name: 'schedule', summary: 'its name, its id, or the beginning of the id' }
const STEP: Option = {
  flags: '--step <step>',
  summary: 'what it does, one after the other: "command:say hi", power:restart, wait:60, backup[:<name>]',
  repeat: true,
  fills: 'steps',
}
const FIELDS: readonly Option[] = [
  field('--name <name>', 'what it is called', 'name'),
  prose('--description <text>', 'what it is for', 'description'),
  field('--cron <text>', 'when: minute, hour, day of month, month, day of week, or @daily', 'schedule'),
  field('--tz <zone>', 'on the clocks of this time zone (default: that of the server, else of the panel)', 'timezone'),
  STEP,
  field('--if-online', 'only while the server is running or starting', 'onlyWhenOnline', 'boolean'),
  field('--no-if-online', 'whatever the server does (default)', 'onlyWhenOnline', 'boolean'),
  {
    ...field(
      '--missed <policy>',
      'what was due while the daemon was away: run it once (default), or skip it',
      'missed',
    ),
    choices: ['skip', 'once'],
  },
  BODY_FILE,
]
const STEPS_SAID =
  'A step of a file (-F) has action, payload, and where needed timeOffset (seconds to wait before it) and continueOnFailure: ' +
  'without it a step that fails ends the run.'

export const schedules = noun({
  name: 'schedules',
  aliases: ['schedule'],
  summary: 'What servers do at certain times',
  group: 'Core',
  children: [
    command({
      name: 'list',
      summary: 'List the schedules of a server',
      arguments: [one('server')],
      options: LIST,
      examples: ['panel schedules list demo', 'panel schedules list demo --json name,nextRunAt,lastStatus'],
      endpoints: ['tasks.list'],
      exits: [6, 7],
      load: async () => (await actions()).listSchedules,
    }),
    command({
      name: 'view',
      summary: 'Show a schedule of a server with its steps',
      arguments: [one('server'), WHICH],
      examples: ['panel schedules view demo nightly'],
      endpoints: ['tasks.get'],
      exits: [6, 7],
      load: async () => (await actions()).viewSchedule,
    }),
    command({
      name: 'create',
      summary: 'Create a schedule: steps that a server carries out at certain times, with your rights at that moment',
      details: STEPS_SAID,
      arguments: [one('server')],
      options: [
        ...requiring(FIELDS, 'name', 'cron'),
        { ...field('--no-enabled', 'it does not run by itself until it is enabled', 'enabled', 'boolean') },
        IDEMPOTENCY,
      ],
      examples: [
        'panel schedules create demo --name nightly --cron "0 4 * * *" --tz Europe/Berlin --step "command:say restart in a minute" --step wait:60 --step power:restart',
        'panel schedules create demo --name save --cron "*/30 * * * *" --if-online --step "command:save-all"',
      ],
      endpoints: ['tasks.create'],
      exits: [6, 7, 8],
      load: async () => (await actions()).createSchedule,
    }),
    command({
      name: 'edit',
      summary: 'Edit a schedule; with new steps it runs with your rights from then on',
      details: `--step names all steps anew. ${STEPS_SAID}`,
      arguments: [one('server'), WHICH],
      options: FIELDS,
      examples: [
        'panel schedules edit demo nightly --cron "30 5 * * *"',
        'panel schedules edit demo nightly -F nightly.yaml',
      ],
      endpoints: ['tasks.update'],
      exits: [6, 7, 8],
      load: async () => (await actions()).editSchedule,
    }),
    command({
      name: 'delete',
      summary: 'Delete a schedule of a server with its history; a run that is under way is aborted',
      arguments: [one('server'), WHICH],
      options: DELETE,
      examples: ['panel schedules delete demo nightly --yes'],
      endpoints: ['tasks.delete'],
      exits: [6, 7],
      load: async () => (await actions()).deleteSchedule,
    }),
    command({
      name: 'enable',
      summary: 'Have a schedule run at its times',
      arguments: [one('server'), WHICH],
      examples: ['panel schedules enable demo nightly'],
      endpoints: [],
      exits: [6, 7],
      load: async () => (await actions()).enableSchedule,
    }),
    command({
      name: 'disable',
      summary: 'Have a schedule not run by itself; a run that is under way goes on',
      arguments: [one('server'), WHICH],
      examples: ['panel schedules disable demo nightly'],
      endpoints: [],
      exits: [6, 7],
      load: async () => (await actions()).disableSchedule,
    }),
    command({
      name: 'run',
      summary: 'Run a schedule now, with your rights; exit 11 when the run fails',
      arguments: [one('server'), WHICH],
      options: [...WAIT, IDEMPOTENCY],
      examples: ['panel schedules run demo nightly --wait', 'panel schedules run demo nightly --no-wait -o id'],
      endpoints: ['tasks.execute'],
      exits: [6, 7, 11, 12, 124],
      load: async () => (await import('./runs.ts')).runSchedule,
    }),
    command({
      name: 'abort',
      summary: 'Abort the run of a schedule that is under way; what its steps have done stays done',
      arguments: [one('server'), WHICH],
      options: [YES, IDEMPOTENCY],
      examples: ['panel schedules abort demo nightly --yes'],
      endpoints: ['tasks.abort'],
      exits: [6, 7],
      load: async () => (await import('./runs.ts')).abortSchedule,
    }),
    command({
      name: 'next',
      summary: 'Show when the schedules of a server are due next, or when a cron text would be',
      arguments: [one('server'), { ...WHICH, optional: true }],
      options: [
        { flags: '--count <n>', summary: 'how many times (default 10, at most 100)' },
        { flags: '--cron <text>', summary: 'the times of this text, which is not saved' },
        { flags: '--tz <zone>', summary: 'show times on the clocks of this time zone' },
      ],
      examples: [
        'panel schedules next demo',
        'panel schedules next demo --cron "30 2 * * sun" --tz Europe/Berlin --count 60',
      ],
      endpoints: ['tasks.preview'],
      exits: [6, 7, 8],
      load: async () => (await import('./next.ts')).nextTimes,
    }),
    command({
      name: 'runs',
      summary: 'List the last runs of a schedule, newest first',
      arguments: [one('server'), WHICH],
      options: [
        {
          flags: '--status <status>',
          summary: 'only those',
          choices: ['running', 'success', 'failed', 'skipped', 'aborted'],
          field: 'status',
        },
        { flags: '--logs', summary: 'with each step, and what the console has said meanwhile' },
        ...LIST,
      ],
      examples: [
        'panel schedules runs demo nightly',
        'panel schedules runs demo nightly --status failed --logs --limit 1',
      ],
      endpoints: ['tasks.runs', 'tasks.run'],
      exits: [6, 7],
      load: async () => (await import('./runs.ts')).listRuns,
    }),
  ],
})
