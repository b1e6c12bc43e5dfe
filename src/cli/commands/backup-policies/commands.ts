import { type Argument, command, noun, type Option } from '../../kit/command.ts'
import {
  BODY_FILE,
  DELETE,
  field,
  IDEMPOTENCY,
  LIST,
  one,
  reference,
  required,
  SEARCH,
  YES,
} from '../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

const POLICY = one('backupPolicy', 'policy')
const RUN: Argument = {
  name: 'run',
  summary: 'id of a run: panel backup-policies runs <policy> -o id (default: the last one)',
  optional: true,
}

const NAME = field('--name <name>', 'its name', 'name')
const CRON = field('--cron <expression>', 'when it runs: five fields, such as "0 4 * * *" for each day at four', 'cron')

const FIELDS: readonly Option[] = [
  field(
    '--time-zone <zone>',
    'the time zone of --cron, such as Europe/Berlin (default: that of the panel)',
    'timeZone',
  ),
  { flags: '--all', summary: 'back up all servers (the default)' },
  reference('--location <location>', 'back up the servers of this location', 'locationId', 'location'),
  reference('--node <node>', 'back up the servers of this node', 'nodeId', 'node'),
  {
    flags: '--server <server>',
    summary: 'back up this server and the others that are named so',
    ref: 'server',
    field: 'serverIds',
    repeat: true,
  },
  {
    flags: '--kind <kind>',
    summary: 'archive or incremental (the default)',
    choices: ['archive', 'incremental'],
    field: 'kind',
  },
  {
    flags: '--compression <name>',
    summary: 'of archives: gzip (the default), zstd or none',
    choices: ['gzip', 'zstd', 'none'],
    field: 'compression',
  },
  reference('--store <store>', 'where they go (default: the store of each server)', 'storeId', 'backupStore'),
  field('--label <label>', 'the label of its backups', 'label'),
  field('--ignore <pattern>', 'leave out what matches, as .gitignore has it', 'ignored', 'list'),
  field('--databases', 'with the databases of each server', 'databases', 'boolean'),
  field('--no-databases', 'without them', 'databases', 'boolean'),
  field('--keep <n>', 'keep the newest n of each server; 0: no bound (default 7)', 'keepCount', 'int'),
  field('--keep-days <days>', 'keep them for so many days; 0: no bound (default 0)', 'keepDays', 'int'),
  field('--per-node <n>', 'backups at a time on one node, 1 to 8 (default 2)', 'perNode', 'int'),
  field('--quota <size>', 'what its backups of one server may take together, such as 20G', 'allocationMb', 'mib'),
]

const QUOTA =
  'What a policy makes does not count against the backup limit of a server; --quota bounds it for each server instead.'

