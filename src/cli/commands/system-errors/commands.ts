import { command, noun, type Option } from '../../kit/command.ts'
import { field, LIST, YES } from '../../kit/option-sets.ts'
import { DOWNLOAD, FORMAT } from '../../kit/resource/download-options.ts'

const actions = () => import('./actions.ts')

const LEVEL: Option = {
  flags: '--level <level>',
  summary: 'only this level',
  choices: ['warn', 'error', 'critical'],
  field: 'level',
}
const COMPONENT = field('--component <text>', 'only components that contain this: gateway', 'component')
const TIME: readonly Option[] = [
  { flags: '--since <when>', summary: 'last seen from then on: ISO-8601, or a duration before now' },
  { flags: '--until <when>', summary: 'last seen up to then: ISO-8601, or a duration before now' },
]
const FILTER: readonly Option[] = [
  LEVEL,
  COMPONENT,
  field('--search <text>', 'only messages that contain this', 'search'),
  field('--request-id <id>', 'only that of this request', 'requestId'),
  { flags: '--unresolved', summary: 'only those that are open' },
  { flags: '--resolved', summary: 'only those that are resolved' },
  ...TIME,
]
const NOTE = field('--note <text>', 'what was done about it', 'note')

export const systemErrors = noun({
  name: 'system-errors',
  aliases: ['errors'],
  summary: 'What went wrong inside the panel',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List system errors, the last that happened first',
      options: [...FILTER, ...LIST],
      examples: ['panel system-errors list --unresolved', 'panel system-errors list --component gateway --since 1d'],
      endpoints: ['system_errors.list'],
      exits: [8],
      load: async () => (await actions()).listErrors,
    }),
    command({
      name: 'view',
      summary: 'Show a system error with its stack',
      arguments: [{ name: 'error', summary: 'its id: panel system-errors list -o id' }],
      examples: ['panel system-errors view err_01k5w0c9v7f3tqz8m2n4r6x8ya -o yaml'],
      endpoints: ['system_errors.get'],
      exits: [6],
      load: async () => (await actions()).viewError,
    }),
    command({
      name: 'resolve',
      summary: 'Mark system errors as resolved; what happens again is reported anew',
      arguments: [{ name: 'error', summary: 'their ids', many: true }],
      options: [NOTE],
      examples: ['panel system-errors resolve err_01k5w0c9v7f3tqz8m2n4r6x8ya --note "fixed in 1.2"'],
      endpoints: ['system_errors.resolve'],
      exits: [3, 6],
      load: async () => (await actions()).resolveErrors,
    }),
    command({
      name: 'resolve-all',
      summary: 'Mark every open system error of a selection as resolved',
      options: [LEVEL, COMPONENT, ...TIME, NOTE, YES],
      examples: ['panel system-errors resolve-all --level warn --yes', 'panel system-errors resolve-all --until 7d'],
      endpoints: ['system_errors.resolve_all'],
      exits: [8],
      load: async () => (await actions()).resolveAll,
    }),
    command({
      name: 'export',
      summary: 'Export system errors as CSV, JSON lines or JSON',
      options: [FORMAT, ...FILTER, ...DOWNLOAD],
      examples: ['panel system-errors export --unresolved --format jsonl --out errors.jsonl'],
      endpoints: ['system_errors.export'],
      exits: [8],
      load: async () => (await actions()).exportErrors,
    }),
  ],
})
