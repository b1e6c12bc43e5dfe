import { type Command, command } from '../../kit/command.ts'
import { IDEMPOTENCY, several, WAIT } from '../../kit/option-sets.ts'

const GRACE = { flags: '--grace <duration>', summary: 'how long a stop may take before signals follow' }
const EXITS = [3, 6, 7, 11, 12, 124]
const load = async () => (await import('./power.ts')).powerServers

const verb = (name: string, summary: string): Command =>
  command({
    name,
    summary,
    details: `The same as \`panel servers power ${name}\`.`,
    arguments: [several('server')],
    options: [...WAIT, ...(name === 'stop' || name === 'restart' ? [GRACE] : []), IDEMPOTENCY],
    examples: [`panel servers ${name} demo --wait`, `panel servers ${name} lobby arena --no-wait`],
    exits: EXITS,
    load,
  })

const installation = (name: 'install' | 'reinstall', summary: string): Command =>
  command({
    name,
    summary,
    arguments: [several('server')],
    options: [
      { flags: '--start', summary: 'start it afterwards' },
      ...(name === 'reinstall'
        ? [{ flags: '--confirm <name>', summary: 'agree by the name of the server, in scripts' }]
        : []),
      ...WAIT,
      IDEMPOTENCY,
    ],
    examples:
      name === 'install'
        ? ['panel servers install demo --wait']
        : ['panel servers reinstall demo --confirm demo --wait'],
    endpoints: [`servers.${name}`],
    exits: EXITS,
    load: async () => (await import('./power.ts')).installServers,
  })

/** The orders to servers. */
export const POWER_COMMANDS: readonly Command[] = [
  command({
    name: 'power',
    summary: 'Start, stop, restart or kill a server',
    details:
      'With --wait the outcome is the exit code: 0 when the state is reached, 11 when the server crashes or the order fails, ' +
      '124 when --timeout passes. A server that is there already is no failure. Ctrl-C stops the waiting, not the order.',
    arguments: [
      { name: 'action', summary: 'what to do', choices: ['start', 'stop', 'restart', 'kill'] },
      several('server'),
    ],
    options: [...WAIT, GRACE, IDEMPOTENCY],
    examples: ['panel servers power restart demo --wait -o json', 'panel servers power stop lobby arena --timeout 2m'],
    endpoints: ['servers.power'],
    exits: EXITS,
    load,
  }),
  verb('start', 'Start a server'),
  verb('stop', 'Stop a server'),
  verb('restart', 'Restart a server'),
  verb('kill', 'Kill a server'),
  installation('install', 'Run the installation of a server; its files stay'),
  installation('reinstall', 'Wipe the files of a server and install it again'),
  command({
    name: 'rebuild',
    summary: 'Fetch the image of a server anew and remove its container; its files stay',
    details:
      'The image that is there stays in use when its registry cannot be reached. The next start makes a new container.',
    arguments: [several('server')],
    options: [{ flags: '--start', summary: 'start it afterwards' }, ...WAIT, IDEMPOTENCY],
    examples: ['panel servers rebuild demo --wait', 'panel servers rebuild lobby arena --start'],
    endpoints: ['servers.rebuild'],
    exits: EXITS,
    load: async () => (await import('./power.ts')).rebuildServers,
  }),
]
