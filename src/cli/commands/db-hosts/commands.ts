import { command, noun, type Option } from '../../kit/command.ts'
import { BODY_FILE, DELETE, field, IDEMPOTENCY, LIST, one, requiring, SEARCH } from '../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

const PLACE: readonly Option[] = [
  field('--name <name>', 'its name, 3 to 100 characters', 'name'),
  field('--host <host>', 'its host name or address', 'host'),
  field('--port <port>', 'its port (default 3306, with PostgreSQL 5432)', 'port', 'int'),
  field('--user <name>', 'who makes databases and users there', 'username'),
  { flags: '--password-stdin', summary: 'read the password from stdin' },
  { flags: '--password-file <file>', summary: 'read the password from a file' },
  {
    flags: '--tls <mode>',
    summary: 'off, require, verify, or auto: off to this machine, require to others (the default)',
    choices: ['auto', 'off', 'require', 'verify'],
    field: 'tls',
  },
  { flags: '--tls-ca <file>', summary: 'certificates (PEM) to trust beside the usual ones, for verify' },
  field('--max <n>', 'how many databases it takes', 'maxDatabases', 'int'),
]

const RIGHTS = [
  "The user needs, on MySQL and MariaDB, ALL PRIVILEGES ON *.* WITH GRANT OPTION; on PostgreSQL, a role with LOGIN, CREATEDB and CREATEROLE that may connect to the database 'postgres'.",
  'On PostgreSQL every role may by default connect to databases that the panel did not make: REVOKE CONNECT ON DATABASE … FROM PUBLIC closes them.',
].join(' ')

export const dbHosts = noun({
  name: 'db-hosts',
  aliases: ['db-host'],
  summary: 'MySQL, MariaDB and PostgreSQL hosts on which servers get databases',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List database hosts, newest first',
      options: [SEARCH, ...LIST],
      examples: ['panel db-hosts list', 'panel db-hosts list --json name,databaseCount'],
      endpoints: ['database_hosts.list'],
      load: async () => (await actions()).listHosts,
    }),
    command({
      name: 'view',
      summary: 'Show a database host',
      arguments: [one('databaseHost', 'host')],
      examples: ['panel db-hosts view maria-1'],
      endpoints: ['database_hosts.get'],
      exits: [6],
      load: async () => (await actions()).viewHost,
    }),
    command({
      name: 'create',
      summary: 'Add a database host',
      details: RIGHTS,
      options: [
        {
          flags: '--engine <engine>',
          summary: 'mysql (also MariaDB, the default) or postgresql',
          choices: ['mysql', 'postgresql'],
          field: 'engine',
        },
        ...requiring(PLACE, 'name', 'host', 'user'),
        BODY_FILE,
        IDEMPOTENCY,
      ],
      examples: [
        'panel db-hosts create --name maria-1 --host db.example.org --user panel --password-stdin < password',
        'panel db-hosts create --engine postgresql --name pg-1 --host 10.0.0.7 --user panel --password-file pw --tls verify --tls-ca ca.pem',
      ],
      endpoints: ['database_hosts.create'],
      exits: [7, 8, 14],
      load: async () => (await actions()).createHost,
    }),
    command({
      name: 'edit',
      summary: 'Edit a database host; what is not named stays',
      arguments: [one('databaseHost', 'host')],
      options: [...PLACE, { flags: '--unset <name>', summary: 'max or tls-ca', repeat: true }, BODY_FILE],
      examples: ['panel db-hosts edit maria-1 --password-file new-password', 'panel db-hosts edit maria-1 --unset max'],
      endpoints: ['database_hosts.update'],
      exits: [6, 7, 8, 14],
      load: async () => (await actions()).editHost,
    }),
    command({
      name: 'delete',
      summary: 'Remove a database host on which no database is left',
      arguments: [one('databaseHost', 'host')],
      options: [
        { flags: '--force', summary: 'leave behind what is still to be removed from a host that never comes back' },
        ...DELETE,
      ],
      examples: ['panel db-hosts delete maria-1 --yes'],
      endpoints: ['database_hosts.delete'],
      exits: [6, 7],
      load: async () => (await actions()).deleteHost,
    }),
    command({
      name: 'ping',
      summary: 'Connect to a database host and report what is wrong; exit 11 when it cannot be used',
      arguments: [one('databaseHost', 'host')],
      examples: ['panel db-hosts ping maria-1', 'panel db-hosts ping maria-1 --jq .latencyMs'],
      endpoints: ['database_hosts.ping'],
      exits: [6, 11],
      load: async () => (await actions()).pingHost,
    }),
  ],
})
