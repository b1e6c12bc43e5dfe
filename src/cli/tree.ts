import type { Command, Noun, Tree } from './kit/command.ts'

/** A noun or command of the first level: the words that name it, and its declaration, which is loaded when it is asked for. */
interface Entry {
  readonly names: readonly string[]
  readonly load: () => Promise<Command | Noun>
}

/** All of them, in the order of the help: the name, the aliases behind it. */
const ENTRIES: readonly Entry[] = [
  of('servers server', async () => (await import('./commands/servers/commands.ts')).servers),
  of('access', async () => (await import('./commands/access/commands.ts')).access),
  of('invites invite', async () => (await import('./commands/access/commands.ts')).invites),
  of('console', async () => (await import('./commands/console/commands.ts')).console),
  of('files', async () => (await import('./commands/files/commands.ts')).files),
  of('backups backup', async () => (await import('./commands/backups/commands.ts')).backups),
  of('sftp', async () => (await import('./commands/sftp/commands.ts')).sftp),
  of('databases database', async () => (await import('./commands/databases/commands.ts')).databases),
  of('schedules schedule', async () => (await import('./commands/schedules/commands.ts')).schedules),
  of('events event', async () => (await import('./commands/events/commands.ts')).events),
  of('jobs job', async () => (await import('./commands/jobs/commands.ts')).jobs),
  of('alerts alert', async () => (await import('./commands/alerts/commands.ts')).alerts),
  of('alert-rules alert-rule', async () => (await import('./commands/alert-rules/commands.ts')).alertRules),
  of('login', async () => (await import('./commands/session/commands.ts')).login),
  of('logout', async () => (await import('./commands/session/commands.ts')).logout),
  of('whoami', async () => (await import('./commands/session/commands.ts')).whoami),
  of('auth', async () => (await import('./commands/session/commands.ts')).auth),
  of('context contexts', async () => (await import('./commands/session/commands.ts')).context),
  of('profile', async () => (await import('./commands/account/commands.ts')).profile),
  of('dashboard', async () => (await import('./commands/overview/commands.ts')).dashboard),
  of('locale', async () => (await import('./commands/settings/commands.ts')).locale),
  of('nodes node', async () => (await import('./commands/nodes/commands.ts')).nodes),
  of('locations location', async () => (await import('./commands/locations/commands.ts')).locations),
  of('nests nest', async () => (await import('./commands/nests/commands.ts')).nests),
  of('templates template', async () => (await import('./commands/templates/commands.ts')).templates),
  of('allocations allocation', async () => (await import('./commands/allocations/commands.ts')).allocations),
  of('db-hosts db-host', async () => (await import('./commands/db-hosts/commands.ts')).dbHosts),
  of('backup-stores backup-store', async () => (await import('./commands/backup-stores/commands.ts')).backupStores),
  of('self-backup self-backups', async () => (await import('./commands/self-backup/commands.ts')).selfBackup),
  of(
    'backup-policies backup-policy',
    async () => (await import('./commands/backup-policies/commands.ts')).backupPolicies,
  ),
  of('ip-pools ip-pool', async () => (await import('./commands/ip-pools/commands.ts')).ipPools),
  of('migration migrations', async () => (await import('./commands/migration/commands.ts')).migration),
  of('users user', async () => (await import('./commands/users/commands.ts')).users),
  of('roles role', async () => (await import('./commands/roles/commands.ts')).roles),
  of('permissions permission', async () => (await import('./commands/api-keys/commands.ts')).permissions),
  of('api-keys api-key keys', async () => (await import('./commands/api-keys/commands.ts')).apiKeys),
  of('lockouts lockout', async () => (await import('./commands/lockouts/commands.ts')).lockouts),
  of('audit', async () => (await import('./commands/audit/commands.ts')).audit),
  of('settings setting', async () => (await import('./commands/settings/commands.ts')).settings),
  of('providers provider', async () => (await import('./commands/providers/commands.ts')).providers),
  of('plugins plugin', async () => (await import('./commands/plugins/commands.ts')).plugins),
  of('system-errors errors', async () => (await import('./commands/system-errors/commands.ts')).systemErrors),
  of('stats', async () => (await import('./commands/overview/commands.ts')).stats),
  of('health', async () => (await import('./commands/overview/commands.ts')).health),
  of('db', async () => (await import('./commands/overview/commands.ts')).db),
  of('update updates', async () => (await import('./commands/update/commands.ts')).update),
  of('webhooks webhook', async () => (await import('./commands/webhooks/commands.ts')).webhooks),
  of('up', async () => (await import('./commands/host/commands.ts')).up),
  of('down', async () => (await import('./commands/host/commands.ts')).down),
  of('daemon', async () => (await import('./commands/host/commands.ts')).daemon),
  of('agent', async () => (await import('./commands/host/commands.ts')).agent),
  of('setup', async () => (await import('./commands/session/commands.ts')).setup),
  of('api', async () => (await import('./commands/tooling/commands.ts')).api),
  of('openapi', async () => (await import('./commands/tooling/commands.ts')).openapi),
  of('commands', async () => (await import('./commands/tooling/commands.ts')).commands),
  of('completion', async () => (await import('./commands/tooling/commands.ts')).completion),
  of('version', async () => (await import('./commands/tooling/commands.ts')).version),
  of('__complete', async () => (await import('./commands/tooling/commands.ts')).complete),
]

/** All commands, in the order of the help. */
export function wholeTree(): Promise<Tree> {
  return Promise.all(ENTRIES.map(({ load }) => load()))
}

/**
 * The tree as far as a line needs it that begins with `first`: what one of its words names is there with all below it, the rest by its names
 * alone, for what is suggested. All of it where `first` names nothing: the line is a question for help, or a mistake.
 */
export function treeFor(first: string | undefined, words: readonly string[]): Promise<Tree> {
  if (!ENTRIES.some(({ names }) => names.some((name) => name === first))) return wholeTree()
  return Promise.all(
    ENTRIES.map(({ names, load }) => (names.some((name) => words.includes(name)) ? load() : bare(names))),
  )
}

function bare([name = '', ...aliases]: readonly string[]): Noun {
  return { kind: 'noun', name, aliases, summary: '', group: 'Core', children: [] }
}

function of(names: string, load: Entry['load']): Entry {
  return { names: names.split(' '), load }
}
