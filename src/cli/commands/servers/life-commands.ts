import { type Command, command, type Noun, noun, type Option } from '../../kit/command.ts'
import { field, IDEMPOTENCY, one, YES } from '../../kit/option-sets.ts'

const actions = () => import('./life.ts')

/** What becomes of a server when its machine starts, how long a stop may take, and its clock. */
export const LIFE_OPTIONS: readonly Option[] = [
  {
    ...field('--boot <policy>', 'what its node does with it when the machine starts', 'bootPolicy'),
    choices: ['always', 'unless-stopped', 'never'],
  },
  field('--boot-order <n>', 'when it starts then: lower ones first (needs admin.write)', 'startOrder', 'int'),
  {
    flags: '--stop-timeout <duration>',
    summary: 'how long a stop may take before signals follow; `default`: as its template says',
    fills: 'stopTimeoutSeconds',
  },
  {
    flags: '--time-zone <zone>',
    summary: 'its time zone, such as Europe/Berlin; `node`: that of its node',
    fills: 'timeZone',
  },
]

const policy = command({
  name: 'policy',
  summary: 'Say what follows the end of a server that nobody has ordered',
  details: 'What happens when the machine itself starts says `panel servers edit --boot`.',
  arguments: [one('server')],
  options: [
    {
      ...field('--restart <policy>', 'what follows its end', 'restartPolicy'),
      choices: ['always', 'on-failure', 'never'],
    },
    field('--max <n>', 'give up after that many crashes in 10 minutes', 'maxCrashCount', 'int'),
  ],
  examples: ['panel servers policy demo --restart always --max 10'],
  endpoints: ['servers.restart_policy'],
  exits: [6, 7, 8],
  load: async () => (await actions()).setPolicy,
})

const resetCrashCount = command({
  name: 'reset-crash-count',
  summary: 'Forgive the crashes of a server so far; on a node that is away, as soon as it is back',
  arguments: [one('server')],
  options: [IDEMPOTENCY],
  examples: ['panel servers reset-crash-count demo'],
  endpoints: ['servers.reset_crash_count'],
  exits: [6, 7],
  load: async () => (await actions()).resetCrashes,
})

const eula = noun({
  name: 'eula',
  summary: 'Agreements that games ask for before they run',
  group: 'Core',
  children: [
    command({
      name: 'accept',
      summary: 'Accept the agreement that the game of a server asks for; its text is shown first',
      details: 'The audit log says who has agreed, and to which text.',
      arguments: [one('server')],
      options: [YES, IDEMPOTENCY],
      examples: ['panel servers eula accept demo', 'panel servers eula accept demo --yes'],
      endpoints: ['servers.eula'],
      exits: [6, 7, 12],
      load: async () => (await actions()).acceptEula,
    }),
    command({
      name: 'decline',
      summary: 'Decline the agreement; the server does not start before somebody accepts it',
      arguments: [one('server')],
      options: [IDEMPOTENCY],
      examples: ['panel servers eula decline demo'],
      exits: [6, 7, 12],
      load: async () => (await actions()).declineEula,
    }),
  ],
})

const variables = noun({
  name: 'variables',
  aliases: ['env'],
  summary: 'Variables of a server',
  group: 'Core',
  children: [
    command({
      name: 'list',
      summary: 'List the variables of a server with their values; secrets are masked',
      arguments: [one('server')],
      examples: ['panel servers variables list demo', 'panel servers variables list demo -o json'],
      endpoints: ['servers.variables'],
      exits: [6],
      load: async () => (await actions()).listVariables,
    }),
    command({
      name: 'set',
      summary: 'Change variables of a server; in force at its next start',
      arguments: [
        one('server'),
        { name: 'variables', summary: 'what to change, as NAME=value', many: true, optional: true },
      ],
      options: [{ flags: '--env-file <file>', summary: 'variables as NAME=value lines' }],
      examples: ["panel servers variables set demo MOTD='hello all' MAX_PLAYERS=32"],
      endpoints: ['servers.set_variables'],
      exits: [6, 7, 8],
      load: async () => (await actions()).setVariables,
    }),
  ],
})

/** What belongs to the life of a server beside its orders. */
export const LIFE_COMMANDS: readonly (Command | Noun)[] = [policy, resetCrashCount, eula, variables]
