import { command, noun, type Option } from '../../kit/command.ts'
import { DELETE, IDEMPOTENCY, LIST, one, YES } from '../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

const RIGHTS: readonly Option[] = [
  { flags: '--permission <permission>', summary: 'a permission such as console.read', repeat: true },
  { flags: '--preset <name>', summary: 'readOnly, power or full' },
]

const FILE_PATHS: readonly Option[] = [
  {
    flags: '--allow-path <pattern>',
    summary: 'reach these files alone, as .gitignore has them: plugins/',
    repeat: true,
  },
  {
    flags: '--deny-path <pattern>',
    summary: 'do not reach these files, among those that are allowed: *.key',
    repeat: true,
  },
]

const TOKEN: readonly Option[] = [
  { flags: '--token-stdin', summary: 'read the token from stdin' },
  { flags: '--token-file <file>', summary: 'read the token from a file' },
]

export const access = noun({
  name: 'access',
  summary: 'Who beside its owner may do what with a server',
  group: 'Core',
  children: [
    command({
      name: 'list',
      summary: 'List the members of a server, who is not its owner',
      arguments: [one('server')],
      options: LIST,
      examples: ['panel access list demo', 'panel access list demo -o json'],
      endpoints: ['access.list'],
      exits: [6],
      load: async () => (await actions()).listAccess,
    }),
    command({
      name: 'presets',
      summary: 'List the sets of permissions that members of a server usually get',
      examples: ['panel access presets'],
      endpoints: ['access.presets'],
      load: async () => (await actions()).listPresets,
    }),
    command({
      name: 'grant',
      aliases: ['edit'],
      summary: 'Give a user permissions on a server, in place of those they had',
      details:
        'Only what you hold on the server yourself can be given, and not for longer than you hold it. Patterns of paths hold for files, on every way to them; without any the user stays held to those that they were.',
      arguments: [one('server')],
      options: [
        { flags: '--user <user>', summary: 'who gets it: id, or name with user.read', required: true, ref: 'user' },
        ...RIGHTS,
        ...FILE_PATHS,
        { flags: '--all-paths', summary: 'reach all files again' },
        { flags: '--expires <time>', summary: 'when it ends: 2h, 30d or a time' },
        IDEMPOTENCY,
      ],
      examples: [
        'panel access grant demo --user eve --preset power',
        'panel access grant demo --user eve --permission server.read --permission console.read --expires 2h',
        'panel access grant demo --user eve --preset full --allow-path plugins/ --deny-path "*.key"',
      ],
      endpoints: ['access.set'],
      exits: [6, 7, 8],
      load: async () => (await actions()).grantAccess,
    }),
    command({
      name: 'revoke',
      summary: 'Revoke the permissions of a user on a server; open streams end',
      arguments: [one('server')],
      options: [
        { flags: '--user <user>', summary: 'whose; your own is always possible', required: true, ref: 'user' },
        ...DELETE,
      ],
      examples: ['panel access revoke demo --user eve --yes'],
      endpoints: ['access.remove'],
      exits: [6, 7],
      load: async () => (await actions()).revokeAccess,
    }),
  ],
})

export const invites = noun({
  name: 'invites',
  aliases: ['invite'],
  summary: 'Invitations to servers',
  group: 'Core',
  children: [
    command({
      name: 'list',
      summary: 'List the open invitations to a server, newest first',
      arguments: [one('server')],
      options: LIST,
      examples: ['panel invites list demo'],
      endpoints: ['invites.list'],
      exits: [6],
      load: async () => (await actions()).listInvites,
    }),
    command({
      name: 'create',
      summary: 'Invite somebody to a server by mail',
      details: 'Without a mail server the token is printed, alone on stdout and this once: hand it over yourself.',
      arguments: [one('server')],
      options: [
        { flags: '--email <address>', summary: 'who is invited', required: true },
        ...RIGHTS,
        ...FILE_PATHS,
        { flags: '--expires <duration>', summary: 'how long it can be accepted (default 7d)' },
        IDEMPOTENCY,
      ],
      examples: ['panel invites create demo --email eve@example.org --preset readOnly'],
      endpoints: ['invites.create'],
      exits: [6, 7, 8],
      load: async () => (await actions()).createInvite,
    }),
    command({
      name: 'cancel',
      summary: 'Cancel an invitation to a server',
      arguments: [one('server')],
      options: [{ flags: '--invite <id>', summary: 'which: an id of `panel invites list`', required: true }, ...DELETE],
      examples: ['panel invites cancel demo --invite inv_01k3v4n5w6x7y8z9a0b1c2d3e4'],
      endpoints: ['invites.cancel'],
      exits: [6],
      load: async () => (await actions()).cancelInvite,
    }),
    command({
      name: 'view',
      summary: 'Show what an invitation is to, by its token',
      options: TOKEN,
      examples: ['panel invites view --token-stdin < token'],
      endpoints: ['invites.get'],
      exits: [6, 7],
      load: async () => (await actions()).viewInvite,
    }),
    command({
      name: 'accept',
      summary: 'Accept an invitation to a server with your account',
      options: [...TOKEN, IDEMPOTENCY],
      examples: ['panel invites accept --token-stdin < token'],
      endpoints: ['invites.accept'],
      exits: [6, 7],
      load: async () => (await actions()).acceptInvite,
    }),
    command({
      name: 'register',
      summary: 'Accept an invitation to a server with a new account, and sign in',
      options: [
        ...TOKEN,
        { flags: '--username <name>', summary: '3 to 32 letters, digits, _ or -' },
        { flags: '--password-stdin', summary: 'read the password from stdin' },
        { flags: '--password-file <file>', summary: 'read the password from a file' },
        { flags: '--name <context>', summary: 'the name of the context (default: the host)' },
        IDEMPOTENCY,
      ],
      examples: ['panel invites register --url https://panel.example.org --username eve --token-file token'],
      endpoints: ['invites.register'],
      exits: [6, 7, 8],
      load: async () => (await actions()).registerByInvite,
    }),
  ],
})

/** The command below `panel servers` that gives one away. */
export const TRANSFER_OWNERSHIP = command({
  name: 'transfer-ownership',
  summary: 'Give a server to another owner; for its owner, and for admin.write with all rights on it',
  arguments: [one('server')],
  options: [
    { flags: '--to <user>', summary: 'the new owner: id, or name with user.read', required: true, ref: 'user' },
    YES,
    IDEMPOTENCY,
  ],
  examples: ['panel servers transfer-ownership demo --to eve --yes'],
  endpoints: ['servers.transfer_ownership'],
  exits: [6, 8],
  load: async () => (await actions()).transferOwnership,
})
