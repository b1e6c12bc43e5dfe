import { type Argument, command, noun, type Option } from '../../kit/command.ts'
import { BODY_FILE, DELETE, field, IDEMPOTENCY, LIST } from '../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

const PROVIDER: Argument = { name: 'provider', summary: 'its id, such as corp' }

const FIELDS: readonly Option[] = [
  field('--name <name>', 'what people see (default: the id)', 'name'),
  field('--client-id <id>', 'what the provider calls this panel', 'clientId'),
  { flags: '--client-secret-stdin', summary: 'read the client secret from stdin' },
  { flags: '--client-secret-file <file>', summary: 'read the client secret from a file' },
  { flags: '--ask-client-secret', summary: 'ask for the client secret' },
  field('--discovery-url <url>', 'the issuer of the provider, or the address of its document', 'discoveryUrl'),
  field('--scope <scope>', 'asked for beside openid (default profile, email); may be repeated', 'scopes', 'list'),
  field('--domain <domain>', 'its word counts for addresses of this domain, * is any', 'allowedDomains', 'list'),
  field('--create-accounts', 'make accounts for people of these domains', 'createAccounts', 'boolean'),
  field('--no-create-accounts', 'make none (default)', 'createAccounts', 'boolean'),
  field('--link-by-email', 'sign in to the account with the same confirmed address', 'linkByEmail', 'boolean'),
  field('--no-link-by-email', 'people link their accounts themselves (default)', 'linkByEmail', 'boolean'),
  field('--group-claim <claim>', 'the claim with the groups: groups, realm_access.roles', 'groupClaim'),
  { flags: '--role <group=role>', summary: 'members of the group get the role; * are all; repeatable', repeat: true },
  field('--enabled', 'people may sign in by it (default)', 'enabled', 'boolean'),
  field('--no-enabled', 'nobody may', 'enabled', 'boolean'),
]

const UNSET: Option = {
  flags: '--unset <flag>',
  summary: 'remove what is set: client-secret, scope, domain, group-claim or role; may be repeated',
  repeat: true,
}

export const providers = noun({
  name: 'providers',
  aliases: ['provider'],
  summary: 'Identity providers that people sign in by (OpenID Connect)',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List the identity providers by name',
      options: LIST,
      examples: ['panel providers list', 'panel providers list -o json'],
      endpoints: ['providers.list'],
      load: async () => (await actions()).listProviders,
    }),
    command({
      name: 'view',
      summary: 'Show an identity provider, its secret masked, with the address that it must send browsers back to',
      arguments: [PROVIDER],
      examples: ['panel providers view corp', 'panel providers view corp --jq .callbackUrl'],
      endpoints: ['providers.get'],
      exits: [6],
      load: async () => (await actions()).viewProvider,
    }),
    command({
      name: 'create',
      summary: 'Add an identity provider',
      details:
        'The provider must know the address that `panel providers view` shows as its callback URL. Whoever configures a ' +
        'provider vouches for it: it never brings anybody more than what the configurer may give.',
      arguments: [PROVIDER],
      options: [...FIELDS, BODY_FILE],
      examples: [
        'panel providers create corp --client-id panel --client-secret-stdin --discovery-url https://id.example.org < secret',
        'panel providers create corp -F corp.yaml',
      ],
      endpoints: ['providers.put'],
      exits: [6, 7, 8, 14],
      load: async () => (await actions()).createProvider,
    }),
    command({
      name: 'edit',
      summary: 'Change an identity provider; what is not named stays',
      arguments: [PROVIDER],
      options: [...FIELDS, UNSET, BODY_FILE],
      examples: [
        'panel providers edit corp --create-accounts --domain example.org',
        'panel providers edit corp --group-claim groups --role admins=Administrator --role staff=support',
      ],
      exits: [6, 7, 8, 14],
      load: async () => (await actions()).editProvider,
    }),
    command({
      name: 'delete',
      summary: 'Remove an identity provider, the links of accounts to it and the roles that it gave',
      arguments: [PROVIDER],
      options: DELETE,
      examples: ['panel providers delete corp --yes'],
      endpoints: ['providers.delete'],
      exits: [6, 7],
      load: async () => (await actions()).deleteProvider,
    }),
    command({
      name: 'test',
      summary: 'Ask the provider for its description and keys, and whether it knows this panel; exit 11 when not',
      arguments: [PROVIDER],
      options: [IDEMPOTENCY],
      examples: ['panel providers test corp'],
      endpoints: ['providers.test'],
      exits: [6, 11],
      load: async () => (await actions()).testProvider,
    }),
  ],
})
