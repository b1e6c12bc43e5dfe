import { homedir } from 'node:os'
import { join } from 'node:path'

/** What the command line reads from its surroundings. This module alone reads `process.env` for it. */
export interface Environment {
  readonly url: string | undefined
  readonly token: string | undefined
  readonly context: string | undefined
  readonly output: string | undefined
  readonly setupToken: string | undefined
  /** The secret access key of a backup store. */
  readonly storeSecret: string | undefined
  /** What the credential key within a backup of the panel is sealed with. */
  readonly backupPassphrase: string | undefined
  /** The application key of a panel that servers move in from, and an account's key of it. */
  readonly migrationKey: string | undefined
  readonly migrationClientKey: string | undefined
  /** The user that may serve a panel on this machine, beside root and oneself. */
  readonly listenerUid: number | undefined
  /** Send credentials over plain http to another machine. */
  readonly insecureHttp: boolean
  /** A one-time code for two-factor sign-in. */
  readonly totp: string | undefined
  readonly noInput: boolean
  readonly debug: boolean
  readonly pager: string | undefined
  /** The program that edits a file. */
  readonly editor: string | undefined
  readonly ci: boolean
  /** The program that opens addresses. */
  readonly browser: string | undefined
  /** Whether there is a desktop that a browser could be on. */
  readonly hasDisplay: boolean
  readonly dumbTerminal: boolean
  readonly noColor: boolean
  readonly forceColor: boolean
  /** What the terminal says of its colours. */
  readonly terminal: {
    readonly colorFgBg: string | undefined
    readonly term: string | undefined
    readonly colorTerm: string | undefined
  }
  /** Folders by the XDG rules; with only HOME set all derive from it. */
  readonly configDir: string
  readonly stateDir: string
  readonly cacheDir: string
  /** What git is given to find its keys, settings and proxies; nothing that would have it ask, or run a program of the repository. */
  readonly git: Readonly<Record<string, string>>
  /** Names that begin with PANEL_ and mean nothing. */
  readonly unknown: readonly string[]
}

const KNOWN = [
  'PANEL_URL',
  'PANEL_TOKEN',
  'PANEL_CONTEXT',
  'PANEL_CONFIG_DIR',
  'PANEL_OUTPUT',
  'PANEL_NO_INPUT',
  'PANEL_DEBUG',
  'PANEL_NO_COLOR',
  'PANEL_PAGER',
  'PANEL_SETUP_TOKEN',
  'PANEL_STORE_SECRET',
  'PANEL_BACKUP_PASSPHRASE',
  'PANEL_MIGRATION_KEY',
  'PANEL_MIGRATION_CLIENT_KEY',
  'PANEL_TOTP',
  'PANEL_LISTENER_UID',
  'PANEL_INSECURE_HTTP',
  // Of the daemon and of our own tests.
  'PANEL_CREDENTIAL_KEY',
  'PANEL_CREDENTIAL_KEY_FILE',
  'PANEL_SETUP_TOKEN_FILE',
]

/** The rest of the surroundings is not git's: variables of its own (`GIT_DIR`, `GIT_SSL_NO_VERIFY`) would change what it does. */
const GIT_NAMES = [
  'PATH', 'HOME', 'USER', 'LOGNAME', 'LANG', 'TMPDIR', 'XDG_CONFIG_HOME', 'XDG_RUNTIME_DIR', 'SSH_AUTH_SOCK', 'GIT_SSH_COMMAND',
  'http_proxy', 'https_proxy', 'HTTPS_PROXY', 'no_proxy', 'NO_PROXY', 'SSL_CERT_FILE', 'SSL_CERT_DIR',
] as const // biome-ignore format: names

/** Reads the surroundings; an empty variable counts as absent. */
export function readEnvironment(env: Readonly<Record<string, string | undefined>> = process.env): Environment {
  const get = (name: string): string | undefined => (env[name] === '' ? undefined : env[name])
  const on = (name: string): boolean => get(name) !== undefined && get(name) !== '0' && get(name) !== 'false'
  const home = get('HOME') ?? homedir()
  const folder = (xdg: string, fallback: string): string => join(get(xdg) ?? join(home, fallback), 'panel')
  return {
    url: get('PANEL_URL'),
    token: get('PANEL_TOKEN'),
    context: get('PANEL_CONTEXT'),
    output: get('PANEL_OUTPUT'),
    setupToken: get('PANEL_SETUP_TOKEN'),
    storeSecret: get('PANEL_STORE_SECRET'),
    backupPassphrase: get('PANEL_BACKUP_PASSPHRASE'),
    migrationKey: get('PANEL_MIGRATION_KEY'),
    migrationClientKey: get('PANEL_MIGRATION_CLIENT_KEY'),
    listenerUid: uidOf(get('PANEL_LISTENER_UID')),
    insecureHttp: on('PANEL_INSECURE_HTTP'),
    totp: get('PANEL_TOTP'),
    noInput: on('PANEL_NO_INPUT'),
    debug: on('PANEL_DEBUG'),
    pager: get('PANEL_PAGER') ?? get('PAGER'),
    editor: get('VISUAL') ?? get('EDITOR'),
    ci: on('CI'),
    browser: get('BROWSER'),
    hasDisplay: get('DISPLAY') !== undefined || get('WAYLAND_DISPLAY') !== undefined,
    dumbTerminal: get('TERM') === 'dumb',
    noColor: get('NO_COLOR') !== undefined || on('PANEL_NO_COLOR'),
    forceColor: on('FORCE_COLOR') || on('CLICOLOR_FORCE'),
    terminal: { colorFgBg: get('COLORFGBG'), term: get('TERM'), colorTerm: get('COLORTERM') },
    configDir: get('PANEL_CONFIG_DIR') ?? folder('XDG_CONFIG_HOME', '.config'),
    stateDir: folder('XDG_STATE_HOME', '.local/state'),
    cacheDir: folder('XDG_CACHE_HOME', '.cache'),
    git: Object.fromEntries(GIT_NAMES.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]]))),
    unknown: Object.keys(env).filter(isUnknown).sort(),
  }
}

/** What is no number counts as none: nobody more is trusted then. */
function uidOf(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,10}$/.test(text) ? Number(text) : undefined
}

/** `PANEL_<SECTION>__<KEY>` belongs to daemon and agent, `PANEL_TEST_…` to the tests. */
function isUnknown(name: string): boolean {
  return name.startsWith('PANEL_') && !name.includes('__') && !name.startsWith('PANEL_TEST_') && !KNOWN.includes(name)
}
