import { command, noun } from '../../kit/command.ts'
import {
  BODY_FILE,
  DELETE,
  field,
  IDEMPOTENCY,
  LIST,
  one,
  prose,
  reference,
  requiring,
  SEARCH,
} from '../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

const BODY = [
  BODY_FILE,
  field('--name <name>', 'its name', 'name'),
  prose('--description <text>', 'what it is', 'description'),
  field('--startup <line>', 'the command line of its servers; {{NAME}} stands for a variable', 'startup'),
  prose('--stop-command <text>', 'what is typed into the console to stop a server', 'stopCommand'),
  field('--runtime <name>', 'process or docker, in the order of preference', 'runtimes', 'list'),
  prose('--image <image>', 'the container image', 'image'),
  reference('--nest <nest>', 'the nest that it belongs to', 'nestId', 'nest'),
]

const DETAILS =
  'The file is the body of POST /api/templates, as YAML or JSON; flags override its fields. `panel templates view OpenTTD -o yaml` ' +
  'shows every field.'

export const templates = noun({
  name: 'templates',
  aliases: ['template'],
  summary: 'What servers are made from',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List templates, newest first',
      options: [SEARCH, reference('--nest <nest>', 'only those of this nest', 'nestId', 'nest'), ...LIST],
      examples: ['panel templates list', 'panel templates list --search openttd -o name'],
      endpoints: ['templates.list'],
      load: async () => (await actions()).listTemplates,
    }),
    command({
      name: 'view',
      summary: 'Show a template',
      arguments: [one('template')],
      examples: ['panel templates view demo', 'panel templates view demo -o yaml'],
      endpoints: ['templates.get'],
      exits: [6],
      load: async () => (await actions()).viewTemplate,
    }),
    command({
      name: 'create',
      summary: 'Create a template',
      details: DETAILS,
      options: [...requiring(BODY, 'name', 'startup'), IDEMPOTENCY],
      examples: ['panel templates create -F my-game.yaml', 'panel templates create -F openttd.yaml --name openttd-14'],
      endpoints: ['templates.create'],
      exits: [6, 7, 8],
      load: async () => (await actions()).createTemplate,
    }),
    command({
      name: 'edit',
      summary: 'Edit a template; its servers take it over at their next start',
      details: DETAILS,
      arguments: [one('template')],
      options: BODY,
      examples: ['panel templates edit openttd -F openttd.yaml', 'panel templates edit openttd --stop-command quit'],
      endpoints: ['templates.update'],
      exits: [6, 7, 8],
      load: async () => (await actions()).editTemplate,
    }),
    command({
      name: 'delete',
      summary: 'Delete a template that no server uses',
      arguments: [one('template')],
      options: DELETE,
      examples: ['panel templates delete openttd --yes'],
      endpoints: ['templates.delete'],
      exits: [6, 7],
      load: async () => (await actions()).deleteTemplate,
    }),
  ],
})
