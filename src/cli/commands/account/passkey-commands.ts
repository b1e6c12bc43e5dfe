import { type Argument, command, noun } from '../../kit/command.ts'
import { DELETE, field, LIST, required } from '../../kit/option-sets.ts'

const actions = () => import('./passkeys.ts')
const PASSKEY: Argument = { name: 'passkey', summary: 'its id, or its name' }

/** One's own passkeys; one is made where an authenticator is: in a browser. */
export const passkeys = noun({
  name: 'passkeys',
  aliases: ['passkey'],
  summary: 'Your passkeys',
  group: 'Core',
  children: [
    command({
      name: 'list',
      summary: 'List your passkeys, newest first',
      options: LIST,
      examples: ['panel profile passkeys list'],
      endpoints: ['passkeys.list'],
      load: async () => (await actions()).listPasskeys,
    }),
    command({
      name: 'rename',
      summary: 'Rename one of your passkeys',
      arguments: [PASSKEY],
      options: [required(field('--name <name>', 'its new name', 'name'))],
      examples: ["panel profile passkeys rename phone --name 'old phone'"],
      endpoints: ['passkeys.rename'],
      exits: [6, 8],
      load: async () => (await actions()).renamePasskey,
    }),
    command({
      name: 'delete',
      summary: 'Remove one of your passkeys',
      arguments: [PASSKEY],
      options: DELETE,
      examples: ['panel profile passkeys delete phone --yes'],
      endpoints: ['passkeys.delete'],
      exits: [6, 7],
      load: async () => (await actions()).deletePasskey,
    }),
  ],
})
