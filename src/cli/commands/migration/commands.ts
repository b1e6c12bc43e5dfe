import { type Argument, command, noun, type Option } from '../../kit/command.ts'
import { IDEMPOTENCY, LIST, YES } from '../../kit/option-sets.ts'
import { UNLIMITED_WORDS } from './unlimited-words.ts'

const actions = () => import('./actions.ts')
const orders = () => import('./orders.ts')

/** As the contract has them, which is not loaded for the help. */
const SOURCES = ['pterodactyl', 'pelican', 'directory'] as const
const STATUSES = ['pending', 'validating', 'running', 'paused', 'completed', 'failed', 'cancelled'] as const
const STEP_STATUSES = ['pending', 'running', 'completed', 'failed', 'skipped'] as const
const PHASES: readonly string[] = [
  ...[
    'validate',
    'locations',
    'templates',
    'users',
    'servers',
    'subusers',
    'databases',
    'schedules',
    'backups',
    'files',
  ],
  'finish',
]

const JOB: Argument = { name: 'job', summary: 'migration: id, beginning of the id, or latest' }
const MOVE: Argument = { name: 'job', summary: 'migration: id, beginning of the id, or latest (that moved something)' }
const SOME = 'mig_01k5w0c9v7f3tqz8m2n4r6x8ya'
const FROM = '--url https://old.example.org --key-file old.key'
const TIMEOUT: Option = {
  flags: '--timeout <duration>',
  summary: 'how long to wait (default: to its end); exit 124 when it passes, and it goes on',
}
const SCREEN: Option = { flags: '--no-tui', summary: 'plain lines in the place of the progress screen' }
const WAIT: readonly Option[] = [
  { flags: '--wait', summary: 'wait for the end (default on a terminal)' },
  { flags: '--no-wait', summary: 'return as soon as the panel has accepted it' },
  TIMEOUT,
  SCREEN,
]
const KEYS: readonly Option[] = [
  { flags: '--key-stdin', summary: 'read the application key of the source from stdin', fills: 'key' },
  { flags: '--key-file <file>', summary: 'read it from a file (PANEL_MIGRATION_KEY)' },
  { flags: '--client-key-stdin', summary: "read an administrator's account key from stdin", fills: 'clientApiKey' },
  { flags: '--client-key-file <file>', summary: 'read it from a file (PANEL_MIGRATION_CLIENT_KEY)' },
]
const SOURCE: readonly Option[] = [
  {
    flags: '--source <kind>',
    summary: 'what it is; another kind is refused (default: found by asking)',
    choices: SOURCES,
  },
  {
    flags: '--url <url>',
    summary: 'address of the panel to move from (the global --url goes before the command)',
    field: 'url',
  },
  ...KEYS,
  { flags: '--insecure', summary: 'do not check the certificates of the source', fills: 'insecure' },
  { flags: '--node <node>', summary: 'of a directory: the node on which it lies', ref: 'node', fills: 'nodeId' },
  { flags: '--path <folder>', summary: 'of a directory: the folder, one sub-folder for each server', fills: 'source' },
]
const CONFLICTS =
  'what to do where something is in the way, such as port=remap; what: location, template, user, server, port, capacity, database, files'
