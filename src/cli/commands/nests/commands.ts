import { command, noun } from '../../kit/command.ts'
import { BODY_FILE, DELETE, field, IDEMPOTENCY, LIST, one, prose, requiring, SEARCH } from '../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

const BODY = [
  field('--name <name>', 'its name', 'name'),
  prose('--description <text>', 'what it is', 'description'),
  prose('--author <name>', 'who made it', 'author'),
  prose('--icon <icon>', 'its icon', 'icon'),
  BODY_FILE,
]

export const nests = noun({
  name: 'nests',
  aliases: ['nest'],
  summary: 'Groups of templates',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List nests by name',
      options: [SEARCH, ...LIST],
      examples: ['panel nests list', 'panel nests list -o csv'],
      endpoints: ['nests.list'],
      load: async () => (await actions()).listNests,
    }),
    command({
      name: 'view',
      summary: 'Show a nest with its templates',
      arguments: [one('nest')],
      examples: ['panel nests view arena', "panel nests view arena --jq '.templates[].name'"],
      endpoints: ['nests.get'],
      exits: [6],
      load: async () => (await actions()).viewNest,
    }),
    command({
      name: 'create',
      summary: 'Create a nest',
      options: [...requiring(BODY, 'name'), IDEMPOTENCY],
      examples: ["panel nests create --name arena --author 'the crew'"],
      endpoints: ['nests.create'],
      exits: [7, 8],
      load: async () => (await actions()).createNest,
    }),
    command({
      name: 'edit',
      summary: 'Edit a nest',
      arguments: [one('nest')],
      options: BODY,
      examples: ['panel nests edit arena --name sandbox'],
      endpoints: ['nests.update'],
      exits: [6, 7, 8],
      load: async () => (await actions()).editNest,
    }),
    command({
      name: 'delete',
      summary: 'Delete a nest; its templates stay',
      arguments: [one('nest')],
      options: DELETE,
      examples: ['panel nests delete arena --yes'],
      endpoints: ['nests.delete'],
      exits: [6, 7],
      load: async () => (await actions()).deleteNest,
    }),
  ],
})
