import { command, noun } from '../../kit/command.ts'
import { LIST, YES } from '../../kit/option-sets.ts'
import { BROWSER } from '../session/browser-options.ts'

/** One's own accounts at identity providers. */
export const sso = noun({
  name: 'sso',
  summary: 'Your accounts at identity providers',
  group: 'Core',
  children: [
    command({
      name: 'list',
      summary: 'List your accounts at identity providers',
      options: LIST,
      examples: ['panel profile sso list'],
      endpoints: ['sso.accounts'],
      load: async () => (await import('./sso.ts')).listSso,
    }),
    command({
      name: 'link',
      summary: 'Link your account at an identity provider, in a browser on this machine',
      arguments: [{ name: 'provider', summary: 'its id, as in `panel providers list`' }],
      options: BROWSER,
      examples: ['panel profile sso link corp', 'panel profile sso link corp --no-browser'],
      endpoints: ['sso.link', 'sso.link_complete'],
      exits: [6, 7, 8, 11, 124],
      load: async () => (await import('./sso.ts')).linkSso,
    }),
    command({
      name: 'unlink',
      summary: 'Unlink your account at an identity provider, and give back the roles that it brought',
      arguments: [{ name: 'provider', summary: 'its id' }],
      options: [{ flags: '--account <id>', summary: 'which one, when several are linked' }, YES],
      examples: ['panel profile sso unlink corp'],
      endpoints: ['sso.unlink'],
      exits: [6, 7, 8],
      load: async () => (await import('./sso.ts')).unlinkSso,
    }),
  ],
})
