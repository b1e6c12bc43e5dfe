import { command, noun, type Option } from '../../kit/command.ts'
import { BODY_FILE, DELETE, field, IDEMPOTENCY, LIST, one, prose, requiring, SEARCH } from '../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

const TYPE: Option = {
  flags: '--type <type>',
  summary: 'what it looks for',
  choices: ['resource_threshold', 'node_offline', 'server_crashed', 'backup_failed', 'backup_overdue'],
  field: 'type',
}

const FIELDS: readonly Option[] = [
  field('--name <name>', 'its name', 'name'),
  prose('--description <text>', 'what it is for', 'description'),
  field('--cpu <percent>', 'fires from this share of the CPU on', 'cpuThreshold', 'number'),
  field('--memory <percent>', 'fires from this share of the memory on', 'memoryThreshold', 'number'),
  field('--disk <percent>', 'fires from this share of the disk on', 'diskThreshold', 'number'),
  field('--for <duration>', 'how long it must last, and be over to recover', 'durationSeconds', 'seconds'),
  field('--away <minutes>', 'how long a node must be away (default 5)', 'offlineThreshold', 'int'),
  field(
    '--email <address>',
    'who is notified by mail: accounts that may read the alerts, of administrators anybody',
    'emails',
    'list',
  ),
  {
    flags: '--webhook <url>',
    summary: 'what gets a signed request',
    field: 'webhooks',
    as: 'list',
    repeat: true,
  },
  field('--notify-owner', 'notifies the owner of the server by mail', 'notifyOwner', 'boolean'),
  field('--no-create-alert', 'messages only: no alert is listed', 'createAlert', 'boolean'),
  field('--cooldown <minutes>', 'how long it keeps quiet afterwards (default 5)', 'cooldownMinutes', 'int'),
]

const RULE = one('alertRule', 'rule')

export const alertRules = noun({
  name: 'alert-rules',
  aliases: ['alert-rule'],
  summary: 'When somebody is to be notified',
  group: 'Core',
  children: [
    command({
      name: 'list',
      summary: 'List alert rules by name: your own, or with admin.read all',
      options: [
        SEARCH,
        TYPE,
        { flags: '--target <kind>', summary: 'only those', choices: ['server', 'node', 'global'], field: 'target' },
        { flags: '--enabled', summary: 'only those that look' },
        { flags: '--no-enabled', summary: 'only those that are switched off' },
        { flags: '--mine', summary: 'only your own' },
        ...LIST,
      ],
      examples: ['panel alert-rules list', 'panel alert-rules list --type node_offline'],
      endpoints: ['alert_rules.list'],
      load: async () => (await actions()).listRules,
    }),
    command({
      name: 'view',
      summary: 'Show an alert rule',
      arguments: [RULE],
      examples: ["panel alert-rules view 'Node away'"],
      endpoints: ['alert_rules.get'],
      exits: [6],
      load: async () => (await actions()).viewRule,
    }),
    command({
      name: 'create',
      summary: 'Create an alert rule; for a server with alert.create there, for nodes and all with admin.write',
      details: 'The secret that requests to its webhooks are signed with is shown this once.',
      options: [
        ...requiring([...FIELDS, TYPE], 'name', 'type'),
        { flags: '--server <server>', summary: 'it is about this server', ref: 'server' },
        { flags: '--node <node>', summary: 'it is about this node', ref: 'node' },
        { flags: '--global', summary: 'it is about everything of its type' },
        { flags: '--no-enabled', summary: 'do not look yet' },
        BODY_FILE,
        IDEMPOTENCY,
      ],
      examples: [
        'panel alert-rules create --name busy --type resource_threshold --server demo --cpu 90 --for 5m --notify-owner',
        'panel alert-rules create --name away --type node_offline --global --email ops@example.org',
      ],
      endpoints: ['alert_rules.create'],
      exits: [6, 7, 8, 14],
      load: async () => (await actions()).createRule,
    }),
    command({
      name: 'edit',
      summary: 'Edit an alert rule; conditions and actions that are not named stay',
      arguments: [RULE],
      options: [
        ...FIELDS,
        { flags: '--enabled', summary: 'look again' },
        { flags: '--no-enabled', summary: 'do not look any more; its open alerts are resolved' },
        BODY_FILE,
      ],
      examples: ['panel alert-rules edit busy --cpu 80', 'panel alert-rules edit busy --no-enabled'],
      endpoints: ['alert_rules.update'],
      exits: [6, 8, 14],
      load: async () => (await actions()).editRule,
    }),
    command({
      name: 'delete',
      summary: 'Delete an alert rule; its open alerts are resolved',
      arguments: [RULE],
      options: DELETE,
      examples: ['panel alert-rules delete busy --yes'],
      endpoints: ['alert_rules.delete'],
      exits: [6],
      load: async () => (await actions()).deleteRule,
    }),
    command({
      name: 'test',
      summary: 'Send a test message to everybody whom an alert rule notifies',
      arguments: [RULE],
      options: [IDEMPOTENCY],
      examples: ['panel alert-rules test busy'],
      endpoints: ['alert_rules.test'],
      exits: [6],
      load: async () => (await actions()).testRule,
    }),
  ],
})
