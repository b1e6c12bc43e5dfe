import { command, noun } from '../../kit/command.ts'
import { BODY_FILE, DELETE, field, IDEMPOTENCY, LIST, one, prose, requiring } from '../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

const BODY = [
  field('--name <name>', 'its name', 'name'),
  prose('--description <text>', 'what it is for', 'description'),
  field('--permission <permission>', 'a permission of `panel permissions list`', 'permissions', 'list'),
  BODY_FILE,
]

const PERMISSION = {
  flags: '--permission <permission>',
  summary: 'as in `panel permissions list`',
  required: true,
} as const

export const roles = noun({
  name: 'roles',
  aliases: ['role'],
  summary: 'Named sets of permissions',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List roles by name',
      options: LIST,
      examples: ['panel roles list', 'panel roles list -o json'],
      endpoints: ['roles.list'],
      load: async () => (await actions()).listRoles,
    }),
    command({
      name: 'view',
      summary: 'Show a role with its members',
      arguments: [one('role')],
      examples: ['panel roles view support', 'panel roles view support --jq .permissions'],
      endpoints: ['roles.get'],
      exits: [6],
      load: async () => (await actions()).viewRole,
    }),
    command({
      name: 'presets',
      summary: 'List the sets of permissions that roles usually get',
      examples: ['panel roles presets'],
      endpoints: ['roles.presets'],
      load: async () => (await actions()).listPresets,
    }),
    command({
      name: 'create',
      summary: 'Create a role; only permissions that you hold yourself can be in it',
      options: [
        { flags: '--preset <name>', summary: 'begin with those of `panel roles presets`' },
        ...requiring(BODY, 'name'),
        IDEMPOTENCY,
      ],
      examples: [
        'panel roles create --name support --preset support',
        'panel roles create --name watch --permission server.read --permission console.read',
      ],
      endpoints: ['roles.create'],
      exits: [7, 8],
      load: async () => (await actions()).createRole,
    }),
    command({
      name: 'edit',
      summary: 'Edit a role; before and after it must not hold anything that you do not hold',
      arguments: [one('role')],
      options: BODY,
      examples: ['panel roles edit support --description "answers questions"'],
      endpoints: ['roles.update'],
      exits: [6, 7, 8],
      load: async () => (await actions()).editRole,
    }),
    command({
      name: 'delete',
      summary: 'Delete a role that nobody has',
      arguments: [one('role')],
      options: DELETE,
      examples: ['panel roles delete support --yes'],
      endpoints: ['roles.delete'],
      exits: [6, 7],
      load: async () => (await actions()).deleteRole,
    }),
    command({
      name: 'grant',
      summary: 'Put a permission that you hold into a role',
      arguments: [one('role')],
      options: [PERMISSION, IDEMPOTENCY],
      examples: ['panel roles grant support --permission file.read'],
      endpoints: ['roles.permission_add'],
      exits: [6, 7, 8],
      load: async () => (await actions()).grantPermission,
    }),
    command({
      name: 'revoke',
      summary: 'Take a permission out of a role',
      arguments: [one('role')],
      options: [PERMISSION],
      examples: ['panel roles revoke support --permission file.read'],
      endpoints: ['roles.permission_remove'],
      exits: [6, 7],
      load: async () => (await actions()).revokePermission,
    }),
    command({
      name: 'members',
      summary: 'Give a role to users, or take it from them',
      arguments: [one('role')],
      options: [
        { flags: '--add <user>', summary: 'who gets it', repeat: true, ref: 'user' },
        { flags: '--remove <user>', summary: 'who loses it', repeat: true, ref: 'user' },
        IDEMPOTENCY,
      ],
      examples: ['panel roles members support --add eve', 'panel roles members support --remove eve --remove bob'],
      endpoints: ['roles.member_add', 'roles.member_remove'],
      exits: [6, 7],
      load: async () => (await actions()).changeMembers,
    }),
    command({
      name: 'nodes',
      summary: 'List the nodes that are assigned to a role, by name',
      arguments: [one('role')],
      options: LIST,
      examples: ['panel roles nodes support'],
      endpoints: ['roles.nodes'],
      exits: [6],
      load: async () => (await actions()).roleNodes,
    }),
  ],
})
