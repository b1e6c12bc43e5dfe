import { command, type Option } from '../../kit/command.ts'
import { IDEMPOTENCY } from '../../kit/option-sets.ts'

const actions = () => import('./recovery.ts')

const PASSWORD: Option = { flags: '--password-stdin', summary: 'read the password from stdin' }
const TOKEN: Option = { flags: '--token-stdin', summary: 'read the token from stdin' }

/** How people come to an account, and back to it. */
export const recoveryCommands = [
  command({
    name: 'register',
    summary: 'Create an account for yourself, where the administrators allow it',
    options: [
      { flags: '--email <address>', summary: 'your e-mail address' },
      { flags: '--username <name>', summary: 'your user name' },
      PASSWORD,
      { flags: '--name <name>', summary: 'the name of the context (default: the host)' },
      {
        flags: '--store <store>',
        summary: 'where the credential is kept (default file)',
        choices: ['file', 'keyring'],
      },
      IDEMPOTENCY,
    ],
    examples: ['panel auth register --url https://panel.example.org'],
    endpoints: ['auth.register'],
    exits: [7, 8],
    load: async () => (await actions()).register,
  }),
  command({
    name: 'forgot-password',
    summary: 'Have a mail with the means to set a new password sent; the answer is the same for every address',
    arguments: [{ name: 'email', summary: 'the e-mail address of the account' }],
    examples: ['panel auth forgot-password eve@example.org --url https://panel.example.org'],
    endpoints: ['auth.forgot_password'],
    exits: [8],
    load: async () => (await actions()).forgotPassword,
  }),
  command({
    name: 'reset-password',
    summary: 'Set a new password with the token that came by mail; it works once and ends all sessions',
    details:
      'With --token-stdin and --password-stdin the token is the first line of stdin and the password the second.',
    options: [TOKEN, PASSWORD, IDEMPOTENCY],
    examples: ['panel auth reset-password --url https://panel.example.org'],
    endpoints: ['auth.reset_validate', 'auth.reset_password'],
    exits: [8],
    load: async () => (await actions()).resetPassword,
  }),
  command({
    name: 'verify-email',
    summary: 'Confirm an e-mail address with the token that was sent to it',
    options: [TOKEN],
    examples: ['panel auth verify-email --url https://panel.example.org'],
    endpoints: ['auth.verify_email'],
    exits: [8],
    load: async () => (await actions()).verifyEmail,
  }),
]
