import { command, noun, type Option } from '../../kit/command.ts'
import { DELETE, field, IDEMPOTENCY, LIST, reference, WAIT } from '../../kit/option-sets.ts'
import { DOWNLOAD } from '../../kit/resource/download-options.ts'

const actions = () => import('./actions.ts')
const offline = () => import('./restore.ts')

const BACKUP = { name: 'backup', summary: 'the id of the backup' }
const STORE = reference(
  '--store <store>',
  'where it goes (default: the store of the schedule, else the default one)',
  'storeId',
  'backupStore',
)

const PASSPHRASE: readonly Option[] = [
  { flags: '--passphrase-stdin', summary: 'read the passphrase of the credential key from stdin' },
  { flags: '--passphrase-file <file>', summary: 'read the passphrase of the credential key from a file' },
]

const BUCKET: readonly Option[] = [
  { flags: '--endpoint <url>', summary: 'the backup is in a bucket of S3 there' },
  { flags: '--bucket <bucket>', summary: 'the bucket' },
  { flags: '--prefix <prefix>', summary: 'the prefix of the store (default: none)' },
  { flags: '--region <region>', summary: 'its region (default us-east-1)' },
  { flags: '--access-key <id>', summary: 'the id of the access key' },
  { flags: '--secret-key-stdin', summary: 'read the secret access key from stdin' },
  { flags: '--secret-key-file <file>', summary: 'read the secret access key from a file' },
]

const KEY =
  'The credential key opens what is sealed in the database: passwords of database hosts and the mail server, second factors. It is in a ' +
  'backup only with --with-key, sealed by a passphrase of at least 12 characters, which comes from stdin, a file or the variable ' +
  'PANEL_BACKUP_PASSPHRASE and is stored nowhere: without it the key cannot be had from the backup.'

export const selfBackup = noun({
  name: 'self-backup',
  aliases: ['self-backups'],
  summary: 'Backups of the panel itself, and how a panel is made of one',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List backups of the panel, newest first',
      options: [
        {
          flags: '--status <status>',
          summary: 'only these',
          choices: ['pending', 'completed', 'failed'],
          field: 'status',
        },
        ...LIST,
      ],
      examples: ['panel self-backup list', 'panel self-backup list --status completed --json name,address'],
      endpoints: ['self_backups.list'],
      load: async () => (await actions()).listBackups,
    }),
    command({
      name: 'view',
      summary: 'Show a backup of the panel',
      arguments: [BACKUP],
      examples: ['panel self-backup view pbk_01kd3x5y7w8z9a0b1c2d3e4f5g'],
      endpoints: ['self_backups.get'],
      exits: [6],
      load: async () => (await actions()).viewBackup,
    }),
    command({
      name: 'create',
      summary: 'Back the panel up while it goes on: its database with all settings',
      details: KEY,
      options: [
        STORE,
        { flags: '--with-key', summary: 'with the credential key, sealed by a passphrase' },
        ...PASSPHRASE,
        ...WAIT,
        IDEMPOTENCY,
      ],
      examples: [
        'panel self-backup create',
        'panel self-backup create --store offsite --with-key --passphrase-file passphrase',
      ],
      endpoints: ['self_backups.create'],
      exits: [6, 11, 14, 124],
      load: async () => (await actions()).createBackup,
    }),
    command({
      name: 'verify',
      summary: 'Read a backup through: its hashes, and the database in it; exit 11 when it is damaged',
      details: 'An id is looked at by the panel; a file, or an archive in a bucket (its name, or latest), without one.',
      arguments: [{ name: 'backup', summary: 'an id, a file, or the name of an archive in a bucket' }],
      options: BUCKET,
      examples: [
        'panel self-backup verify pbk_01kd3x5y7w8z9a0b1c2d3e4f5g',
        'panel self-backup verify ./panel-20261123T030000Z-2d3e4f5g.tar.gz',
      ],
      endpoints: ['self_backups.verify'],
      exits: [6, 7, 11],
      load: async () => (await offline()).verifyBackup,
    }),
    command({
      name: 'download',
      summary: 'Download a backup of the panel',
      arguments: [BACKUP],
      options: DOWNLOAD,
      examples: ['panel self-backup download pbk_01kd3x5y7w8z9a0b1c2d3e4f5g --out panel.tar.gz'],
      endpoints: ['self_backups.download'],
      exits: [6, 7, 11],
      load: async () => (await actions()).downloadBackup,
    }),
    command({
      name: 'delete',
      summary: 'Delete a backup of the panel, in its store as well',
      arguments: [BACKUP],
      options: DELETE,
      examples: ['panel self-backup delete pbk_01kd3x5y7w8z9a0b1c2d3e4f5g --yes'],
      endpoints: ['self_backups.delete'],
      exits: [6, 7, 11],
      load: async () => (await actions()).deleteBackup,
    }),
    command({
      name: 'schedule',
      summary: 'Say when the panel backs itself up, where to, and how many are kept',
      details: `The times are in the time zone of the panel. One that was missed is made at the next start. ${KEY}`,
      options: [
        field('--cron <cron>', 'when: five fields of cron', 'cron'),
        { flags: '--off', summary: 'never by itself' },
        STORE,
        { flags: '--default-store', summary: 'to the default store, whichever that is' },
        field('--keep <count>', 'how many of them are kept (default 14)', 'keep', 'int'),
        { flags: '--with-key', summary: 'with the credential key, sealed by a passphrase' },
        ...PASSPHRASE,
        { flags: '--without-key', summary: 'without the credential key' },
      ],
      examples: [
        "panel self-backup schedule --cron '30 3 * * *' --store offsite --keep 30",
        'panel self-backup schedule --off',
      ],
      endpoints: ['self_backups.set_schedule'],
      exits: [6, 7, 8, 14],
      load: async () => (await actions()).setSchedule,
    }),
    command({
      name: 'view-schedule',
      summary: 'Show when the panel backs itself up',
      examples: ['panel self-backup view-schedule'],
      endpoints: ['self_backups.schedule'],
      load: async () => (await actions()).viewSchedule,
    }),
    command({
      name: 'restore',
      summary: 'Make a panel of a backup, on a machine that has none',
      details:
        'Needs no panel, only the data folder that it is to have, which must not have one yet. The backup is read through first. Start the ' +
        'daemon at its old address afterwards: nodes connect again by themselves, and games never stop. Work that was under way when ' +
        'the backup was made is shown as cancelled; what happened after it is not in it. The credential key is written to credential.key ' +
        'in the data folder, where `panel up` looks; for `panel daemon run` name it by PANEL_CREDENTIAL_KEY_FILE.',
      arguments: [{ name: 'backup', summary: 'a file, or with --endpoint the name of an archive there, or latest' }],
      options: [
        { flags: '--data-dir <folder>', summary: 'the data folder of the panel that it becomes' },
        ...BUCKET,
        ...PASSPHRASE,
        { flags: '--without-key', summary: 'leave the credential key in the backup' },
      ],
      examples: [
        'panel self-backup restore panel-20261123T030000Z-2d3e4f5g.tar.gz --data-dir /var/lib/panel --passphrase-file passphrase',
        'panel self-backup restore latest --endpoint https://s3.example.org --bucket backups --access-key AKEXAMPLE --secret-key-file secret',
      ],
      exits: [6, 7, 8, 11, 14],
      load: async () => (await offline()).restoreBackup,
    }),
  ],
})
