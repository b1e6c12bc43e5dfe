import { command, noun, type Option } from '../../kit/command.ts'
import { one } from '../../kit/option-sets.ts'
import { BROWSER } from './browser-options.ts'
import { recoveryCommands } from './recovery-commands.ts'

const STORE: Option = {
  flags: '--store <store>',
  summary: 'where the credential is kept (default file)',
  choices: ['file', 'keyring'],
}
const NAME: Option = { flags: '--name <name>', summary: 'the name of the context (default: the host)' }

export const login = command({
  name: 'login',
  summary: 'Sign in by e-mail address and password, by an identity provider, or with an API key',
  details:
    'A sign-in by password makes an API key cli@<host> that works for 30 days; `panel logout` revokes it. An account that may ' +
    'not make keys keeps a session instead. With two-factor sign-in the code, or a recovery code, is asked for, or read from ' +
    'stdin or PANEL_TOTP. With --web an identity provider of the panel signs you in, in a browser on this machine; BROWSER ' +
    'names the program that opens it.',
  arguments: [{ name: 'url', summary: 'the panel (default: the one in force)', optional: true }],
  options: [
    { flags: '--token-stdin', summary: 'read an API key from stdin' },
    { flags: '--username <name>', summary: 'user name or e-mail address' },
    { flags: '--password-stdin', summary: 'read the password from stdin' },
    { flags: '--totp-stdin', summary: 'read the code of two-factor sign-in from stdin, below the password' },
    { flags: '--web', summary: 'sign in by an identity provider, in a browser on this machine' },
    { flags: '--provider <id>', summary: 'which one (default: the only one there is)' },
    ...BROWSER,
    NAME,
    STORE,
  ],
  examples: [
    'panel login https://panel.example.org',
    'panel login http://127.0.0.1:7420 --token-stdin < key',
    'panel login https://panel.example.org --username eve --password-stdin < password',
    'panel login https://panel.example.org --web --provider corp',
  ],
  endpoints: ['auth.login', 'two_factor.verify_backup_code', 'sso.sign_in', 'sso.exchange'],
  exits: [6, 7, 8, 9, 11, 124],
  group: 'Core',
  load: async () => (await import('./login.ts')).login,
})

export const logout = command({
  name: 'logout',
  summary: 'End the session, or revoke the API key, that makes this call',
  details:
    'The credential of the context is revoked and forgotten; the context stays. The key of `panel up` belongs to its data ' +
    'folder: it is forgotten only, and the next `panel up` brings it back, also while one runs.',
  examples: ['panel logout', 'panel logout --context staging'],
  endpoints: ['auth.logout'],
  group: 'Core',
  load: async () => (await import('./login.ts')).logout,
})

export const whoami = command({
  name: 'whoami',
  summary: 'Show who is signed in',
  examples: ['panel whoami', 'panel whoami --jq .username'],
  endpoints: ['auth.me'],
  group: 'Core',
  load: async () => (await import('./auth.ts')).whoami,
})

export const setup = command({
  name: 'setup',
  summary: 'Create the first administrator; works once, with the setup token that the daemon printed',
  details:
    '`panel setup status` shows whether it still has to be done. The token comes by --setup-token-file or PANEL_SETUP_TOKEN. ' +
    'The context that talks to this panel is made as by `panel login`.',
  arguments: [{ name: 'what', summary: 'status, or nothing', optional: true, choices: ['status'] }],
  options: [
    { flags: '--admin-email <address>', summary: 'the e-mail address of the administrator', fills: 'email' },
    { flags: '--admin-username <name>', summary: 'the user name of the administrator', fills: 'username' },
    { flags: '--password-stdin', summary: 'read the password from stdin' },
    { flags: '--setup-token-file <file>', summary: 'the file with the setup token' },
    { flags: '--panel-name <name>', summary: 'the name of the panel' },
    { flags: '--locale <tag>', summary: 'the language of the panel (default en)' },
    NAME,
    STORE,
  ],
  examples: [
    'panel setup status --url http://127.0.0.1:7420',
    'panel setup --url http://127.0.0.1:7420 --admin-email me@example.org --admin-username admin --setup-token-file token',
  ],
  endpoints: ['setup.status', 'setup.complete'],
  exits: [7, 8],
  group: 'Host',
  load: async () => (await import('./setup.ts')).setup,
})

