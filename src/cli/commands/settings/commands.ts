import { type Command, command, noun, type Option } from '../../kit/command.ts'
import { BODY_FILE, field, IDEMPOTENCY, YES } from '../../kit/option-sets.ts'
import { flagName } from './flag-name.ts'
import { oidc } from './oidc-commands.ts'
import { SECURITY_SUMMARIES } from './security-flags.ts'

const actions = () => import('./actions.ts')
const changes = () => import('./changes.ts')

const UNSET: Option = {
  flags: '--unset <flag>',
  summary: 'remove what is set, such as --unset logo-url; may be repeated',
  repeat: true,
}

const SECURITY_FLAGS: readonly Option[] = [
  ...Object.entries(SECURITY_SUMMARIES).map(([name, summary]) =>
    field(`--${flagName(name)} <n>`, summary, name, 'int'),
  ),
  field('--registration-enabled', 'strangers may make accounts for themselves', 'registrationEnabled', 'boolean'),
  { flags: '--no-registration-enabled', summary: 'accounts are made by administrators (default)' },
]

const SMTP_FLAGS: readonly Option[] = [
  field('--host <host>', 'the mail server', 'host'),
  field('--port <port>', 'its port (default 587, or 465 with --tls implicit)', 'port', 'int'),
  {
    flags: '--tls <how>',
    summary: 'starttls, implicit (from the first byte), auto (starttls for every host but this machine), off',
    choices: ['starttls', 'implicit', 'auto', 'off'],
  },
  field('--user <name>', 'sign in with this name', 'username'),
  { flags: '--password-stdin', summary: 'read the password from stdin' },
  { flags: '--password-file <file>', summary: 'read the password from a file' },
  { flags: '--ask-password', summary: 'ask for the password' },
  field('--from <sender>', "the sender: panel@example.org or 'Panel <panel@example.org>'", 'from'),
  field('--reply-to <address>', 'where answers go', 'replyTo'),
  field('--pool', 'keep connections for further messages (default)', 'pool', 'boolean'),
  { flags: '--no-pool', summary: 'a connection for each message' },
  field('--max-connections <n>', 'connections at a time (default 5)', 'maxConnections', 'int'),
  field('--max-messages <n>', 'messages over one connection (default 100)', 'maxMessages', 'int'),
  { ...UNSET, summary: 'back to the default, such as --unset password; may be repeated' },
  BODY_FILE,
]

const THEME_FLAGS: readonly Option[] = [
  field('--panel-name <name>', 'the name of this panel', 'panelName'),
  field('--logo-url <url>', 'the logo: http, https, or a path', 'logoUrl'),
  field('--favicon-url <url>', 'the icon of the page', 'faviconUrl'),
  {
    ...field('--default-theme <theme>', 'the theme of who has chosen none', 'defaultTheme'),
    choices: ['light', 'dark', 'system'],
  },
  field('--enabled-themes <themes>', 'light, dark or both: light,dark', 'enabledThemes', 'list'),
  field('--primary-color <colour>', '#rrggbb', 'primaryColor'),
  field('--secondary-color <colour>', '#rrggbb', 'secondaryColor'),
  field('--accent-color <colour>', '#rrggbb', 'accentColor'),
  { flags: '--custom-css-file <file>', summary: 'take the style sheet from a file' },
  UNSET,
  BODY_FILE,
]

const KEY_FLAGS: readonly Option[] = ['curseforge', 'modrinth'].flatMap((name) => [
  { flags: `--${name}-key-stdin`, summary: `read the key of ${name} from stdin` },
  { flags: `--${name}-key-file <file>`, summary: `read the key of ${name} from a file` },
  { flags: `--ask-${name}-key`, summary: `ask for the key of ${name}` },
])

/** `get` and `set` of one group. */
function group(
  name: string,
  about: { readonly summary: string; readonly set: Command; readonly get: Command; readonly more?: readonly Command[] },
) {
  const { summary, get, set, more = [] } = about
  return noun({ name, summary, group: 'Administration', children: [get, set, ...more] })
}

const security = group('security', {
  summary: 'Limits of sign-in, requests, consoles, agents and files',
  get: command({
    name: 'get',
    summary: 'Show the limits',
    examples: ['panel settings security get', 'panel settings security get --json lockoutMaxAttempts'],
    endpoints: ['settings.security_get'],
    load: async () => (await actions()).getSecurity,
  }),
  set: command({
    name: 'set',
    summary: 'Change limits; they are in force at once',
    options: [...SECURITY_FLAGS, BODY_FILE],
    examples: [
      'panel settings security set --lockout-max-attempts 3 --lockout-duration-minutes 30',
      'panel settings security set --registration-enabled',
    ],
    endpoints: ['settings.security_update'],
    exits: [7, 8],
    load: async () => (await changes()).setSecurity,
  }),
})

