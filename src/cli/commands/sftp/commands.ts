import { command, noun, type Option } from '../../kit/command.ts'
import { DELETE, IDEMPOTENCY, LIST, one, YES } from '../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

const TTL: Option = { flags: '--ttl <duration>', summary: 'how long the token is good: 1m to 365d (default 5m)' }

export const sftp = noun({
  name: 'sftp',
  summary: 'Files and consoles of servers over SSH: where, tokens, and who is in',
  group: 'Core',
  children: [
    command({
      name: 'info',
      summary: 'Show how the files of a server are reached by SFTP, with a fresh token as password',
      details:
        'The password is a token for you and this server, shown this once. SSH keys (panel profile ssh-keys) need none; the password of an account does as long as it has no second factor and no identity provider.',
      arguments: [one('server')],
      options: [TTL, { flags: '--no-token', summary: 'make no token' }],
      examples: ['panel sftp info demo', 'panel sftp info demo --ttl 30d -o json'],
      endpoints: ['sftp.info'],
      exits: [6, 7],
      load: async () => (await actions()).showInfo,
    }),
    command({
      name: 'rotate',
      summary: 'Replace your tokens of a server by a new one; sessions that came in by them end',
      arguments: [one('server')],
      options: [TTL, YES, IDEMPOTENCY],
      examples: ['panel sftp rotate demo --ttl 90d --yes'],
      endpoints: ['sftp.rotate'],
      exits: [6, 7],
      load: async () => (await actions()).rotateToken,
    }),
    command({
      name: 'tokens',
      summary: 'List the tokens of a server that are good now: all with server.users, else your own',
      arguments: [one('server')],
      examples: ['panel sftp tokens demo'],
      endpoints: ['sftp.tokens'],
      exits: [6],
      load: async () => (await actions()).listTokens,
    }),
    command({
      name: 'revoke',
      summary: "Revoke a user's tokens of a server, or with --all everybody's; sessions that came in by them end",
      arguments: [one('server')],
      options: [
        { flags: '--user <user>', summary: 'whose (default: yours)', ref: 'user' },
        { flags: '--all', summary: "everybody's" },
        ...DELETE,
      ],
      examples: ['panel sftp revoke demo --user eve --yes', 'panel sftp revoke demo --all --yes'],
      endpoints: ['sftp.revoke_user', 'sftp.revoke'],
      exits: [6],
      load: async () => (await actions()).revokeTokens,
    }),
    command({
      name: 'sessions',
      summary: 'List who is in over SSH: all with server.users, else your own sessions',
      arguments: [one('server')],
      options: LIST,
      examples: ['panel sftp sessions demo'],
      endpoints: ['sftp.sessions'],
      exits: [6],
      load: async () => (await actions()).listSessions,
    }),
    command({
      name: 'end',
      summary: 'End a session',
      arguments: [{ name: 'session', summary: 'an id of `panel sftp sessions`' }],
      options: DELETE,
      examples: ['panel sftp end sfs_01k3v4n5w6x7y8z9a0b1c2d3e4 --yes'],
      endpoints: ['sftp.end_session'],
      exits: [6],
      load: async () => (await actions()).endSession,
    }),
  ],
})

/** The command below `panel servers` that prints what to type. */
export const SSH_COMMAND = command({
  name: 'ssh-command',
  summary: 'Print the command that opens the console of a server over SSH, or with --sftp its files',
  arguments: [one('server')],
  options: [{ flags: '--sftp', summary: 'the command for the files' }],
  examples: ['panel servers ssh-command demo', '$(panel servers ssh-command demo --sftp)'],
  exits: [6, 7],
  load: async () => (await actions()).printSshCommand,
})
