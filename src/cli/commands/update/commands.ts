import { command, noun } from '../../kit/command.ts'

const actions = () => import('./actions.ts')

export const update = noun({
  name: 'update',
  aliases: ['updates'],
  summary: 'Newer versions of the panel',
  group: 'Administration',
  children: [
    command({
      name: 'check',
      summary: 'Show whether there is a newer version; exit 14 when nobody can say',
      options: [{ flags: '--detailed-exitcode', summary: 'exit 10 when there is one' }],
      examples: ['panel update check', 'panel update check --jq .latestVersion'],
      endpoints: ['update.check'],
      exits: [10, 14],
      load: async () => (await actions()).check,
    }),
    command({
      name: 'status',
      summary: 'Show the installed and the newest version',
      details:
        'The newest version is announced by the feed that updates.feedUrl in the configuration of the daemon names. The panel does ' +
        'not change its own program: stop it, install the other version the way this one was installed, start it. The ' +
        'database is copied before its schema changes.',
      options: [
        { flags: '--detailed-exitcode', summary: 'exit 10 when there is a newer version, 14 when nobody can say' },
      ],
      examples: ['panel update status', 'panel update status --detailed-exitcode --quiet'],
      endpoints: ['update.status'],
      exits: [10, 14],
      load: async () => (await actions()).status,
    }),
    command({
      name: 'watch',
      summary: 'Follow an update until it has ended; exit 11 when it failed',
      options: [
        { flags: '--interval <duration>', summary: 'how often to look (default 1s)' },
        { flags: '--once', summary: 'show how it stands now' },
      ],
      examples: ['panel update watch', 'panel update watch --once -o json'],
      endpoints: ['update.state'],
      exits: [11],
      load: async () => (await actions()).watch,
    }),
  ],
})
