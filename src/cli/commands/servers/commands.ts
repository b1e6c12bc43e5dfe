import { command, noun, type Option } from '../../kit/command.ts'
import {
  BODY_FILE,
  DELETE,
  field,
  IDEMPOTENCY,
  LIST,
  one,
  prose,
  reference,
  required,
  SEARCH,
  several,
  WAIT,
} from '../../kit/option-sets.ts'
import { TRANSFER_OWNERSHIP } from '../access/commands.ts'
import { SSH_COMMAND } from '../sftp/commands.ts'
import { BULK_COMMANDS } from './bulk-commands.ts'
import { LIFE_COMMANDS, LIFE_OPTIONS } from './life-commands.ts'
import { PIN_COMMANDS } from './pin-commands.ts'
import { ports } from './port-commands.ts'
import { POWER_COMMANDS } from './power-commands.ts'

const SIZES: readonly Option[] = [
  field('--memory <size>', 'memory: 512, 512M, 2G', 'allocatedMemoryMb', 'mib'),
  field('--cpu <cores>', 'cores: 0.5, 2', 'allocatedCpuCores', 'number'),
  field('--disk <size>', 'disk: 10G', 'allocatedDiskMb', 'mib'),
  field('--swap <size>', 'swap', 'allocatedSwapMb', 'mib'),
  field('--databases <n>', 'how many databases it may have', 'databaseAllocation', 'int'),
  field('--cpu-set <cpus>', 'the processors that it may use: 0-3,6', 'cpuSet'),
  field('--io-weight <n>', 'its share of disk time: 10 to 1000', 'ioWeight', 'int'),
]

const ADDRESS: readonly Option[] = [
  field('--port <port>', 'the port that players use (a new server without one is given one)', 'primaryPort', 'int'),
  field('--ip <ip>', 'the address of the port (default: that of the node)', 'primaryIp'),
  {
    flags: '--allocation <allocation>',
    summary: 'an allocation of the node in the place of port and address: id or ip:port',
  },
]

const BEHAVIOUR: readonly Option[] = [
  field('--image <image>', "one of the template's images, by its name or label", 'image'),
  { flags: '--env <name=value>', summary: 'a variable of the template', repeat: true, fills: 'environment' },
  { flags: '--env-file <file>', summary: 'variables as NAME=value lines' },
  field('--startup <line>', 'a command line of its own (needs admin.write)', 'startupCommand'),
  prose(
    '--startup-name <name>',
    "one of its template's further startup lines; '' is the template's own",
    'startupName',
  ),
  {
    ...field('--restart-policy <policy>', 'what follows its end', 'restartPolicy'),
    choices: ['always', 'on-failure', 'never'],
  },
  field('--max-crashes <n>', 'give up after that many crashes', 'maxCrashCount', 'int'),
  prose('--description <text>', 'what it is for', 'description'),
  {
    flags: '--mount <source:target[:ro]>',
    summary: 'a folder of the node beside its own (needs admin.write)',
    repeat: true,
    blank: true,
    fills: 'mounts',
  },
]

const STATUSES = [
  'stopped', 'installing', 'starting', 'running', 'stopping', 'crashed', 'error', 'suspended', 'archived', 'transferring',
  'restoring', 'deleting', 'unknown',
] // biome-ignore format: a list

