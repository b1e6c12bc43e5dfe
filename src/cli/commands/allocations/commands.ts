import { command, noun, type Option } from '../../kit/command.ts'
import { DELETE, field, IDEMPOTENCY, LIST, prose, reference, required, SEARCH } from '../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

const NODE: Option = {
  flags: '--node <node>',
  summary: 'the node: id, beginning of the id, or name',
  required: true,
  ref: 'node',
}
const WHICH = { name: 'allocation', summary: 'its id, its ip:port, or its port when only one address has it' }
const NOTES = [prose('--alias <name>', 'the name that players see', 'alias'), prose('--note <text>', 'a note', 'notes')]

export const allocations = noun({
  name: 'allocations',
  aliases: ['allocation'],
  summary: 'Addresses and ports of nodes',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List the allocations of a node by address and port',
      options: [
        NODE,
        SEARCH,
        reference('--server <server>', 'only those of this server', 'serverId', 'server'),
        { flags: '--assigned', summary: 'only those that a server has' },
        { flags: '--free', summary: 'only those that no server has' },
        ...LIST,
      ],
      examples: ['panel allocations list --node local', 'panel allocations list --node local --free -o csv'],
      endpoints: ['allocations.list'],
      exits: [6],
      load: async () => (await actions()).listAllocations,
    }),
    command({
      name: 'add',
      aliases: ['create'],
      summary: 'Add addresses and ports to a node; those that exist are left as they are',
      options: [
        NODE,
        required(field('--ip <addresses>', 'addresses or CIDR ranges: 10.0.0.4 or 10.0.0.0/29', 'ip')),
        required(field('--ports <ports>', 'ports and ranges: 25565,25570-25580', 'ports')),
        ...NOTES,
        IDEMPOTENCY,
      ],
      examples: ['panel allocations add --node local --ip 127.0.0.1 --ports 25565-25575'],
      endpoints: ['allocations.create'],
      exits: [6, 8],
      load: async () => (await actions()).addAllocations,
    }),
    command({
      name: 'edit',
      summary: 'Edit the alias and notes of an allocation',
      arguments: [WHICH],
      options: [NODE, ...NOTES],
      examples: ['panel allocations edit 127.0.0.1:25565 --node local --alias play.example.org'],
      endpoints: ['allocations.update'],
      exits: [6, 8],
      load: async () => (await actions()).editAllocation,
    }),
    command({
      name: 'remove',
      aliases: ['delete'],
      summary: 'Remove an allocation that no server uses',
      arguments: [WHICH],
      options: [NODE, ...DELETE],
      examples: ['panel allocations remove 25570 --node local --yes'],
      endpoints: ['allocations.delete'],
      exits: [6, 7],
      load: async () => (await actions()).removeAllocation,
    }),
  ],
})
