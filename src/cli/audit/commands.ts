import { command, noun } from '../command.ts'
import { field, LIST, reference } from '../option-sets.ts'

export const audit = noun({
  name: 'audit',
  summary: 'Who changed what, from where',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List the audit log, newest first',
      options: [
        reference('--user <user>', 'only what this account did', 'userId', 'user'),
        field('--action <text>', 'only actions that contain this: server.', 'action'),
        field('--resource <kind>', 'only this kind of thing', 'resource'),
        field('--resource-id <id>', 'only this thing', 'resourceId'),
        field('--request-id <id>', 'only what this request did', 'requestId'),
        { flags: '--since <when>', summary: 'from then on: ISO-8601, or a duration before now' },
        { flags: '--until <when>', summary: 'up to then: ISO-8601, or a duration before now' },
        ...LIST,
      ],
      examples: ['panel audit list --since 1d', 'panel audit list --action server.power -o jsonl'],
      endpoints: ['audit.list'],
      exits: [8],
      load: async () => (await import('./actions.ts')).listAudit,
    }),
  ],
})
