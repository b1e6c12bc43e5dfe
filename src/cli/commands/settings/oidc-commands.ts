import { command, noun, type Option } from '../../kit/command.ts'
import { field, IDEMPOTENCY } from '../../kit/option-sets.ts'

const WHICH = { name: 'provider', summary: 'whmcs or paymenter', choices: ['whmcs', 'paymenter'] }

const FLAGS: readonly Option[] = [
  field('--client-id <id>', 'what the provider calls this panel', 'clientId'),
  { flags: '--client-secret-stdin', summary: 'read the client secret from stdin' },
  { flags: '--client-secret-file <file>', summary: 'read the client secret from a file' },
  { flags: '--ask-client-secret', summary: 'ask for the client secret' },
  field('--discovery-url <url>', 'the issuer of the provider, or the address of its document', 'discoveryUrl'),
  { flags: '--unset <flag>', summary: 'remove what is set, such as client-secret; may be repeated', repeat: true },
]

/** The two billing panels; `panel providers` knows all providers and the rest of their settings. */
export const oidc = noun({
  name: 'oidc',
  summary: 'Sign-in by WHMCS and Paymenter (all others: panel providers)',
  group: 'Administration',
  children: [
    command({
      name: 'get',
      summary: 'Show how people sign in by WHMCS and Paymenter, secrets masked',
      examples: ['panel settings oidc get', 'panel settings oidc get --jq .whmcs.source'],
      endpoints: ['settings.oidc_get'],
      load: async () => (await import('./oidc.ts')).getOidc,
    }),
    command({
      name: 'set',
      summary: 'Change how people sign in by one of them; what is not named stays',
      arguments: [WHICH],
      options: FLAGS,
      examples: [
        'panel settings oidc set whmcs --client-id panel --client-secret-stdin --discovery-url https://billing.example.org < secret',
        'panel settings oidc set paymenter --unset client-id --unset client-secret --unset discovery-url',
      ],
      endpoints: ['settings.oidc_update'],
      exits: [7, 8, 14],
      load: async () => (await import('./oidc.ts')).setOidc,
    }),
    command({
      name: 'test',
      summary: 'Ask one of them for its description and keys, and whether it knows this panel; exit 11 when not',
      arguments: [WHICH],
      options: [IDEMPOTENCY],
      examples: ['panel settings oidc test whmcs'],
      exits: [6, 11],
      load: async () => (await import('../providers/actions.ts')).testOf('provider'),
    }),
  ],
})
