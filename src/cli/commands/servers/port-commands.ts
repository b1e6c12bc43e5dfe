import { command, noun, type Option } from '../../kit/command.ts'
import { field, IDEMPOTENCY, one, YES } from '../../kit/option-sets.ts'

const actions = () => import('./ports.ts')

const WHICH = { name: 'port', summary: 'its number, its name, or its ip:port' } as const
const ROLE: Option = {
  ...field('--role <role>', 'what it is for (default other)', 'role'),
  choices: ['game', 'query', 'rcon', 'files', 'other'],
}
const PROTOCOL: Option = {
  ...field('--protocol <protocol>', 'how it is spoken to (default both)', 'protocol'),
  choices: ['tcp', 'udp', 'both'],
}

/** The ports of a server. */
export const ports = noun({
  name: 'ports',
  aliases: ['port'],
  summary: 'The addresses and ports of a server',
  group: 'Core',
  children: [
    command({
      name: 'list',
      summary: 'List the ports of a server, the primary one first',
      arguments: [one('server')],
      examples: ['panel servers ports list demo', "panel servers ports list demo --jq '.[].port'"],
      endpoints: ['server_allocations.list'],
      exits: [6],
      load: async () => (await actions()).listPorts,
    }),
    command({
      name: 'add',
      summary: 'Give a server a further port, in force at its next start',
      details:
        'Without --port one is chosen. The name of a port of the template brings its role, protocol and place with it. Members of ' +
        'a server take ports that are free allocations of its node; others need admin.write or an assignment of the node.',
      arguments: [one('server')],
      options: [
        field('--port <port>', 'its number', 'containerPort', 'int'),
        field('--ip <ip>', "its address (default: the server's own)", 'ip'),
        field('--name <name>', 'how configuration files call it: {{server.allocations.<name>.port}}', 'name'),
        ROLE,
        PROTOCOL,
        IDEMPOTENCY,
      ],
      examples: [
        'panel servers ports add demo --name query --role query --protocol udp',
        'panel servers ports add demo --port 25575 --name rcon --role rcon --protocol tcp',
      ],
      endpoints: ['server_allocations.add'],
      exits: [6, 7, 8],
      load: async () => (await actions()).addPort,
    }),
    command({
      name: 'remove',
      aliases: ['delete'],
      summary: 'Take a further port from a stopped server',
      arguments: [one('server'), WHICH],
      options: [YES, { flags: '--ignore-not-found', summary: 'exit 0 when it is not there' }],
      examples: ['panel servers ports remove demo 25575 --yes', 'panel servers ports remove demo rcon'],
      endpoints: ['server_allocations.remove'],
      exits: [6, 7, 8],
      load: async () => (await actions()).removePort,
    }),
    command({
      name: 'primary',
      summary: 'Make a further port of a stopped server the primary one; the two change places',
      details: 'Ports that the template has at a distance from the primary one move with it.',
      arguments: [one('server'), WHICH],
      options: [IDEMPOTENCY],
      examples: ['panel servers ports primary demo 25570'],
      endpoints: ['server_allocations.primary'],
      exits: [6, 7, 8],
      load: async () => (await actions()).makePrimary,
    }),
  ],
})
