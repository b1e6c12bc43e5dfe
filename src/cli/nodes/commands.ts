import { command, noun } from '../command.ts'
import { BODY_FILE, DELETE, field, IDEMPOTENCY, LIST, one, reference, requiring, SEARCH, YES } from '../option-sets.ts'
import { ASSIGNMENT_COMMANDS } from './assignment-commands.ts'
import { orphans } from './orphan-commands.ts'

const actions = () => import('./actions.ts')

const BODY = [
  field('--name <name>', 'its name', 'name'),
  field('--description <text>', 'what it is', 'description'),
  reference('--location <location>', 'where it stands', 'locationId', 'location'),
  field('--hostname <name>', 'the name of the machine', 'hostname'),
  field('--address <host>', 'the address that players use', 'publicAddress'),
  field(
    '--default-ip <ip>',
    'the address that a server gets when none is chosen (default: the public one, or the first that the machine has)',
    'defaultIp',
  ),
  field('--memory <size>', 'what its servers may have together: 8G', 'maxMemoryMb', 'mib'),
  field('--cpu <cores>', 'the cores that its servers may have together', 'maxCpuCores', 'number'),
  field('--memory-overallocate <percent>', 'percent above that; -1 is no limit', 'memoryOverallocatePercent', 'int'),
  field('--cpu-overallocate <percent>', 'percent above that; -1 is no limit', 'cpuOverallocatePercent', 'int'),
  BODY_FILE,
]

export const nodes = noun({
  name: 'nodes',
  aliases: ['node'],
  summary: 'The machines that host servers',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List nodes by name',
      details: 'With -o wide the list also has what is given to servers and the number of running ones.',
      options: [
        SEARCH,
        reference('--location <location>', 'only those of this location', 'locationId', 'location'),
        ...LIST,
      ],
      examples: [
        'panel nodes list',
        'panel nodes list -o wide',
        "panel nodes list --jq '.[] | select(.isOnline | not) | .name'",
      ],
      endpoints: ['nodes.list', 'nodes.list_admin'],
      load: async () => (await actions()).listNodes,
    }),
    command({
      name: 'view',
      summary: 'Show a node with its servers',
      arguments: [one('node')],
      examples: ['panel nodes view local', 'panel nodes view local --json name,status'],
      endpoints: ['nodes.get'],
      exits: [6],
      load: async () => (await actions()).viewNode,
    }),
    command({
      name: 'accessible',
      summary: 'List the nodes that you may see, by name',
      options: [SEARCH, ...LIST],
      examples: ['panel nodes accessible'],
      endpoints: ['nodes.accessible'],
      load: async () => (await import('./assignments.ts')).accessibleNodes,
    }),
    ...ASSIGNMENT_COMMANDS,
    command({
      name: 'create',
      summary: 'Add a node; an agent enrols for it afterwards',
      options: [...requiring(BODY, 'name', 'location', 'memory', 'cpu'), IDEMPOTENCY],
      examples: ['panel nodes create --name rack-2 --location berlin --memory 32G --cpu 8 --address games.example.org'],
      endpoints: ['nodes.create'],
      exits: [6, 7, 8],
      load: async () => (await actions()).createNode,
    }),
    command({
      name: 'edit',
      summary: 'Edit a node',
      arguments: [one('node')],
      options: BODY,
      examples: ['panel nodes edit rack-2 --memory 64G'],
      endpoints: ['nodes.update'],
      exits: [6, 7, 8],
      load: async () => (await actions()).editNode,
    }),
    command({
      name: 'delete',
      summary: 'Delete a node that has no servers, with its keys and allocations',
      arguments: [one('node')],
      options: DELETE,
      examples: ['panel nodes delete rack-2 --yes'],
      endpoints: ['nodes.delete'],
      exits: [6, 7],
      load: async () => (await actions()).deleteNode,
    }),
    command({
      name: 'stats',
      summary: 'Show what a node has, has given away and uses',
      arguments: [one('node')],
      options: [{ flags: '-w, --watch', summary: 'show each report of its agent as it comes' }],
      examples: [
        'panel nodes stats local',
        'panel nodes stats local --jq .resources.actualCpuPercent',
        'panel nodes stats local --watch -o jsonl',
      ],
      endpoints: ['nodes.stats', 'nodes.metrics_stream'],
      exits: [6, 9],
      load: async () => (await actions()).nodeStats,
    }),
    command({
      name: 'enroll-token',
      summary: 'Make a one-time enrolment token for an agent',
      details:
        'The token alone is printed; what to run on the machine stands on stderr. It works once, until it expires.',
      arguments: [one('node')],
      options: [
        field('--ttl <duration>', 'how long it can be used (default 1h)', 'ttlSeconds', 'seconds'),
        IDEMPOTENCY,
      ],
      examples: [
        'panel nodes enroll-token rack-2 --ttl 15m',
        'panel nodes enroll-token rack-2 | ssh rack-2 panel agent enroll --token-stdin --url https://panel.example.org',
      ],
      endpoints: ['nodes.deployment_token'],
      exits: [6, 8],
      load: async () => (await actions()).enrollToken,
    }),
    command({
      name: 'key',
      summary: 'Show whether a node has a key',
      arguments: [one('node')],
      examples: ['panel nodes key rack-2'],
      endpoints: ['nodes.key_get'],
      exits: [6],
      load: async () => (await actions()).nodeKey,
    }),
    command({
      name: 'rotate-key',
      summary: 'Make or rotate the key of a node; the old one stops at once',
      arguments: [one('node')],
      options: [YES, IDEMPOTENCY],
      examples: ['panel nodes rotate-key rack-2 --yes'],
      endpoints: ['nodes.key_create'],
      exits: [6],
      load: async () => (await actions()).rotateKey,
    }),
    command({
      name: 'revoke-key',
      summary: 'Revoke the key of a node; its agent is cut off at once',
      arguments: [one('node')],
      options: DELETE,
      examples: ['panel nodes revoke-key rack-2 --yes'],
      endpoints: ['nodes.key_delete'],
      exits: [6],
      load: async () => (await actions()).revokeKey,
    }),
    orphans,
  ],
})
