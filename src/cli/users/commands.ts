import { command, noun } from '../command.ts'
import { BODY_FILE, field, IDEMPOTENCY, LIST, one, reference, SEARCH } from '../option-sets.ts'

const actions = () => import('./actions.ts')

export const users = noun({
  name: 'users',
  aliases: ['user'],
  summary: 'Accounts',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List accounts, newest first',
      options: [
        SEARCH,
        reference('--role <role>', 'only those with this role', 'roleId', 'role'),
        { flags: '--banned', summary: 'only those that are banned' },
        ...LIST,
      ],
      examples: ['panel users list', 'panel users list --role Administrator -o csv'],
      endpoints: ['users.list'],
      load: async () => (await actions()).listUsers,
    }),
    command({
      name: 'view',
      summary: 'Show an account',
      arguments: [one('user')],
      examples: ['panel users view admin', 'panel users view admin --jq .permissions'],
      endpoints: ['users.get'],
      exits: [6],
      load: async () => (await actions()).viewUser,
    }),
    command({
      name: 'create',
      summary: 'Create an account; giving roles needs user.set_roles, and only what you hold yourself can be given',
      options: [
        field('--email <address>', 'its e-mail address', 'email'),
        field('--username <name>', '3 to 32 letters, digits, _ or -', 'username'),
        field('--first-name <name>', 'first name', 'firstName'),
        field('--last-name <name>', 'last name', 'lastName'),
        { ...reference('--role <role>', 'a role that it has', 'roleIds', 'role'), repeat: true },
        { flags: '--password-stdin', summary: 'read the password from stdin' },
        { flags: '--secret-file <file>', summary: 'read the password from a file' },
        BODY_FILE,
        IDEMPOTENCY,
      ],
      examples: ['panel users create --email eve@example.org --username eve --role User --password-stdin < password'],
      endpoints: ['users.create'],
      exits: [6, 7, 8],
      load: async () => (await actions()).createUser,
    }),
  ],
})
