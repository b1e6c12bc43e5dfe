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
import { sources } from './sources/commands.ts'

const actions = () => import('./actions.ts')
const fileActions = () => import('./file-actions.ts')

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
  'shows every field. An egg of Pterodactyl or Pelican in the file is imported.'

const FILE = { name: 'file', summary: 'a template or an egg, YAML or JSON; - is stdin' }

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
      name: 'catalog',
      summary: 'List the templates that come with the panel',
      details: 'NEEDS is what a node must have for its servers. -o wide says what each is, and what else it needs.',
      examples: ['panel templates catalog', 'panel templates catalog -o wide'],
      endpoints: ['templates.catalog'],
      load: async () => (await actions()).listCatalog,
    }),
    command({
      name: 'install',
      summary: 'Add a template of the catalogue, or bring it up to date',
      details: 'What people have edited is not overwritten without --force; its name and nest stay in any case.',
      arguments: [{ name: 'name', summary: 'what the catalogue calls it' }],
      options: [
        { flags: '--force', summary: 'overwrite a template that was edited', field: 'force', as: 'boolean' },
        IDEMPOTENCY,
      ],
      examples: ['panel templates install bzflag', 'panel templates install openttd --force'],
      endpoints: ['templates.install'],
      exits: [6, 7],
      load: async () => (await actions()).installTemplate,
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
      name: 'import',
      summary: 'Import an egg of Pterodactyl or Pelican as a template',
      details:
        'The versions PTDL_v1, PTDL_v2 and PLCN_v1 to PLCN_v3 are read, as JSON or YAML. What became of fields that this panel ' +
        'does not use, or uses otherwise, is written behind the template. `panel templates edit NAME -F egg.json` brings a template that exists up to date.',
      arguments: [{ name: 'file', summary: 'the egg; - is stdin' }],
      options: [
        field('--name <name>', 'its name here (default: that of the egg)', 'name'),
        reference('--nest <nest>', 'the nest that it belongs to', 'nestId', 'nest'),
        IDEMPOTENCY,
      ],
      examples: [
        'panel templates import egg-paper.json',
        'panel templates import - --name paper --nest Minecraft < egg.yaml',
      ],
      endpoints: ['templates.import_egg'],
      exits: [6, 7, 8],
      load: async () => (await actions()).importEgg,
    }),
    command({
      name: 'export',
      summary: 'Export a template as a file that another panel can import',
      details:
        'An imported egg comes out as it went in, but for what was edited since. The text goes to stdout: JSON, or YAML with -o yaml.',
      arguments: [one('template')],
      options: [
        {
          flags: '--format <format>',
          summary: 'panel, egg (as it was imported), or a version of eggs (default panel)',
          choices: ['panel', 'egg', 'PTDL_v1', 'PTDL_v2', 'PLCN_v1', 'PLCN_v2', 'PLCN_v3'],
          field: 'format',
        },
      ],
      examples: ['panel templates export paper --format egg > egg-paper.json', 'panel templates export paper -o yaml'],
      endpoints: ['templates.export'],
      exits: [6],
      load: async () => (await actions()).exportTemplate,
    }),
    command({
      name: 'lint',
      summary: 'Say what the panel makes of a file with a template or an egg',
      details: 'No panel is asked. A file that a panel would refuse ends with exit code 8 and all reasons.',
      arguments: [FILE],
      examples: ['panel templates lint egg-paper.json', 'panel templates lint my-game.yaml -o json'],
      exits: [8],
      load: async () => (await fileActions()).lintTemplate,
    }),
    command({
      name: 'test',
      summary: 'Show what a server of a template would be started with',
      details:
        'Prints the startup line as the shell gets it, its variables, and what is set in its configuration files. No panel is asked, and nothing is run.',
      arguments: [FILE],
      options: [
        { flags: '-e, --env <name=value>', summary: 'the value of a variable', repeat: true },
        { flags: '--startup <name>', summary: 'a further startup line of the template' },
        { flags: '--ip <address>', summary: 'the address of the server (default 0.0.0.0)' },
        { flags: '--port <port>', summary: "the port of the server (default: the template's first)" },
      ],
      examples: ['panel templates test egg-paper.json -e SERVER_JARFILE=paper.jar --port 25570'],
      exits: [8],
      load: async () => (await fileActions()).testTemplate,
    }),
    command({
      name: 'diff',
      summary: 'Show what two files with templates or eggs say otherwise',
      details: 'Formats do not matter: each is compared as the template that it is or becomes. No panel is asked.',
      arguments: [
        { name: 'from', summary: 'a template or an egg; - is stdin' },
        { name: 'to', summary: 'another one' },
      ],
      examples: ['panel templates diff egg-paper.json egg-paper-new.json'],
      exits: [8],
      load: async () => (await fileActions()).diffTemplates,
    }),
    sources,
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
