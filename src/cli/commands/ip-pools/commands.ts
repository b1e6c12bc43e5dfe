import { command, noun } from '../../kit/command.ts'
import {
  BODY_FILE,
  DELETE,
  field,
  IDEMPOTENCY,
  LIST,
  one,
  reference,
  required,
  requiring,
  SEARCH,
} from '../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

const RANGE = [
  field('--cidr <network>', 'its addresses: 10.0.0.0/24 or 2001:db8::/64', 'cidr'),
  field('--gateway <ip>', 'the gateway; it is never given out', 'gateway'),
  field('--start <ip>', 'the first address that is given out (default: that of the network)', 'startIp'),
  field('--end <ip>', 'the last address that is given out (default: that of the network)', 'endIp'),
  field('--reserve <ips>', 'addresses that are never given out, with commas between them', 'reserved', 'list'),
  BODY_FILE,
]

export const ipPools = noun({
  name: 'ip-pools',
  aliases: ['ip-pool'],
  summary: 'Networks of nodes whose addresses are given to servers',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List IP pools by node and network',
      options: [SEARCH, reference('--node <node>', 'only those of this node', 'nodeId', 'node'), ...LIST],
      examples: ['panel ip-pools list', 'panel ip-pools list --node local --json networkName,availableCount'],
      endpoints: ['ip_pools.list'],
      exits: [6],
      load: async () => (await actions()).listPools,
    }),
    command({
      name: 'view',
      summary: 'Show an IP pool',
      arguments: [one('ipPool', 'pool')],
      examples: ['panel ip-pools view lan', 'panel ip-pools view lan -o json'],
      endpoints: ['ip_pools.get'],
      exits: [6],
      load: async () => (await actions()).viewPool,
    }),
    command({
      name: 'create',
      summary: 'Create an IP pool on a node',
      details:
        'Servers that are created with --network get an address of it. The panel gives addresses out; it does not set them up on the ' +
        'node: a server can only start where its address is.',
      options: [
        required(reference('--node <node>', 'the node', 'nodeId', 'node')),
        required(field('--network <name>', 'the name that servers ask for it by', 'networkName')),
        ...requiring(RANGE, 'cidr'),
        IDEMPOTENCY,
      ],
      examples: [
        'panel ip-pools create --node local --network lan --cidr 10.0.0.0/24 --gateway 10.0.0.1 --reserve 10.0.0.2,10.0.0.3',
        'panel ip-pools create --node local --network lan6 --cidr 2001:db8::/64 --start 2001:db8::100',
      ],
      endpoints: ['ip_pools.create'],
      exits: [6, 7, 8],
      load: async () => (await actions()).createPool,
    }),
    command({
      name: 'edit',
      summary: 'Edit an IP pool; no address that a server has may fall out of it',
      details: '--reserve names all reserved addresses anew. In a file, null takes gateway, startIp or endIp away.',
      arguments: [one('ipPool', 'pool')],
      options: RANGE,
      examples: ['panel ip-pools edit lan --end 10.0.0.99', 'panel ip-pools edit lan -F lan.yaml'],
      endpoints: ['ip_pools.update'],
      exits: [6, 7, 8],
      load: async () => (await actions()).editPool,
    }),
    command({
      name: 'delete',
      summary: 'Delete an IP pool of which no server has an address',
      arguments: [one('ipPool', 'pool')],
      options: DELETE,
      examples: ['panel ip-pools delete lan --yes'],
      endpoints: ['ip_pools.delete'],
      exits: [6, 7],
      load: async () => (await actions()).deletePool,
    }),
    command({
      name: 'usage',
      summary: 'List the addresses of an IP pool that servers have',
      arguments: [one('ipPool', 'pool')],
      options: LIST,
      examples: ['panel ip-pools usage lan', 'panel ip-pools usage lan --all -o csv'],
      endpoints: ['ip_pools.allocations'],
      exits: [6],
      load: async () => (await actions()).poolUsage,
    }),
    command({
      name: 'next',
      summary: 'Show the next free addresses of an IP pool',
      arguments: [one('ipPool', 'pool')],
      options: [{ flags: '--count <n>', summary: 'how many (default 1)' }],
      examples: ['panel ip-pools next lan', 'panel ip-pools next lan --count 5'],
      endpoints: ['nodes.ip_availability'],
      exits: [6, 7],
      load: async () => (await actions()).nextAddresses,
    }),
    command({
      name: 'networks',
      summary: 'List the networks of a node and how many addresses are free there',
      arguments: [one('node')],
      options: LIST,
      examples: ['panel ip-pools networks local'],
      endpoints: ['nodes.ip_pools'],
      exits: [6],
      load: async () => (await actions()).networksOfNode,
    }),
  ],
})