export const backupPolicies = noun({
  name: 'backup-policies',
  aliases: ['backup-policy'],
  summary: 'Backups of many servers, made by the host at its times',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List backup policies by name',
      options: [SEARCH, ...LIST],
      examples: ['panel backup-policies list', 'panel backup-policies list --json name,nextRunAt'],
      endpoints: ['backup_policies.list'],
      load: async () => (await actions()).listPolicies,
    }),
    command({
      name: 'view',
      summary: 'Show a backup policy',
      arguments: [POLICY],
      examples: ['panel backup-policies view nightly'],
      endpoints: ['backup_policies.get'],
      exits: [6],
      load: async () => (await actions()).viewPolicy,
    }),
    command({
      name: 'create',
      summary: 'Create a backup policy',
      details: `Times that pass while the panel is down are made up for by one run when it is back. A node that is away is caught up when it is back. ${QUOTA}`,
      options: [
        required(NAME),
        required(CRON),
        ...FIELDS,
        { flags: '--paused', summary: 'do not run it yet' },
        BODY_FILE,
        IDEMPOTENCY,
      ],
      examples: [
        'panel backup-policies create --name nightly --cron "0 4 * * *" --time-zone Europe/Berlin --keep 7',
        'panel backup-policies create --name weekly --cron "0 5 * * 0" --location berlin --kind archive --store offsite --databases --keep 4',
      ],
      endpoints: ['backup_policies.create'],
      exits: [6, 7, 8, 14],
      load: async () => (await actions()).createPolicy,
    }),
    command({
      name: 'edit',
      summary: 'Edit a backup policy; what is not named stays',
      details: QUOTA,
      arguments: [POLICY],
      options: [
        NAME,
        CRON,
        ...FIELDS,
        { flags: '--no-store', summary: 'the store of each server' },
        { flags: '--no-quota', summary: 'no bound' },
        BODY_FILE,
      ],
      examples: [
        'panel backup-policies edit nightly --keep 14',
        'panel backup-policies edit nightly --cron "30 3 * * *"',
      ],
      endpoints: ['backup_policies.update'],
      exits: [6, 7, 8, 14],
      load: async () => (await actions()).editPolicy,
    }),
    command({
      name: 'delete',
      summary: 'Delete a backup policy; its backups stay until somebody deletes them',
      arguments: [POLICY],
      options: DELETE,
      examples: ['panel backup-policies delete nightly --yes'],
      endpoints: ['backup_policies.delete'],
      exits: [6],
      load: async () => (await actions()).deletePolicy,
    }),
    command({
      name: 'pause',
      summary:
        'Pause a backup policy: no runs come, and servers that wait in one have no turn; backups under way go on',
      arguments: [POLICY],
      examples: ['panel backup-policies pause nightly'],
      endpoints: [],
      exits: [6],
      load: async () => (await actions()).pausePolicy,
    }),
    command({
      name: 'resume',
      summary: 'Resume a backup policy that is paused',
      arguments: [POLICY],
      examples: ['panel backup-policies resume nightly'],
      endpoints: [],
      exits: [6],
      load: async () => (await actions()).resumePolicy,
    }),
    command({
      name: 'run',
      summary: 'Run a backup policy now, also one that is paused; with --wait exit 11 when a server has failed',
      arguments: [POLICY],
      options: [
        { flags: '--wait', summary: 'wait until all servers had their turn' },
        { flags: '--timeout <duration>', summary: 'how long to wait (default: to the end); exit 124 when it passes' },
        IDEMPOTENCY,
      ],
      examples: ['panel backup-policies run nightly', 'panel backup-policies run nightly --wait --timeout 2h'],
      endpoints: ['backup_policies.run'],
      exits: [6, 11, 124],
      load: async () => (await actions()).runPolicy,
    }),
    command({
      name: 'cancel',
      summary: 'Cancel the run of a backup policy that is under way, with the backups that it makes',
      arguments: [POLICY],
      options: [YES],
      examples: ['panel backup-policies cancel nightly --yes'],
      endpoints: ['backup_policies.cancel'],
      exits: [6, 7],
      load: async () => (await actions()).cancelPolicy,
    }),
    command({
      name: 'servers',
      summary: 'List how a backup policy stands with each of its servers',
      arguments: [POLICY],
      options: [
        {
          flags: '--state <state>',
          summary: 'only those',
          choices: ['idle', 'due', 'running', 'failed', 'overdue'],
          field: 'state',
        },
        ...LIST,
      ],
      examples: [
        'panel backup-policies servers nightly --state overdue',
        'panel backup-policies servers nightly --all',
      ],
      endpoints: ['backup_policies.servers'],
      exits: [6],
      load: async () => (await actions()).listServers,
    }),
    command({
      name: 'runs',
      summary: 'List the last 30 runs of a backup policy, newest first',
      arguments: [POLICY],
      options: [
        {
          flags: '--status <status>',
          summary: 'only those',
          choices: ['running', 'completed', 'failed', 'cancelled', 'superseded'],
          field: 'status',
        },
        ...LIST,
      ],
      examples: ['panel backup-policies runs nightly', 'panel backup-policies runs nightly --status failed'],
      endpoints: ['backup_policies.runs'],
      exits: [6],
      load: async () => (await actions()).listRuns,
    }),
    command({
      name: 'results',
      summary: 'List what became of each server in a run of a backup policy',
      arguments: [POLICY, RUN],
      options: [
        {
          flags: '--state <state>',
          summary: 'only those',
          choices: ['waiting', 'running', 'completed', 'failed', 'skipped'],
          field: 'state',
        },
        ...LIST,
      ],
      examples: ['panel backup-policies results nightly', 'panel backup-policies results nightly --state failed'],
      endpoints: ['backup_policies.run_results', 'backup_policies.run_get'],
      exits: [6],
      load: async () => (await actions()).listResults,
    }),
  ],
})
