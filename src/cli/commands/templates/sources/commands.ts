import { command, noun, type Option } from '../../../kit/command.ts'
import { IDEMPOTENCY, reference, YES } from '../../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

const FROM = {
  name: 'from',
  summary: 'a git URL (https or ssh), or a folder, archive (.zip, .tar.gz) or file on this machine',
}
const EGGS = {
  name: 'egg',
  summary: 'only these: their paths in the source, uuids or names',
  many: true,
  optional: true,
} as const

const WHERE: readonly Option[] = [
  { flags: '--ref <ref>', summary: 'a branch or tag of the repository (default: the one that it names)' },
  { flags: '--folder <folder>', summary: 'only what is below this folder of the source' },
]

const ORIGIN =
  'The source is read on this machine, never by the panel. A template is known again by the uuid of its egg, else by the update URL in it, ' +
  'else by its name.'

/** Collections of eggs: repositories, folders and archives. */
export const sources = noun({
  name: 'sources',
  aliases: ['source'],
  summary: 'Collections of eggs: git repositories, folders, archives',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List the eggs of a source, and which of them the panel has',
      details: ORIGIN,
      arguments: [FROM, EGGS],
      options: WHERE,
      examples: [
        'panel templates sources list https://git.example/eggs.git --folder game_eggs',
        'panel templates sources list eggs.zip -o json',
      ],
      exits: [6, 11, 14, 15, 124],
      load: async () => (await actions()).listSource,
    }),
    command({
      name: 'diff',
      summary: 'Show what the eggs of a source would change in the templates that were made of them',
      details: ORIGIN,
      arguments: [FROM, EGGS],
      options: WHERE,
      examples: ['panel templates sources diff ./eggs', 'panel templates sources diff ./eggs paper --ref v2'],
      exits: [6, 11, 14, 15, 124],
      load: async () => (await actions()).diffSource,
    }),
    command({
      name: 'import',
      summary: 'Import the eggs of a source, and bring the templates that were made of them up to date',
      details:
        `${ORIGIN} An update replaces what the egg describes, edits of yours too, but neither the name, the runtimes nor which variables are secret. ` +
        'What cannot be imported is passed over: exit 3, or 8 when it was named.',
      arguments: [FROM, EGGS],
      options: [
        ...WHERE,
        {
          flags: '--only <kind>',
          summary: 'only eggs that are new, or only those that have changed',
          choices: ['new', 'changed'],
        },
        reference('--nest <nest>', 'the nest that new templates belong to', 'nestId', 'nest'),
        { flags: '--dry-run', summary: 'show what would be done, and change nothing' },
        YES,
        IDEMPOTENCY,
      ],
      examples: [
        'panel templates sources import https://git.example/eggs.git minecraft/egg-paper.json --nest Minecraft',
        'panel templates sources import ./eggs --only changed --dry-run',
        'panel templates sources import eggs.tar.gz --yes',
      ],
      exits: [3, 6, 7, 8, 11, 14, 15, 124],
      load: async () => (await actions()).importSource,
    }),
  ],
})
