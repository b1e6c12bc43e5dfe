import { command, noun } from '../../kit/command.ts'
import { field, IDEMPOTENCY, one, reference, YES } from '../../kit/option-sets.ts'

const actions = () => import('./orphans.ts')

const SERVER = { name: 'server', summary: 'its id on the node' } as const

/** What nodes have of servers that the panel has no record of. */
export const orphans = noun({
  name: 'orphans',
  aliases: ['orphan'],
  summary: 'What nodes have of servers that the panel has no record of',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List what a node has of servers that the panel has no record of',
      details:
        'Such servers are left after a database was restored from a copy, folders after a deletion that kept the files. ' +
        'What runs goes on running, and is listed first.',
      arguments: [one('node')],
      examples: ['panel nodes orphans list rack-2'],
      endpoints: ['nodes.orphans'],
      exits: [6, 12],
      load: async () => (await actions()).listOrphans,
    }),
    command({
      name: 'adopt',
      summary: 'Make a server of what a node has',
      details:
        'Name, sizes, address and variables are those that the node knows. What could not be taken over is said, and what the ' +
        'template does otherwise than the node until now: how the server is stopped, when it is ready, where it listens, how ' +
        'it is installed.',
      arguments: [one('node'), SERVER],
      options: [
        field('--name <name>', 'another name', 'name'),
        reference('--template <template>', 'its template, where the node does not know it', 'templateId', 'template'),
        reference('--owner <user>', 'whose it is (default: yours)', 'ownerId', 'user'),
        IDEMPOTENCY,
      ],
      examples: ['panel nodes orphans adopt rack-2 srv_01k3v4n5w6x7y8z9a0b1c2d3e4 --owner eve'],
      endpoints: ['nodes.orphan_adopt'],
      exits: [6, 7, 8, 12],
      load: async () => (await actions()).adoptOrphan,
    }),
    command({
      name: 'purge',
      summary: 'End the processes of what a node has of a server, and delete its files',
      arguments: [one('node'), SERVER],
      options: [YES, IDEMPOTENCY],
      examples: ['panel nodes orphans purge rack-2 srv_01k3v4n5w6x7y8z9a0b1c2d3e4 --yes'],
      endpoints: ['nodes.orphan_purge'],
      exits: [6, 7, 12],
      load: async () => (await actions()).purgeOrphan,
    }),
  ],
})
