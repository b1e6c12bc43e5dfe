import { command, noun } from '../../kit/command.ts'

export const events = noun({
  name: 'events',
  aliases: ['event'],
  summary: 'What happens on the panel',
  group: 'Core',
  children: [
    command({
      name: 'tail',
      summary:
        'Follow what happens to users, nodes, servers and settings; each event only to whom its permission belongs',
      options: [
        { flags: '--type <glob>', summary: "only these types: 'server_*'", repeat: true },
        { flags: '--server <server>', summary: 'only those of this server', ref: 'server' },
        { flags: '--after-cursor <id>', summary: 'begin after this event' },
      ],
      examples: ['panel events tail', "panel events tail --type 'server_*' -o jsonl"],
      endpoints: ['admin.events'],
      exits: [9],
      load: async () => (await import('./follow.ts')).tailEvents,
    }),
  ],
})