const REQUEST: readonly Option[] = [
  {
    flags: '--scope <scope>',
    summary: 'full, node or server (default full; server where only servers are named)',
    choices: ['full', 'node', 'server'],
    fills: 'scope',
  },
  {
    flags: '--map <node=node>',
    summary: 'servers of this node of the source go to this node: id or name',
    repeat: true,
    fills: 'nodeMappings',
  },
  {
    flags: '--server <server=node>',
    summary: 'this server of the source goes to this node: id, UUID or name',
    repeat: true,
    fills: 'serverMappings',
  },
  { flags: '--map-file <file>', summary: 'YAML or JSON with scope, nodes, servers, phases and options; - is stdin' },
  {
    flags: '--phase <phase>',
    summary: 'only this comes along, and what it needs',
    repeat: true,
    choices: PHASES,
    fills: 'phases',
  },
  { flags: '--on-conflict <what=how>', summary: CONFLICTS, repeat: true, fills: 'conflicts' },
  { flags: '--port-range <from-to>', summary: 'where ports are taken from that are remapped (default 20000-29999)' },
  {
    flags: '--unlimited <what=value>',
    summary: 'what an open limit becomes: memory=4G, disk=50G, cpu=4',
    repeat: true,
    typed: UNLIMITED_WORDS,
  },
  { flags: '--transport <way>', summary: 'how files come', choices: ['auto', 'backup', 'node'] },
  {
    flags: '--archive-origin <url>',
    summary: 'where archives of the source may lie as well, such as its object store',
    repeat: true,
    fills: 'archiveOrigins',
  },
  {
    flags: '--database-host <host>',
    summary: 'with --on-conflict database=copy: a host of the source with a private address, as the source names it',
    repeat: true,
    fills: 'databaseHosts',
  },
  {
    flags: '--bwlimit <rate>',
    summary: 'bytes that each node may fetch in a second, such as 10M',
    fills: 'bytesPerSecond',
  },
  {
    flags: '--backup-timeout <duration>',
    summary: 'how long a backup of the source may take (default 1h)',
    fills: 'backupTimeoutSeconds',
  },
  {
    flags: '--freeze <how>',
    summary: 'what is done with a running server before its files are read',
    choices: ['stop', 'none', 'suspend'],
  },
  { flags: '--verify <how>', summary: 'what is read again of files that arrived', choices: ['full', 'sample', 'none'] },
  {
    flags: '--runtime <runtime>',
    summary: 'what servers of imported templates run by (default docker)',
    choices: ['process', 'docker'],
    repeat: true,
    fills: 'runtimes',
  },
  {
    flags: '--mounts <how>',
    summary: 'list folders of nodes in the report, or give servers the same paths',
    choices: ['list', 'take'],
  },
  { flags: '--backups <how>', summary: 'list stored backups in the report, or copy them', choices: ['list', 'copy'] },
  { flags: '--invite', summary: 'write to people that have had no account; without it nobody gets mail' },
  { flags: '--grant-admin', summary: 'administrators of the source are administrators here' },
  { flags: '--location <location>', summary: 'where what has no location is put', ref: 'location' },
  { flags: '--concurrency <n>', summary: 'steps at a time, up to 16 (default 4)' },
  { flags: '--max-failures <n>', summary: 'fail as soon as more steps than this have failed' },
]
const ALLOW_PAUSED: Option = {
  flags: '--allow-paused',
  summary: 'although another migration is paused',
  fills: 'allowPaused',
}

