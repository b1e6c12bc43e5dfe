import { command, noun, type Option } from '../../kit/command.ts'
import { field, IDEMPOTENCY, LIST, one, reference, YES } from '../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

const WHICH = { name: 'database', summary: 'its name, its id, or the beginning of the id' }
const SHOW: Option = { flags: '--show-password', summary: 'show the password, which is masked otherwise' }

export const databases = noun({
  name: 'databases',
  aliases: ['database'],
  summary: 'Databases of servers',
  group: 'Core',
  children: [
    command({
      name: 'list',
      summary: 'List the databases of a server',
      arguments: [one('server')],
      options: [SHOW, ...LIST],
      examples: ['panel databases list demo', 'panel databases list demo --show-password -o json'],
      endpoints: ['databases.list'],
      exits: [6, 7],
      load: async () => (await actions()).listDatabases,
    }),
    command({
      name: 'view',
      summary: 'Show a database of a server',
      arguments: [one('server'), WHICH],
      options: [SHOW],
      examples: ['panel databases view demo shop --show-password'],
      endpoints: ['databases.get'],
      exits: [6, 7],
      load: async () => (await actions()).viewDatabase,
    }),
    command({
      name: 'create',
      summary: 'Create a database for a server, with a user that may use this one alone',
      details:
        'Without --host the host with the fewest databases is taken, without --name a name that cannot be guessed.',
      arguments: [one('server')],
      options: [
        reference('--host <host>', 'where: id, or name with admin.read', 'hostId', 'databaseHost'),
        field('--name <name>', 'a letter and 2 to 31 more letters, digits or _', 'name'),
        field('--remote <addresses>', 'from where its user may connect: 10.0.0.5, 10.0.0.0/8 (default %)', 'remote'),
        SHOW,
        IDEMPOTENCY,
      ],
      examples: [
        'panel databases create demo',
        'panel databases create demo --host maria-1 --name shop --show-password',
      ],
      endpoints: ['databases.create'],
      exits: [6, 7, 8, 11, 14],
      load: async () => (await actions()).createDatabase,
    }),
    command({
      name: 'rotate',
      summary: 'Give the user of a database a new password',
      details:
        'A database that the panel does not manage (MANAGED: no) keeps its password, because whoever else uses it has the old one; --force sets it all the same.',
      arguments: [one('server'), WHICH],
      options: [
        { flags: '--force', summary: 'also of a database that the panel does not manage', fills: 'force' },
        SHOW,
        IDEMPOTENCY,
      ],
      examples: ['panel databases rotate demo shop --show-password'],
      endpoints: ['databases.rotate'],
      exits: [6, 7, 11, 14],
      load: async () => (await actions()).rotateDatabase,
    }),
    command({
      name: 'adopt',
      summary: 'Take over a database that a migration has recorded, so that the panel manages it as its own',
      details:
        'Only once nobody else uses it, such as the panel that the server was moved from: from then on it is dropped when it or its server is deleted here.',
      arguments: [one('server'), WHICH],
      options: [SHOW, YES, IDEMPOTENCY],
      examples: ['panel databases adopt demo s1_shop', 'panel databases adopt demo s1_shop --yes'],
      endpoints: ['databases.adopt'],
      exits: [6],
      load: async () => (await actions()).adoptDatabase,
    }),
    command({
      name: 'delete',
      summary: 'Delete a database of a server with all its data; on a host that is away, as soon as it is back',
      details:
        'A database that the panel does not manage (MANAGED: no) is only forgotten here and stays on its host. --drop removes it there as well; that takes admin.write.',
      arguments: [one('server'), WHICH],
      options: [
        { flags: '--drop', summary: 'from its host also where the panel does not manage it', fills: 'drop' },
        { flags: '--confirm <name>', summary: 'the name of the database, in the place of the question' },
        { flags: '--ignore-not-found', summary: 'exit 0 when it is not there' },
      ],
      examples: ['panel databases delete demo shop --confirm shop'],
      endpoints: ['databases.delete'],
      exits: [6, 7, 11],
      load: async () => (await actions()).deleteDatabase,
    }),
  ],
})
