import { type Argument, command, noun, type Option } from '../../kit/command.ts'
import { DELETE, IDEMPOTENCY, LIST, reference, YES } from '../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

const ALERT: Argument = { name: 'alert', summary: 'its id: panel alerts list -o id' }
const MINE: Option = { flags: '--mine', summary: 'only of your own rules and servers' }
const SOME = 'alert_01k5w0c9v7f3tqz8m2n4r6x8ya'

export const alerts = noun({
  name: 'alerts',
  aliases: ['alert'],
  summary: 'What alert rules have noticed',
  group: 'Core',
  children: [
    command({
      name: 'list',
      summary: 'List alerts, newest first',
      options: [
        { flags: '--open', summary: 'only those that are open' },
        { flags: '--resolved', summary: 'only those that are resolved' },
        {
          flags: '--severity <severity>',
          summary: 'only those',
          choices: ['info', 'warning', 'critical'],
          field: 'severity',
        },
        {
          flags: '--type <type>',
          summary: 'only those',
          choices: [
            'resource_threshold',
            'node_offline',
            'server_crashed',
            'backup_failed',
            'backup_overdue',
            'custom',
          ],
          field: 'type',
        },
        reference('--server <server>', 'only about this server', 'serverId', 'server'),
        reference('--node <node>', 'only about this node', 'nodeId', 'node'),
        MINE,
        ...LIST,
      ],
      examples: ['panel alerts list --open', 'panel alerts list --severity critical --server demo'],
      endpoints: ['alerts.list'],
      load: async () => (await actions()).listAlerts,
    }),
    command({
      name: 'view',
      summary: 'Show an alert with the messages about it',
      arguments: [ALERT],
      examples: [`panel alerts view ${SOME}`],
      endpoints: ['alerts.get'],
      exits: [6],
      load: async () => (await actions()).viewAlert,
    }),
    command({
      name: 'deliveries',
      summary: 'List the messages about an alert: to whom, and whether they arrived',
      arguments: [ALERT],
      examples: [`panel alerts deliveries ${SOME}`],
      endpoints: ['alerts.deliveries'],
      exits: [6],
      load: async () => (await actions()).alertDeliveries,
    }),
    command({
      name: 'stats',
      summary: 'Count alerts; by severity and type those that are open',
      options: [MINE],
      examples: ['panel alerts stats', 'panel alerts stats --jq .unresolved'],
      endpoints: ['alerts.stats'],
      load: async () => (await actions()).alertStats,
    }),
    command({
      name: 'resolve',
      summary: 'Mark an alert as resolved',
      arguments: [ALERT],
      options: [IDEMPOTENCY],
      examples: [`panel alerts resolve ${SOME}`],
      endpoints: ['alerts.resolve'],
      exits: [6],
      load: async () => (await actions()).resolveAlert,
    }),
    command({
      name: 'resolve-all',
      summary: 'Mark several alerts as resolved, all or none',
      arguments: [{ ...ALERT, summary: 'their ids', many: true }],
      options: [YES, IDEMPOTENCY],
      examples: [`panel alerts resolve-all ${SOME} alert_01k5w0d3q2e8rvn5h7j9p4t6wz --yes`],
      endpoints: ['alerts.bulk_resolve'],
      exits: [6, 8],
      load: async () => (await actions()).resolveAlerts,
    }),
    command({
      name: 'delete',
      summary: 'Delete an alert with the log of its messages',
      arguments: [ALERT],
      options: DELETE,
      examples: [`panel alerts delete ${SOME} --yes`],
      endpoints: ['alerts.delete'],
      exits: [6],
      load: async () => (await actions()).deleteAlert,
    }),
  ],
})