export const servers = noun({
  name: 'servers',
  aliases: ['server'],
  summary: 'Game servers',
  group: 'Core',
  children: [
    command({
      name: 'list',
      summary: 'List the servers that you may see',
      options: [
        SEARCH,
        { ...field('--state <status>', 'only those in this state', 'status'), choices: STATUSES },
        reference('--node <node>', 'only those on this node', 'nodeId', 'node'),
        reference('--location <location>', 'only those in this location', 'locationId', 'location'),
        reference('--template <template>', 'only those made from this template', 'templateId', 'template'),
        reference('--owner <user>', 'only those of this account', 'ownerId', 'user'),
        { flags: '--admin', summary: 'those of all accounts, with whose they are (needs server.read)' },
        { flags: '--sort <field[:desc]>', summary: 'name, createdAt or status' },
        field('--include <parts>', 'more in each row, with a comma: template, effectivePermissions', 'include'),
        ...LIST,
      ],
      examples: [
        'panel servers list',
        'panel servers list --admin --search rack-1',
        'panel servers list --state running --json id,name,node.name',
        'panel servers list --all --jq \'.[] | select(.status=="crashed") | .id\'',
      ],
      endpoints: ['servers.list', 'servers.list_admin'],
      load: async () => (await import('./actions.ts')).listServers,
    }),
    command({
      name: 'view',
      summary: 'Show a server',
      arguments: [one('server')],
      examples: ['panel servers view demo', 'panel servers view demo -o json'],
      endpoints: ['servers.get'],
      exits: [6],
      load: async () => (await import('./actions.ts')).viewServer,
    }),
    command({
      name: 'create',
      summary: 'Create a server and install it',
      details:
        'Memory, cores and disk come from the template when they are not given, and the port is one that is free. With --wait the command returns when the server is installed, with --start when it runs.',
      options: [
        required(field('--name <name>', 'its name', 'name')),
        required(reference('--template <template>', 'what it is made from', 'templateId', 'template')),
        reference('--node <node>', 'where it runs (default: the only node there is)', 'nodeId', 'node'),
        reference('--location <location>', 'its location (default: that of the node)', 'locationId', 'location'),
        ...SIZES,
        ...ADDRESS,
        field('--network <name>', 'a network of the node (panel ip-pools list): an address of its own', 'networkMode'),
        ...BEHAVIOUR,
        ...LIFE_OPTIONS,
        reference('--owner <user>', 'whose it is (default: yours)', 'ownerId', 'user'),
        { ...field('--runtime <name>', 'what runs it', 'runtime'), choices: ['process', 'docker'] },
        field('--start', 'start it as soon as it is installed', 'start', 'boolean'),
        BODY_FILE,
        ...WAIT,
        IDEMPOTENCY,
      ],
      examples: [
        "panel servers create --name lobby --template 'Demo game' --disk 1G --port 25570 --start --wait",
        "panel servers create --name big --template 'Demo game' --node local --memory 2G --cpu 2 --disk 10G --env MAX_PLAYERS=32",
        'panel servers create -F lobby.yaml -o id',
      ],
      endpoints: ['servers.create'],
      exits: [6, 7, 8, 11, 12, 124],
      load: async () => (await import('./create.ts')).createServer,
    }),
    command({
      name: 'edit',
      summary: 'Edit a server',
      details:
        'Sizes, databases, address, mounts, boot order and startup line need admin.write; a new address needs a stopped server, and the ' +
        'ports that the template has at a distance from --port move with it. Memory and cores of a running server change at once where ' +
        "its node can. --env changes the named variables only; --mount names all mounts anew, and --mount '' takes them away.",
      arguments: [one('server')],
      options: [
        field('--name <name>', 'its name', 'name'),
        ...SIZES,
        ...ADDRESS,
        ...BEHAVIOUR,
        ...LIFE_OPTIONS,
        BODY_FILE,
      ],
      examples: ['panel servers edit demo --memory 512', "panel servers edit demo --env MOTD='hello all'"],
      endpoints: ['servers.update'],
      exits: [6, 7, 8],
      load: async () => (await import('./create.ts')).editServer,
    }),
    command({
      name: 'resize',
      summary: 'Change the disk limit of a server, also while it runs',
      details: 'It becomes no smaller than what the server uses. With --wait the command returns when its node has it.',
      arguments: [one('server')],
      options: [required(field('--disk <size>', 'the new limit: 10G', 'allocatedDiskMb', 'mib')), ...WAIT, IDEMPOTENCY],
      examples: ['panel servers resize demo --disk 20G', 'panel servers resize demo --disk 20G --wait'],
      endpoints: ['servers.resize_storage'],
      exits: [6, 7, 8, 11, 12, 124],
      load: async () => (await import('./resize.ts')).resizeServer,
    }),
    command({
      name: 'delete',
      summary: 'Delete a server and its files; on a node that is away, as soon as it is back',
      arguments: [one('server')],
      options: [
        ...DELETE.filter(({ flags }) => !flags.includes('--yes')),
        { flags: '--confirm <name>', summary: 'agree by the name of the server, in scripts' },
        { flags: '--force', summary: 'forget it at once, even if its node never comes back' },
        { flags: '--keep-files', summary: 'leave its files on the node' },
        ...WAIT,
      ],
      examples: ['panel servers delete lobby', 'panel servers delete lobby --confirm lobby --wait'],
      endpoints: ['servers.delete'],
      exits: [6, 7, 124],
      load: async () => (await import('./delete.ts')).deleteServer,
    }),
    ports,
    TRANSFER_OWNERSHIP,
    SSH_COMMAND,
    ...POWER_COMMANDS,
    ...BULK_COMMANDS,
    ...LIFE_COMMANDS,
    ...PIN_COMMANDS,
    command({
      name: 'wait',
      summary: 'Wait until servers are in a state',
      arguments: [several('server')],
      options: [
        {
          flags: '--for <condition>',
          summary: 'state=running, state=stopped,crashed, installed, or deleted',
          required: true,
        },
        { flags: '--timeout <duration>', summary: 'how long to wait (default 10m); exit 124 when it passes' },
      ],
      examples: [
        'panel servers wait demo --for state=running --timeout 2m',
        'panel servers wait lobby arena --for installed',
      ],
      exits: [3, 6, 11, 124],
      load: async () => (await import('./wait.ts')).waitForServers,
    }),
    command({
      name: 'stats',
      summary: 'Show what a server uses now',
      arguments: [several('server')],
      options: [{ flags: '-w, --watch', summary: 'show each report of one server as it comes' }],
      examples: [
        'panel servers stats demo',
        'panel servers stats demo --jq .memoryUsageMb',
        'panel servers stats demo --watch -o jsonl',
      ],
      endpoints: ['servers.stats', 'servers.metrics_stream'],
      exits: [3, 6, 9],
      load: async () => (await import('./actions.ts')).serverStats,
    }),
    command({
      name: 'events',
      summary: 'Follow the state and usage of a server, or of `all-servers`',
      arguments: [one('server')],
      options: [
        { flags: '--type <type>', summary: 'only these types', repeat: true },
        { flags: '--after-cursor <id>', summary: 'begin after this event' },
      ],
      examples: ['panel servers events demo', 'panel servers events all-servers --type server_state_update -o jsonl'],
      endpoints: ['servers.events'],
      exits: [6, 9],
      load: async () => (await import('../events/follow.ts')).serverEvents,
    }),
  ],
})
