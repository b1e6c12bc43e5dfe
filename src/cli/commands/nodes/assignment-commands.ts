import { command, type Option } from '../../kit/command.ts'
import { IDEMPOTENCY, LIST, one } from '../../kit/option-sets.ts'

const actions = () => import('./assignments.ts')

const NODE = { ...one('node'), optional: true } as const

const TARGET: readonly Option[] = [
  { flags: '--every', summary: 'every node, also those to come' },
  { flags: '--user <user>', summary: 'the user', ref: 'user' },
  { flags: '--role <role>', summary: 'the role', ref: 'role' },
]

/** The commands below `panel nodes` that are about assignments. */
export const ASSIGNMENT_COMMANDS = [
  command({
    name: 'assignments',
    summary: 'List to whom a node is assigned',
    arguments: [one('node')],
    options: LIST,
    examples: ['panel nodes assignments rack-2'],
    endpoints: ['nodes.assignments'],
    exits: [6],
    load: async () => (await actions()).nodeAssignments,
  }),
  command({
    name: 'assign',
    summary: 'Assign a node to a user or a role: all rights on its servers, and to create some there',
    details: 'You must hold those rights yourself, panel-wide or by an assignment that lasts as long.',
    arguments: [NODE],
    options: [...TARGET, { flags: '--expires <time>', summary: 'when it ends: 30d or a time' }, IDEMPOTENCY],
    examples: ['panel nodes assign rack-2 --user eve --expires 30d', 'panel nodes assign --every --role operators'],
    endpoints: ['nodes.assign', 'nodes.assign_wildcard'],
    exits: [6, 7, 8],
    load: async () => (await actions()).assignNode,
  }),
  command({
    name: 'unassign',
    summary: 'Take the assignment of a node back',
    arguments: [NODE],
    options: TARGET,
    examples: ['panel nodes unassign rack-2 --user eve', 'panel nodes unassign --every --role operators'],
    endpoints: ['nodes.unassign', 'nodes.unassign_wildcard'],
    exits: [6],
    load: async () => (await actions()).unassignNode,
  }),
]
