import { command, noun } from '../../kit/command.ts'
import { BODY_FILE, DELETE, field, IDEMPOTENCY, LIST, one, prose, requiring, SEARCH } from '../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

const BODY = [
  field('--name <name>', 'its name', 'name'),
  prose('--description <text>', 'what it is', 'description'),
  BODY_FILE,
]

export const locations = noun({
  name: 'locations',
  aliases: ['location'],
  summary: 'Where nodes stand',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List locations by name',
      options: [SEARCH, ...LIST],
      examples: ['panel locations list', 'panel locations list -o csv'],
      endpoints: ['locations.list'],
      load: async () => (await actions()).listLocations,
    }),
    command({
      name: 'view',
      summary: 'Show a location with its nodes',
      arguments: [one('location')],
      examples: ['panel locations view berlin', "panel locations view berlin --jq '.nodes[].name'"],
      endpoints: ['locations.get'],
      exits: [6],
      load: async () => (await actions()).viewLocation,
    }),
    command({
      name: 'create',
      summary: 'Create a location',
      options: [...requiring(BODY, 'name'), IDEMPOTENCY],
      examples: ["panel locations create --name berlin --description 'rack 4'"],
      endpoints: ['locations.create'],
      exits: [7, 8],
      load: async () => (await actions()).createLocation,
    }),
    command({
      name: 'edit',
      summary: 'Edit a location',
      arguments: [one('location')],
      options: BODY,
      examples: ['panel locations edit berlin --name berlin-1'],
      endpoints: ['locations.update'],
      exits: [6, 7, 8],
      load: async () => (await actions()).editLocation,
    }),
    command({
      name: 'delete',
      summary: 'Delete a location that has neither nodes nor servers',
      arguments: [one('location')],
      options: DELETE,
      examples: ['panel locations delete berlin --yes'],
      endpoints: ['locations.delete'],
      exits: [6, 7],
      load: async () => (await actions()).deleteLocation,
    }),
  ],
})
