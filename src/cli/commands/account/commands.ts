import { command, noun } from '../../kit/command.ts'
import { LIST, YES } from '../../kit/option-sets.ts'
import { ownCommands } from './own-commands.ts'
import { passkeys } from './passkey-commands.ts'
import { sshKeys } from './ssh-key-commands.ts'
import { sso } from './sso-commands.ts'
import { twoFactor } from './two-factor-commands.ts'

const actions = () => import('./actions.ts')

export const profile = noun({
  name: 'profile',
  summary: 'Your own account',
  group: 'Core',
  children: [
    ...ownCommands,
    twoFactor,
    passkeys,
    sshKeys,
    sso,
    command({
      name: 'password',
      summary: 'Change your password, or give yourself one',
      details:
        'With --password-stdin the first line is the new password; with --current-password-file the old one stands in a file.',
      options: [
        { flags: '--set', summary: 'there is no password yet' },
        { flags: '--password-stdin', summary: 'read the new password from stdin' },
        { flags: '--current-password-file <file>', summary: 'the file with the present password' },
        { flags: '--sign-out-others', summary: 'end all other sessions' },
      ],
      examples: ['panel profile password', 'panel profile password --set --password-stdin < password'],
      endpoints: ['auth.password_change', 'auth.password_set'],
      exits: [7, 8, 9],
      load: async () => (await actions()).changePassword,
    }),
    noun({
      name: 'sessions',
      aliases: ['session'],
      summary: 'Where you are signed in',
      group: 'Core',
      children: [
        command({
          name: 'list',
          summary: 'List your sessions, newest first',
          options: LIST,
          examples: ['panel profile sessions list'],
          endpoints: ['auth.sessions'],
          load: async () => (await actions()).listSessions,
        }),
        command({
          name: 'revoke',
          summary: 'End one of your sessions, or with --others all but the one that makes this call',
          arguments: [{ name: 'session', summary: 'its id', optional: true }],
          options: [{ flags: '--others', summary: 'all but this one' }, YES],
          examples: [
            'panel profile sessions revoke ses_01k3v4n5w6x7y8z9a0b1c2d3e4',
            'panel profile sessions revoke --others',
          ],
          endpoints: ['auth.session_revoke', 'auth.sessions_revoke'],
          exits: [6],
          load: async () => (await actions()).revokeSession,
        }),
      ],
    }),
  ],
})