export const auth = noun({
  name: 'auth',
  summary: 'The credential in force',
  group: 'Core',
  children: [
    ...recoveryCommands,
    command({
      name: 'status',
      summary: 'Show the panel, the account and the credential in force',
      examples: ['panel auth status', 'panel auth status -o json'],
      load: async () => (await import('./auth.ts')).authStatus,
    }),
    command({
      name: 'token',
      summary: 'Print the credential in force, for scripts',
      examples: ['curl -H "Authorization: Bearer $(panel auth token)" http://127.0.0.1:7420/api/servers'],
      load: async () => (await import('./auth.ts')).authToken,
    }),
    command({
      name: 'refresh',
      summary: "Put a new API key in the place of the context's; the old one goes on working for a while",
      details:
        'The new key has the rights, limits and lifetime of the old one. With --scopes it has fewer rights; it never has more.',
      options: [
        {
          flags: '--scopes <permissions>',
          summary: 'the permissions that it has instead: server.read,console.read',
          repeat: true,
        },
        { flags: '--overlap <duration>', summary: 'how long the old key works yet (default 1h); 0 revokes it at once' },
        {
          flags: '--expires <duration>',
          summary: 'how long the new key works: 30d (default: as long as the old one did)',
        },
      ],
      examples: [
        'panel auth refresh',
        'panel auth refresh --overlap 0',
        'panel auth refresh --scopes server.read,console.read',
      ],
      exits: [8],
      load: async () => (await import('./refresh.ts')).refresh,
    }),
    command({
      name: 'can-i',
      summary: 'Check whether the credential in force has a permission; exit 5 when not',
      arguments: [{ name: 'permission', summary: 'as in `panel permissions list`' }],
      options: [
        { flags: '--server <server>', summary: 'on this server', ref: 'server' },
        { flags: '--why', summary: 'say by which role, grant, assignment or ownership, and which key withholds it' },
      ],
      examples: [
        'panel auth can-i server.create',
        'panel auth can-i console.write --server demo && echo yes',
        'panel auth can-i console.write --server demo --why',
      ],
      exits: [6],
      load: async () => (await import('./auth.ts')).canI,
    }),
  ],
})

export const context = noun({
  name: 'context',
  aliases: ['contexts'],
  summary: 'The panels that this command line knows',
  group: 'Core',
  children: [
    command({
      name: 'list',
      summary: 'List the contexts',
      examples: ['panel context list', 'panel context list -o json'],
      load: async () => (await import('./contexts.ts')).listContexts,
    }),
    command({
      name: 'use',
      summary: 'Choose the context for the next commands',
      arguments: [one('context', 'name')],
      examples: ['panel context use staging'],
      exits: [6],
      load: async () => (await import('./contexts.ts')).useContext,
    }),
    command({
      name: 'current',
      summary: 'Show the context in force',
      examples: ['panel context current', 'panel context current --jq .url'],
      exits: [6],
      load: async () => (await import('./contexts.ts')).currentContext,
    }),
    command({
      name: 'create',
      summary: 'Add a context without signing in',
      arguments: [{ name: 'name', summary: 'its name' }],
      options: [{ flags: '--use', summary: 'choose it at once' }],
      examples: ['panel context create staging --url https://staging.example.org'],
      exits: [7],
      load: async () => (await import('./contexts.ts')).createContext,
    }),
    command({
      name: 'delete',
      summary: 'Forget a context and its credential',
      arguments: [one('context', 'name')],
      options: [{ flags: '--ignore-not-found', summary: 'exit 0 when it is not there' }],
      examples: ['panel context delete staging'],
      exits: [6],
      load: async () => (await import('./contexts.ts')).deleteContext,
    }),
  ],
})