export const migration = noun({
  name: 'migration',
  aliases: ['migrations'],
  summary: 'Moving servers in from Pterodactyl, Pelican, or folders of a node',
  group: 'Administration',
  children: [
    command({
      name: 'test',
      summary: 'Look what a source holds and what its keys may do; nothing is changed',
      details:
        'Keys are read from stdin, a file or PANEL_MIGRATION_KEY and PANEL_MIGRATION_CLIENT_KEY, never from the command line. Exit 8: the source ' +
        'refuses the keys, they lack rights, or it is no such panel. Exit 11: it does not answer.',
      options: SOURCE,
      examples: [
        `panel migration test ${FROM}`,
        'panel migration test --url https://old.example.org --key-stdin < old.key',
        'panel migration test --source directory --node node-1 --path /srv/old',
      ],
      endpoints: ['migration.test'],
      exits: [6, 8, 11, 12],
      load: async () => (await import('./test.ts')).testSource,
    }),
    command({
      name: 'nodes',
      summary: 'List the nodes that servers may be moved to',
      examples: ['panel migration nodes', 'panel migration nodes -o json'],
      endpoints: ['migration.nodes'],
      load: async () => (await actions()).listNodes,
    }),
    command({
      name: 'plan',
      summary: 'Make the plan of a migration: what would come, what is in the way, what is lost; nothing is changed',
      details:
        'Exit 8: something is in the way; each conflict says which option decides it. The file of --out holds the plan and what it was asked with, ' +
        'and no key: panel migration start --plan FILE carries out that plan or none.',
      options: [
        ...SOURCE,
        ...REQUEST,
        { flags: '--out <file>', summary: 'write the plan to this file, - is stdout' },
        { flags: '--detailed-exitcode', summary: 'exit 10 when something would be created or changed' },
        ALLOW_PAUSED,
        TIMEOUT,
        SCREEN,
        IDEMPOTENCY,
      ],
      examples: [
        `panel migration plan ${FROM} --map node-1=berlin-1 --out plan.json`,
        'panel migration plan --url https://old.example.org --key-stdin --map-file map.yaml --on-conflict port=remap < old.key',
      ],
      endpoints: [],
      exits: [6, 7, 8, 10, 11, 12, 14, 124, 130],
      load: async () => (await import('./plan.ts')).planMigration,
    }),
    command({
      name: 'start',
      summary: 'Move servers in from another panel',
      details:
        'With --wait: exit 0 when all came, 3 when single things failed, 11 when it failed or was cancelled, 8 when the plan has conflicts or is not ' +
        'that of --plan any more. With -o jsonl each event is a line, and the last one is the result. Started again it brings what differs.',
      options: [
        { flags: '-F, --plan <file>', summary: 'carry out this plan of panel migration plan --out', fills: 'planHash' },
        {
          flags: '--allow-drift',
          summary: 'with --plan: although source or panel have changed since',
          fills: 'allowDrift',
        },
        ...SOURCE,
        ...REQUEST,
        ALLOW_PAUSED,
        ...WAIT,
        IDEMPOTENCY,
      ],
      examples: [
        'panel migration start --plan plan.json --key-file old.key --wait',
        `panel migration start ${FROM} --map node-1=berlin-1 --wait --timeout 6h -o jsonl`,
        'panel migration start --source directory --node node-1 --path /srv/old --no-wait',
      ],
      endpoints: ['migration.start'],
      exits: [3, 6, 7, 8, 11, 12, 14, 124, 130],
      load: async () => (await import('./start.ts')).startMigration,
    }),
    command({
      name: 'list',
      summary: 'List migrations, newest first',
      options: [{ flags: '--status <status>', summary: 'only those', choices: STATUSES, field: 'status' }, ...LIST],
      examples: ['panel migration list', 'panel migration list --status failed -o json'],
      endpoints: ['migration.list'],
      load: async () => (await actions()).listMigrations,
    }),
    command({
      name: 'view',
      summary: 'Show a migration: where it stands, its conflicts, what has failed',
      arguments: [JOB],
      examples: ['panel migration view latest', `panel migration view ${SOME} -o json`],
      endpoints: ['migration.get'],
      exits: [6],
      load: async () => (await actions()).viewMigration,
    }),
    command({
      name: 'steps',
      summary: 'List the steps of a migration in their order',
      arguments: [JOB],
      options: [
        { flags: '--failed', summary: 'only those that have failed' },
        { flags: '--status <status>', summary: 'only those', choices: STEP_STATUSES, field: 'status' },
        { flags: '--phase <phase>', summary: 'only of this phase', choices: PHASES, field: 'phase' },
        ...LIST,
      ],
      examples: ['panel migration steps latest --failed', `panel migration steps ${SOME} --phase files --all`],
      endpoints: ['migration.steps'],
      exits: [6],
      load: async () => (await actions()).listSteps,
    }),
    command({
      name: 'watch',
      summary: 'Follow a migration to its end, over cut connections and restarts of the panel',
      details:
        'Exit 0 when all came, 3 when single things failed, 11 when it failed or was cancelled, 8 when it was refused before it began. With -o jsonl each event ' +
        'is a line, and the last one is the result. Ctrl-C ends the watching alone.',
      arguments: [JOB],
      options: [TIMEOUT, SCREEN],
      examples: ['panel migration watch latest', `panel migration watch ${SOME} -o jsonl --timeout 1h`],
      endpoints: [],
      exits: [3, 6, 8, 11, 12, 14, 124, 130],
      load: async () => (await import('./watch.ts')).watchMigration,
    }),
    command({
      name: 'pause',
      summary: 'Pause a migration when the steps that run have come to a safe place',
      arguments: [JOB],
      options: [...WAIT, IDEMPOTENCY],
      examples: ['panel migration pause latest', 'panel migration pause latest --wait'],
      endpoints: ['migration.pause'],
      exits: [6, 7, 11, 124, 130],
      load: async () => (await orders()).pauseMigration,
    }),
    command({
      name: 'resume',
      summary: 'Go on with a migration that is paused or has failed',
      details:
        'Keys are needed where those that it had are no longer kept (a week after it has failed), or do not hold any more.',
      arguments: [JOB],
      options: [
        { flags: '--retry-failed', summary: 'also steps of a paused one that have failed', fills: 'retryFailed' },
        ...KEYS,
        ...WAIT,
        IDEMPOTENCY,
      ],
      examples: ['panel migration resume latest --wait', 'panel migration resume latest --key-file new.key'],
      endpoints: ['migration.resume'],
      exits: [3, 6, 7, 8, 11, 12, 14, 124, 130],
      load: async () => (await orders()).resumeMigration,
    }),
    command({
      name: 'cancel',
      summary: 'Cancel a migration; the source is left as it was found, and what has been imported stays',
      arguments: [JOB],
      options: [
        {
          flags: '--rollback',
          summary: 'remove what it has created, where nobody has changed it since',
          fills: 'rollback',
        },
        YES,
        ...WAIT,
        IDEMPOTENCY,
      ],
      examples: ['panel migration cancel latest', 'panel migration cancel latest --rollback --yes --wait'],
      endpoints: ['migration.cancel'],
      exits: [6, 7, 11, 124, 130],
      load: async () => (await orders()).cancelMigration,
    }),
    command({
      name: 'retry',
      summary: 'Try a failed step again, with those that were skipped for its sake, or all that have failed',
      arguments: [JOB, { name: 'step', summary: 'step: id, beginning of the id, or number', optional: true }],
      options: [
        { flags: '--all-failed', summary: 'all of a migration that is paused or has failed' },
        ...WAIT,
        IDEMPOTENCY,
      ],
      examples: ['panel migration retry latest 17 --wait', 'panel migration retry latest --all-failed --wait'],
      endpoints: ['migration.retry'],
      exits: [3, 6, 7, 8, 11, 12, 14, 124, 130],
      load: async () => (await orders()).retrySteps,
    }),
    command({
      name: 'verify',
      summary: 'Compare what a migration has brought with the source as it is now; nothing is changed',
      details:
        'Exit 3: something differs, and each difference is a failed step. Exit 11: the comparison itself has failed or was cancelled. Servers that were played on here, and those that still run on the source, differ. ' +
        'The keys are asked for again, as those of a migration that has completed are not kept.',
      arguments: [MOVE],
      options: [
        ...KEYS,
        { flags: '--insecure', summary: 'do not check the certificates of the source', fills: 'insecure' },
        ALLOW_PAUSED,
        ...WAIT,
        IDEMPOTENCY,
      ],
      examples: [
        'panel migration verify latest --key-file old.key --wait',
        'panel migration verify latest --key-stdin -o json < old.key',
      ],
      endpoints: [],
      exits: [3, 6, 7, 8, 11, 12, 14, 124, 130],
      load: async () => (await import('./start.ts')).verifyMigration,
    }),
    command({
      name: 'report',
      summary: 'Show what has become of everything that the source holds, and what could not be brought',
      arguments: [MOVE],
      options: [
        {
          flags: '--format <format>',
          summary: 'text, json or markdown (default text; json with -o json)',
          choices: ['text', 'json', 'markdown'],
        },
        { flags: '--out <file>', summary: 'write it to this file' },
      ],
      examples: ['panel migration report latest', 'panel migration report latest --format markdown > moved.txt'],
      endpoints: [],
      exits: [6, 7],
      paged: true,
      load: async () => (await import('./report.ts')).showReport,
    }),
  ],
})