const smtp = group('smtp', {
  summary: 'The mail server',
  get: command({
    name: 'get',
    summary: 'Show the mail server, the password masked',
    examples: ['panel settings smtp get'],
    endpoints: ['settings.smtp_get'],
    load: async () => (await actions()).getSmtp,
  }),
  set: command({
    name: 'set',
    summary: 'Change the mail server; the next message goes by it',
    details:
      'Mails carry tokens: none goes to an account that can do more than who set the server last, and only who holds as much can change it. ' +
      'Saving the same host again takes that over.',
    options: SMTP_FLAGS,
    examples: [
      "panel settings smtp set --host mail.example.org --tls starttls --user panel --password-stdin --from 'Panel <panel@example.org>' < password",
      'panel settings smtp set --unset user --unset password',
    ],
    endpoints: ['settings.smtp_update'],
    exits: [7, 8, 14],
    load: async () => (await changes()).setSmtp,
  }),
  more: [
    command({
      name: 'test',
      summary: 'Send a test mail, to yourself unless --to is given; exit 11 when it is not taken',
      options: [field('--to <address>', 'who gets it', 'to'), IDEMPOTENCY],
      examples: ['panel settings smtp test', 'panel settings smtp test --to eve@example.org'],
      endpoints: ['settings.smtp_test'],
      exits: [8, 11],
      load: async () => (await actions()).testSmtp,
    }),
  ],
})

const theme = group('theme', {
  summary: 'Name, logo and colours',
  get: command({
    name: 'get',
    summary: 'Show the theme',
    examples: ['panel settings theme get', 'panel settings theme get --json metadata'],
    endpoints: ['settings.theme_get'],
    load: async () => (await actions()).getTheme,
  }),
  set: command({
    name: 'set',
    summary: 'Change the theme',
    options: THEME_FLAGS,
    examples: [
      "panel settings theme set --panel-name 'Our games' --primary-color '#102030'",
      'panel settings theme set --unset logo-url',
    ],
    endpoints: ['settings.theme_update'],
    exits: [7, 8],
    load: async () => (await changes()).setTheme,
  }),
  more: [
    command({
      name: 'reset',
      summary: 'Set the whole theme back to the default',
      options: [YES],
      examples: ['panel settings theme reset --yes'],
      load: async () => (await changes()).resetTheme,
    }),
  ],
})

const localization = group('localization', {
  summary: 'Language and time zone',
  get: command({
    name: 'get',
    summary: 'Show language and time zone',
    examples: ['panel settings localization get'],
    endpoints: ['settings.localization_get'],
    load: async () => (await actions()).getLocalization,
  }),
  set: command({
    name: 'set',
    summary: 'Change language or time zone',
    options: [
      field('--locale <tag>', 'the language: en, pt-BR', 'locale'),
      field('--timezone <zone>', 'the time zone: UTC, Europe/Berlin', 'timezone'),
      BODY_FILE,
    ],
    examples: ['panel settings localization set --locale de --timezone Europe/Berlin'],
    endpoints: ['settings.localization_update'],
    exits: [7, 8],
    load: async () => (await changes()).setLocalization,
  }),
})

const modManager = group('mod-manager', {
  summary: 'Keys for the catalogues of mods and plug-ins',
  get: command({
    name: 'get',
    summary: 'Show which keys are set',
    examples: ['panel settings mod-manager get'],
    endpoints: ['settings.mod_manager_get'],
    load: async () => (await actions()).getModManager,
  }),
  set: command({
    name: 'set',
    summary: 'Set or remove keys',
    options: [...KEY_FLAGS, { ...UNSET, summary: 'remove a key: --unset curseforge-key; may be repeated' }],
    examples: [
      'panel settings mod-manager set --curseforge-key-stdin < key',
      'panel settings mod-manager set --unset modrinth-key',
    ],
    endpoints: ['settings.mod_manager_update'],
    exits: [7, 8, 14],
    load: async () => (await changes()).setModManager,
  }),
})

export const settings = noun({
  name: 'settings',
  aliases: ['setting'],
  summary: 'Settings of the installation',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List all settings with what fixes them, secrets masked',
      examples: ['panel settings list', 'panel settings list -o csv'],
      load: async () => (await actions()).listSettings,
    }),
    command({
      name: 'public',
      summary: 'Show what clients can read before sign-in',
      examples: ['panel settings public'],
      endpoints: ['settings.public'],
      load: async () => (await actions()).publicSettings,
    }),
    command({
      name: 'upload-limit',
      summary: 'Show how large an upload may be',
      examples: ['panel settings upload-limit', 'panel settings upload-limit --jq .maxUploadBytes'],
      endpoints: ['settings.upload_limit'],
      load: async () => (await actions()).uploadLimit,
    }),
    security,
    smtp,
    theme,
    localization,
    modManager,
    oidc,
  ],
})

export const locale = command({
  name: 'locale',
  group: 'Core',
  summary: 'Show the language of the installation',
  examples: ['panel locale'],
  endpoints: ['settings.locale'],
  load: async () => (await actions()).showLocale,
})
