import { type Argument, command, noun } from '../../kit/command.ts'
import { IDEMPOTENCY, LIST, YES } from '../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

const PLUGIN: Argument = { name: 'plugin', summary: 'its name: panel plugins list -o name' }

export const plugins = noun({
  name: 'plugins',
  aliases: ['plugin'],
  summary: 'Programs that extend the panel',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List the plugins of the data folder by name',
      options: [...LIST],
      examples: ['panel plugins list', 'panel plugins list -o wide'],
      endpoints: ['plugins.list'],
      load: async () => (await actions()).listPlugins,
    }),
    command({
      name: 'view',
      summary: 'Show a plugin with its configuration, routes and tasks',
      arguments: [PLUGIN],
      examples: ['panel plugins view greeter', 'panel plugins view greeter --jq .configSchema'],
      endpoints: ['plugins.get'],
      exits: [6],
      load: async () => (await actions()).viewPlugin,
    }),
    command({
      name: 'enable',
      summary: 'Enable a plugin with the permissions that it asks for',
      details:
        'A plugin is trusted code: it runs in a process of its own, on the machine of the daemon. It may what you may, and only ' +
        'of the permissions that its manifest asks for; you cannot enable one that asks for more than you hold.',
      arguments: [PLUGIN],
      options: [YES, IDEMPOTENCY],
      examples: ['panel plugins enable greeter', 'panel plugins enable greeter --yes'],
      endpoints: ['plugins.enable'],
      exits: [6, 7, 8, 14],
      load: async () => (await actions()).enablePlugin,
    }),
    command({
      name: 'disable',
      summary: 'Disable a plugin: its process and its rights end, its data stays',
      arguments: [PLUGIN],
      options: [IDEMPOTENCY],
      examples: ['panel plugins disable greeter'],
      exits: [6],
      load: async () => (await actions()).disablePlugin,
    }),
    command({
      name: 'reload',
      summary: 'Read a plugin again from its folder and start it anew',
      arguments: [PLUGIN],
      options: [IDEMPOTENCY],
      examples: ['panel plugins reload greeter'],
      endpoints: ['plugins.reload'],
      exits: [6, 7, 8, 14],
      load: async () => (await actions()).reloadPlugin,
    }),
    command({
      name: 'config',
      summary: 'Show or change the configuration of a plugin; it starts anew with a change',
      arguments: [PLUGIN],
      options: [
        {
          flags: '--set <field=value>',
          summary: 'set a field: numbers, true, false, null, lists and objects as JSON, else a text; may be repeated',
          repeat: true,
        },
        { flags: '--unset <field>', summary: 'remove a field; may be repeated', repeat: true },
        {
          flags: '--secret <field>',
          summary: 'set a secret field, whose value comes by one of the next two or is asked for',
        },
        { flags: '--secret-stdin', summary: 'read the secret from stdin' },
        { flags: '--secret-file <file>', summary: 'read the secret from a file' },
        { flags: '-F, --file <file>', summary: 'take the whole configuration from a YAML or JSON file, - is stdin' },
      ],
      examples: [
        'panel plugins config greeter',
        'panel plugins config greeter --set greeting=Hi --set loud=true',
        'panel plugins config greeter --secret signature --secret-stdin < signature.txt',
      ],
      endpoints: ['plugins.config'],
      exits: [6, 7, 8, 14],
      load: async () => (await actions()).configPlugin,
    }),
  ],
})
