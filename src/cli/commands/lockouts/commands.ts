import { command, noun } from '../../kit/command.ts'
import { DELETE, field, LIST } from '../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

export const lockouts = noun({
  name: 'lockouts',
  aliases: ['lockout'],
  summary: 'Failed sign-ins and what they have locked',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List failed sign-ins and the lockouts that they led to, newest first',
      options: [
        field('--search <text>', 'only rows whose account or address contains the text', 'search'),
        { flags: '--locked', summary: 'only those that lock now' },
        ...LIST,
      ],
      examples: ['panel lockouts list --locked', 'panel lockouts list --search eve@example.org -o json'],
      endpoints: ['lockouts.list'],
      load: async () => (await actions()).listLockouts,
    }),
    command({
      name: 'delete',
      aliases: ['clear'],
      summary: 'End lockouts and forget the failures that led to them',
      arguments: [{ name: 'lockout', summary: 'their ids', optional: true, many: true }],
      options: [
        { flags: '--user <email>', summary: 'all of this account' },
        { flags: '--ip <address>', summary: 'all of this address' },
        { flags: '--all', summary: 'all there are' },
        ...DELETE,
      ],
      examples: [
        'panel lockouts delete lck_01k3v4n5w6x7y8z9a0b1c2d3e4',
        'panel lockouts delete --user eve@example.org --yes',
      ],
      endpoints: ['lockouts.delete'],
      exits: [3, 6],
      load: async () => (await actions()).deleteLockouts,
    }),
  ],
})
