import { command, noun, type Option } from '../../kit/command.ts'
import { BODY_FILE, DELETE, field, IDEMPOTENCY, LIST, one, required, SEARCH } from '../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

const NAME = field('--name <name>', 'its name', 'name')

const PLACE: readonly Option[] = [
  field('--folder <name>', 'local: a folder that agent.yaml of each node names (default: the agent’s own)', 'folder'),
  field('--endpoint <url>', 's3: where it is, such as https://s3.example.org', 'endpoint'),
  field('--region <region>', 's3: its region (default us-east-1)', 'region'),
  field('--bucket <bucket>', 's3: the bucket, which must be there', 'bucket'),
  field('--prefix <prefix>', 's3: what all keys begin with (default: nothing)', 'prefix'),
  field(
    '--path-style',
    's3: the bucket in the path (default where the endpoint is not Amazon’s)',
    'pathStyle',
    'boolean',
  ),
  field('--no-path-style', 's3: the bucket in the host name', 'pathStyle', 'boolean'),
  field('--access-key <id>', 's3: the id of the access key', 'accessKeyId'),
  { flags: '--secret-stdin', summary: 's3: read the secret access key from stdin' },
  { flags: '--secret-file <file>', summary: 's3: read the secret access key from a file' },
  field('--default', 'backups go there for which nothing else says where', 'isDefault', 'boolean'),
  field('--no-default', 'they do not', 'isDefault', 'boolean'),
]

const SECRETS =
  'The secret comes from stdin, a file or the variable PANEL_STORE_SECRET, is kept sealed by the credential key, and is never shown. Nodes never have it: they get requests that are signed for one object each.'

export const backupStores = noun({
  name: 'backup-stores',
  aliases: ['backup-store'],
  summary: 'Where backups lie: folders of nodes, and buckets of S3',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List backup stores by name',
      options: [SEARCH, ...LIST],
      examples: ['panel backup-stores list', 'panel backup-stores list --json name,backupCount'],
      endpoints: ['backup_stores.list'],
      load: async () => (await actions()).listStores,
    }),
    command({
      name: 'view',
      summary: 'Show a backup store',
      arguments: [one('backupStore', 'store')],
      examples: ['panel backup-stores view offsite'],
      endpoints: ['backup_stores.get'],
      exits: [6],
      load: async () => (await actions()).viewStore,
    }),
    command({
      name: 'create',
      summary: 'Add a backup store',
      details: SECRETS,
      options: [
        required({ flags: '--kind <kind>', summary: 'local or s3', choices: ['local', 's3'], field: 'kind' }),
        required(NAME),
        ...PLACE,
        BODY_FILE,
        IDEMPOTENCY,
      ],
      examples: [
        'panel backup-stores create --kind s3 --name offsite --endpoint https://s3.example.org --bucket panel --access-key AKEXAMPLE --secret-file secret',
        'panel backup-stores create --kind local --name nas --folder nas',
      ],
      endpoints: ['backup_stores.create'],
      exits: [7, 8, 14],
      load: async () => (await actions()).createStore,
    }),
    command({
      name: 'edit',
      summary: 'Edit a backup store; what is not named stays',
      details: SECRETS,
      arguments: [one('backupStore', 'store')],
      options: [NAME, ...PLACE, BODY_FILE],
      examples: [
        'panel backup-stores edit offsite --access-key AKNEW --secret-stdin < secret',
        'panel backup-stores edit offsite --default',
      ],
      endpoints: ['backup_stores.update'],
      exits: [6, 7, 8, 14],
      load: async () => (await actions()).editStore,
    }),
    command({
      name: 'delete',
      summary: 'Remove a backup store that nothing uses; what lies there stays',
      arguments: [one('backupStore', 'store')],
      options: DELETE,
      examples: ['panel backup-stores delete offsite --yes'],
      endpoints: ['backup_stores.delete'],
      exits: [6, 7],
      load: async () => (await actions()).deleteStore,
    }),
    command({
      name: 'defaults',
      summary: 'List locations, nodes and servers that have a backup store of their own as default',
      options: LIST,
      examples: ['panel backup-stores defaults'],
      endpoints: ['backup_stores.defaults'],
      load: async () => (await actions()).listDefaults,
    }),
    command({
      name: 'set-default',
      summary: 'Say where new backups of a location, a node, a server, or of everything else go',
      arguments: [{ ...one('backupStore', 'store'), optional: true }],
      options: [
        { flags: '--location <location>', summary: 'of the servers of this location', ref: 'location' },
        { flags: '--node <node>', summary: 'of the servers of this node', ref: 'node' },
        { flags: '--server <server>', summary: 'of this server', ref: 'server' },
        { flags: '--unset', summary: 'instead of a store: as what is above it says' },
      ],
      examples: [
        'panel backup-stores set-default offsite',
        'panel backup-stores set-default offsite --node node-1',
        'panel backup-stores set-default --unset --node node-1',
      ],
      endpoints: ['backup_stores.set_default'],
      exits: [6, 7],
      load: async () => (await actions()).setDefault,
    }),
    command({
      name: 'test',
      summary: 'Try everything that a backup store must be able to do; exit 11 when it cannot be used',
      arguments: [one('backupStore', 'store')],
      options: [{ flags: '--node <node>', summary: 'from this node as well', ref: 'node' }],
      examples: ['panel backup-stores test offsite', 'panel backup-stores test offsite --node node-1'],
      endpoints: ['backup_stores.test'],
      exits: [6, 11],
      load: async () => (await actions()).testStore,
    }),
  ],
})
