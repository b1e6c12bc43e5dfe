import { command, noun, type Option } from '../../kit/command.ts'
import { YES } from '../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

const DETAILED: Option = {
  flags: '--detailed-exitcode',
  summary: 'exit 10 when something is not well',
}

export const dashboard = command({
  name: 'dashboard',
  group: 'Core',
  summary: 'Show what there is, how busy it is and what was done last',
  details:
    'Shows what is yours: servers and nodes by your rights, what was done in your name unless you hold admin.read.',
  options: [{ flags: '--limit <n>', summary: 'how many things that were done (default 5, at most 20)' }],
  examples: ['panel dashboard', 'panel dashboard --json stats --jq .stats.serversOnline'],
  endpoints: ['dashboard.stats', 'dashboard.resources', 'dashboard.activity'],
  load: async () => (await import('./dashboard.ts')).showDashboard,
})

export const stats = command({
  name: 'stats',
  group: 'Administration',
  summary: 'Count users, servers and nodes',
  examples: ['panel stats', 'panel stats --jq .serversByStatus.running'],
  endpoints: ['overview.stats'],
  load: async () => (await actions()).showStats,
})

const DATA_DIR: Option = { flags: '--data-dir <folder>', summary: 'the data folder' }

export const health = command({
  name: 'health',
  group: 'Administration',
  summary: 'Show whether the panel and its nodes are well',
  options: [DETAILED],
  examples: ['panel health', 'panel health --detailed-exitcode --quiet'],
  endpoints: ['overview.health'],
  exits: [10],
  load: async () => (await actions()).showHealth,
})

export const db = noun({
  name: 'db',
  summary: 'The database of the panel',
  group: 'Administration',
  children: [
    command({
      name: 'status',
      summary: 'Show size, migrations and state of the database',
      details:
        'With --check the whole file is checked first, while the panel goes on; exit 11 when it is damaged or could not be ' +
        'checked. A check of the last minute is not made again.',
      options: [
        { flags: '--check', summary: 'check the whole file' },
        {
          flags: '--timeout <duration>',
          summary: 'how long to wait for the check (default 10m); exit 124 when it passes',
        },
        DETAILED,
      ],
      examples: ['panel db status', 'panel db status --check', 'panel db status --jq .sizeBytes'],
      endpoints: ['overview.db_status'],
      exits: [10, 11, 124],
      load: async () => (await actions()).showDbStatus,
    }),
    command({
      name: 'check',
      summary: 'Check the files of the database of this machine, and list the copies to go back to',
      details:
        'Reads the database and every copy that upgrades have made through, without the panel and without changing them; ' +
        'exit 11 when the database is damaged, missing or that of another program.',
      options: [DATA_DIR],
      examples: ['panel db check', 'panel db check --data-dir /var/lib/panel -o json'],
      exits: [11, 14],
      load: async () => (await import('../host/database.ts')).checkDatabase,
    }),
    command({
      name: 'restore',
      summary: 'Put a copy in the place of the database of this machine',
      details:
        'The panel must be stopped; games run on. The data folder must be there. The copy is a file, or the name of one that `panel db check` lists. It is ' +
        'checked first, and the database that was there is kept beside the new one. What happened after the copy was made ' +
        'is not in it.',
      arguments: [{ name: 'copy', summary: 'the copy: a file, or a name that `panel db check` lists' }],
      options: [DATA_DIR, YES],
      examples: ['panel db restore before-v12-2026-03-01T10-00-00-000Z.db', 'panel db restore /backup/panel.db --yes'],
      exits: [6, 7, 8, 14],
      load: async () => (await import('../host/database.ts')).restoreDatabase,
    }),
  ],
})
