import { command, noun, type Option } from '../../kit/command.ts'
import { field, LIST, reference } from '../../kit/option-sets.ts'
import { DOWNLOAD, FORMAT } from '../../kit/resource/download-options.ts'

const WHAT: readonly Option[] = [
  reference('--user <user>', 'only what this account did', 'userId', 'user'),
  field('--action <text>', 'only actions that contain this: server.', 'action'),
  field('--resource <kind>', 'only this kind of thing', 'resource'),
  field('--resource-id <id>', 'only this thing', 'resourceId'),
  field('--address <ip>', 'only what came from this address', 'address'),
]
const FILTER: readonly Option[] = [
  ...WHAT,
  field('--request-id <id>', 'only what this request did', 'requestId'),
  { flags: '--since <when>', summary: 'from then on: ISO-8601, or a duration before now' },
  { flags: '--until <when>', summary: 'up to then: ISO-8601, or a duration before now' },
]

export const audit = noun({
  name: 'audit',
  summary: 'Who changed what, from where',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List the audit log, newest first',
      options: [...FILTER, ...LIST],
      examples: ['panel audit list --since 1d', 'panel audit list --action server.power -o jsonl'],
      endpoints: ['audit.list'],
      exits: [8],
      load: async () => (await import('./actions.ts')).listAudit,
    }),
    command({
      name: 'view',
      summary: 'Show one row of the audit log',
      arguments: [{ name: 'row', summary: 'the id of the row: panel audit list -o id' }],
      examples: ['panel audit view aud_01k5w0c9v7f3tqz8m2n4r6x8ya -o yaml'],
      endpoints: ['audit.get'],
      exits: [6],
      load: async () => (await import('./actions.ts')).viewAudit,
    }),
    command({
      name: 'tail',
      summary: 'Follow the audit log',
      options: [...WHAT, { flags: '--tail <n>', summary: 'begin with the last n rows (default 10)' }],
      examples: ['panel audit tail', 'panel audit tail --action auth. --tail 0 -o jsonl'],
      load: async () => (await import('./actions.ts')).tailAudit,
    }),
    command({
      name: 'export',
      summary: 'Export the audit log, newest first, as CSV, JSON lines or JSON; needs admin.write',
      options: [FORMAT, ...FILTER, ...DOWNLOAD],
      examples: [
        'panel audit export --format jsonl --out audit.jsonl',
        'panel audit export --since 30d | gzip > audit.csv.gz',
      ],
      endpoints: ['audit.export'],
      exits: [8],
      load: async () => (await import('./actions.ts')).exportAudit,
    }),
    command({
      name: 'verify',
      summary: 'Check that no row of the audit log was altered or removed',
      details:
        'Each row carries a hash over itself and the row before. A row that was altered or removed outside of the panel ' +
        'breaks this chain: exit 11 names the first such row. Somebody who can write to the database can also compute the ' +
        'chain anew from a row on. Keep what this command prints at its end in another place and give it to --expect later: ' +
        'that proves everything up to that row.',
      options: [{ flags: '--expect <proof>', summary: 'a row and its hash as an earlier run printed them' }],
      examples: [
        'panel audit verify',
        'panel audit verify --expect 1204:60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752',
        'panel audit verify -o json --jq .proof',
      ],
      endpoints: ['audit.verify'],
      exits: [8, 11],
      load: async () => (await import('./verify.ts')).verifyAudit,
    }),
  ],
})
