import { type Argument, command, noun, type Option } from '../../kit/command.ts'
import { BODY_FILE, DELETE, field, IDEMPOTENCY, LIST, one, prose, requiring, SEARCH } from '../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

const FORMAT: Option = {
  flags: '--format <format>',
  summary: 'the shape of requests (default: what the host takes)',
  choices: ['generic', 'discord', 'slack'],
  field: 'format',
}
const FIELDS: readonly Option[] = [
  field('--name <name>', 'its name', 'name'),
  prose('--description <text>', 'what it is for', 'description'),
  field('--url <url>', 'where requests go; the panel is chosen by --context or PANEL_URL here', 'url'),
  { flags: '--to <url>', summary: 'the same as --url' },
  field('--event <name>', 'what it is notified of: *, server.*, alert.created (default *)', 'events', 'list'),
  FORMAT,
  { flags: '--secret-stdin', summary: 'read the signing secret from stdin (default: the panel makes one)' },
  { flags: '--secret-file <file>', summary: 'read the signing secret from a file' },
]
const WEBHOOK = one('webhook')
const DELIVERY: Argument = { name: 'delivery', summary: 'its id: panel webhooks deliveries <webhook> -o id' }
const SOME = 'dlv_01k5w0c9v7f3tqz8m2n4r6x8ya'

export const webhooks = noun({
  name: 'webhooks',
  aliases: ['webhook'],
  summary: 'Receivers that are notified of events by HTTP',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List webhooks by name',
      options: [
        SEARCH,
        { flags: '--enabled', summary: 'only those that are notified' },
        { flags: '--no-enabled', summary: 'only those that are switched off' },
        ...LIST,
      ],
      examples: ['panel webhooks list', 'panel webhooks list --no-enabled'],
      endpoints: ['webhooks.list'],
      load: async () => (await actions()).listWebhooks,
    }),
    command({
      name: 'view',
      summary: 'Show a webhook',
      arguments: [WEBHOOK],
      examples: ['panel webhooks view chat'],
      endpoints: ['webhooks.get'],
      exits: [6],
      load: async () => (await actions()).viewWebhook,
    }),
    command({
      name: 'create',
      summary: 'Create a webhook; events need the permission to read what they report',
      details: 'Prints the signing secret, alone on stdout and this once, unless you give one yourself.',
      options: [
        ...requiring(FIELDS, 'name', 'url'),
        { flags: '--no-enabled', summary: 'send it nothing yet' },
        BODY_FILE,
        IDEMPOTENCY,
      ],
      examples: [
        "panel webhooks create --name chat --url https://hooks.example.org/panel --event 'server.*' --event 'alert.*'",
      ],
      endpoints: ['webhooks.create'],
      exits: [8, 14],
      load: async () => (await actions()).createWebhook,
    }),
    command({
      name: 'edit',
      summary: 'Edit a webhook; switched on it begins anew, switched off what waits is given up',
      arguments: [WEBHOOK],
      options: [
        ...FIELDS,
        { flags: '--rotate-secret', summary: 'make a new signing secret and print it' },
        { flags: '--enabled', summary: 'switch it on' },
        { flags: '--no-enabled', summary: 'switch it off' },
        BODY_FILE,
      ],
      examples: ["panel webhooks edit chat --event 'alert.*'", 'panel webhooks edit chat --enabled'],
      endpoints: ['webhooks.update'],
      exits: [6, 8, 14],
      load: async () => (await actions()).editWebhook,
    }),
    command({
      name: 'delete',
      summary: 'Delete a webhook with its log',
      arguments: [WEBHOOK],
      options: DELETE,
      examples: ['panel webhooks delete chat --yes'],
      endpoints: ['webhooks.delete'],
      exits: [6],
      load: async () => (await actions()).deleteWebhook,
    }),
    command({
      name: 'test',
      summary: 'Send a test request to a webhook now, and show what it answers',
      arguments: [WEBHOOK],
      options: [IDEMPOTENCY],
      examples: ['panel webhooks test chat'],
      endpoints: ['webhooks.test'],
      exits: [6, 11],
      load: async () => (await actions()).testWebhook,
    }),
    command({
      name: 'deliveries',
      summary: 'List the messages to a webhook, newest first',
      arguments: [WEBHOOK],
      options: [
        { flags: '--failed', summary: 'only those that were given up' },
        field('--event <name>', 'only of this event', 'event'),
        { flags: '--since <when>', summary: 'from then on: ISO-8601, or a duration before now' },
        ...LIST,
      ],
      examples: ['panel webhooks deliveries chat --failed --since 1d'],
      endpoints: ['webhooks.deliveries'],
      exits: [6],
      load: async () => (await actions()).webhookDeliveries,
    }),
    command({
      name: 'delivery',
      summary: 'Show a message to a webhook with every attempt',
      arguments: [WEBHOOK, DELIVERY],
      examples: [`panel webhooks delivery chat ${SOME}`],
      endpoints: ['webhooks.delivery'],
      exits: [6],
      load: async () => (await actions()).webhookDelivery,
    }),
    command({
      name: 'redeliver',
      summary: 'Send a message to a webhook once more, with all its attempts',
      arguments: [WEBHOOK, DELIVERY],
      options: [IDEMPOTENCY],
      examples: [`panel webhooks redeliver chat ${SOME}`],
      endpoints: ['webhooks.redeliver'],
      exits: [6, 7],
      load: async () => (await actions()).redeliver,
    }),
  ],
})
