import { command, noun } from '../../kit/command.ts'
import { BODY_FILE, DELETE, field, IDEMPOTENCY, LIST, one, required, SEARCH, several } from '../../kit/option-sets.ts'

const actions = () => import('./actions.ts')

export const apiKeys = noun({
  name: 'api-keys',
  aliases: ['api-key', 'keys'],
  summary: 'Keys for scripts and integrations',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List API keys: all with admin.read, else your own',
      options: [
        SEARCH,
        { flags: '--mine', summary: 'only your own' },
        { flags: '--enabled', summary: 'only those that work' },
        { flags: '--no-enabled', summary: 'only those that are switched off' },
        ...LIST,
      ],
      examples: ['panel api-keys list', 'panel api-keys list --mine -o id'],
      endpoints: ['api_keys.list'],
      load: async () => (await actions()).listApiKeys,
    }),
    command({
      name: 'create',
      summary: 'Create an API key; its secret is shown this once',
      details:
        'The key alone is printed on stdout, or written to --out-file (0600). A key never has more rights than its maker.',
      options: [
        required(field('--name <name>', 'what it is for', 'name')),
        field('--permission <permission>', 'a permission of `panel permissions list`', 'permissions', 'list'),
        field('--all-permissions', 'whatever its owner may do', 'allPermissions', 'boolean'),
        field('--expires <duration>', 'how long it works: 30d', 'expiresIn', 'seconds'),
        field('--expires-at <time>', 'until when it works, ISO-8601', 'expiresAt'),
        field('--rate <n>', 'the most requests in the time window', 'rateLimitMax', 'int'),
        field('--rate-window <ms>', 'the time window in milliseconds', 'rateLimitTimeWindow', 'int'),
        field('--no-rate-limit', 'no limit of requests', 'rateLimitEnabled', 'boolean'),
        { flags: '--out-file <file>', summary: 'write the key to this file (0600) instead of stdout' },
        BODY_FILE,
        IDEMPOTENCY,
      ],
      examples: [
        'panel api-keys create --name backup --permission server.read --permission console.read --expires 30d',
        'panel api-keys create --name ci --all-permissions --out-file ci.key',
      ],
      endpoints: ['api_keys.create'],
      exits: [8],
      load: async () => (await actions()).createApiKey,
    }),
    command({
      name: 'view',
      summary: 'Show an API key',
      arguments: [one('apiKey', 'key')],
      examples: ['panel api-keys view backup'],
      endpoints: ['api_keys.get'],
      exits: [6],
      load: async () => (await actions()).viewApiKey,
    }),
    command({
      name: 'edit',
      summary: 'Edit an API key',
      arguments: [one('apiKey', 'key')],
      options: [
        field('--name <name>', 'what it is for', 'name'),
        field('--enabled', 'switch it on', 'enabled', 'boolean'),
        field('--no-enabled', 'switch it off', 'enabled', 'boolean'),
        field('--permission <permission>', 'the permissions that it has from now on', 'permissions', 'list'),
        field('--expires-at <time>', 'until when it works, ISO-8601', 'expiresAt'),
        field('--rate <n>', 'the most requests in the time window', 'rateLimitMax', 'int'),
        field('--rate-window <ms>', 'the time window in milliseconds', 'rateLimitTimeWindow', 'int'),
        BODY_FILE,
      ],
      examples: ['panel api-keys edit backup --no-enabled'],
      endpoints: ['api_keys.update'],
      exits: [6, 8],
      load: async () => (await actions()).editApiKey,
    }),
    command({
      name: 'rotate',
      summary: 'Make a new key with the rights of another, which goes on working for a while',
      details: 'The new key alone is printed on stdout, or written to --out-file (0600).',
      arguments: [one('apiKey', 'key')],
      options: [
        { flags: '--overlap <duration>', summary: 'how long the old key works yet (default 1h); 0 revokes it at once' },
        {
          flags: '--expires <duration>',
          summary: 'how long the new key works: 30d (default: as long as the old one did)',
        },
        { flags: '--out-file <file>', summary: 'write the new key to this file (0600) instead of stdout' },
      ],
      examples: ['panel api-keys rotate backup --overlap 24h', 'panel api-keys rotate ci --out-file ci.key'],
      exits: [6, 8],
      load: async () => (await import('./rotate.ts')).rotateApiKey,
    }),
    command({
      name: 'revoke',
      aliases: ['delete'],
      summary: 'Revoke an API key at once, on open streams too',
      arguments: [several('apiKey', 'key')],
      options: DELETE,
      examples: ['panel api-keys revoke backup --yes'],
      endpoints: ['api_keys.delete'],
      exits: [3, 6],
      load: async () => (await actions()).revokeApiKeys,
    }),
    command({
      name: 'usage',
      summary: 'Show how much an API key is used',
      arguments: [one('apiKey', 'key')],
      examples: ['panel api-keys usage backup'],
      endpoints: ['api_keys.usage'],
      exits: [6],
      load: async () => (await actions()).apiKeyUsage,
    }),
  ],
})

export const permissions = noun({
  name: 'permissions',
  aliases: ['permission'],
  summary: 'What keys and roles can be allowed',
  group: 'Administration',
  children: [
    command({
      name: 'list',
      summary: 'List all permissions by category',
      options: [
        { flags: '--mine', summary: 'only those that you have' },
        { flags: '--category <id>', summary: 'only those of this category' },
      ],
      examples: ['panel permissions list', 'panel permissions list --mine -o name'],
      endpoints: ['api_keys.permissions_catalog', 'api_keys.my_permissions'],
      load: async () => (await actions()).listPermissions,
    }),
    command({
      name: 'explain',
      summary: 'Show what somebody may do and why: by which role, grant, assignment or ownership; exit 5 when not',
      arguments: [{ name: 'permission', summary: 'only this one, also when it is not held', optional: true }],
      options: [
        { flags: '--user <user>', summary: 'who (default: you, through the credential in force)', ref: 'user' },
        { flags: '--server <server>', summary: 'on this server', ref: 'server' },
        { flags: '--node <node>', summary: 'on this node', ref: 'node' },
        { flags: '--key <key>', summary: 'through this API key', ref: 'apiKey' },
      ],
      examples: ['panel permissions explain', 'panel permissions explain console.write --user eve --server demo'],
      endpoints: ['users.effective_permissions'],
      exits: [6],
      load: async () => (await import('../session/explain.ts')).explain,
    }),
  ],
})
