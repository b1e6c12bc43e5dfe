import { type Command, command, type Noun, noun } from '../../kit/command.ts'
import { field, LIST, prose } from '../../kit/option-sets.ts'
import { DOWNLOAD } from '../../kit/resource/download-options.ts'

const actions = () => import('./profile-actions.ts')

/** What one sees and changes of one's own account. */
export const ownCommands: readonly (Command | Noun)[] = [
  command({
    name: 'view',
    summary: 'Show your account',
    examples: ['panel profile view', 'panel profile view --jq .twoFactorEnabled'],
    endpoints: ['profile.get'],
    load: async () => (await actions()).viewProfile,
  }),
  command({
    name: 'edit',
    summary: 'Change your user name or your name',
    options: [
      field('--username <name>', 'your user name', 'username'),
      prose('--first-name <name>', 'your first name', 'firstName'),
      prose('--last-name <name>', 'your last name', 'lastName'),
    ],
    examples: ['panel profile edit --first-name Eve --last-name Miller'],
    endpoints: ['profile.update'],
    exits: [7, 8],
    load: async () => (await actions()).editProfile,
  }),
  command({
    name: 'preferences',
    summary: 'Show your preferences, after setting or removing some',
    options: [
      {
        flags: '--set <name=value>',
        summary: 'set one; true, false and numbers are what they look like',
        repeat: true,
      },
      { flags: '--unset <name>', summary: 'remove one', repeat: true },
    ],
    examples: ['panel profile preferences', 'panel profile preferences --set theme=dark --unset density'],
    endpoints: ['profile.preferences'],
    exits: [8],
    load: async () => (await actions()).preferences,
  }),
  noun({
    name: 'avatar',
    summary: 'Your picture',
    group: 'Core',
    children: [
      command({
        name: 'set',
        summary: 'Set your picture: JPEG, PNG, GIF or WebP of 2 MiB at most',
        arguments: [{ name: 'file', summary: 'the picture' }],
        examples: ['panel profile avatar set me.png'],
        endpoints: ['profile.avatar_set'],
        exits: [8],
        load: async () => (await actions()).setAvatar,
      }),
      command({
        name: 'delete',
        summary: 'Remove your picture',
        examples: ['panel profile avatar delete'],
        endpoints: ['profile.avatar_delete'],
        load: async () => (await actions()).deleteAvatar,
      }),
      command({
        name: 'download',
        summary: 'Download the picture of an account',
        options: [{ flags: '--user <user>', summary: 'whose (default: yours)', ref: 'user' }, ...DOWNLOAD],
        examples: ['panel profile avatar download --out me.png'],
        endpoints: ['profile.avatar'],
        exits: [6],
        load: async () => (await actions()).downloadAvatar,
      }),
    ],
  }),
  command({
    name: 'api-keys',
    summary: 'List your own API keys, newest first',
    options: LIST,
    examples: ['panel profile api-keys'],
    endpoints: ['profile.api_keys'],
    load: async () => (await import('./own-lists.ts')).listOwnApiKeys,
  }),
  command({
    name: 'audit-log',
    summary: 'List what you did, newest first',
    options: LIST,
    examples: ['panel profile audit-log', 'panel profile audit-log --all -o csv'],
    endpoints: ['profile.audit_log'],
    load: async () => (await import('./own-lists.ts')).listOwnAudit,
  }),
  command({
    name: 'export',
    summary: 'Download everything that the panel has stored about you, as JSON',
    options: DOWNLOAD,
    examples: ['panel profile export --out me.json'],
    endpoints: ['profile.export'],
    load: async () => (await actions()).exportProfile,
  }),
  command({
    name: 'resend-verification',
    summary: 'Have the mail that confirms your e-mail address sent again',
    examples: ['panel profile resend-verification'],
    endpoints: ['auth.resend_verification'],
    exits: [9],
    load: async () => (await actions()).resendConfirmation,
  }),
  command({
    name: 'delete',
    summary: 'Delete your account; it must own no servers',
    options: [
      { flags: '--confirm <username>', summary: 'your user name, in the place of the question' },
      { flags: '--password-stdin', summary: 'read the password from stdin' },
    ],
    examples: ['panel profile delete', 'panel profile delete --confirm eve --password-stdin < password'],
    endpoints: ['profile.delete'],
    exits: [7, 9],
    load: async () => (await actions()).deleteAccount,
  }),
]
