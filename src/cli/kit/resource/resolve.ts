import type { Client } from '../../../shared/client.ts'
import type { Endpoint } from '../../../shared/kernel/contract.ts'
import { PanelError } from '../../../shared/kernel/errors.ts'
import type { Reference } from '../command.ts'
import { CliFailure, usage } from '../failure.ts'
import type { Run } from '../run.ts'
import { beginsId, isAnId } from './id.ts'
import { hasNextPage } from './next-page.ts'

/** Something that a word of the command line means. */
export interface Named {
  readonly id: string
  readonly name: string
}

/** A row that a word may mean, by its id, its name or what else names it as a whole. */
type Candidate = Named & { readonly also: readonly string[] }

type Listed = Exclude<Reference, 'context'>

/** How each kind is spoken of: the prefix of its ids, what names it (`name` by default) and what else does. */
const KINDS: Readonly<Record<Listed, { prefix: string; noun: string; plural: string; title?: string; also?: string }>> =
  {
    server: { prefix: 'srv', noun: 'server', plural: 'servers', also: 'uuid' },
    node: { prefix: 'node', noun: 'node', plural: 'nodes' },
    location: { prefix: 'loc', noun: 'location', plural: 'locations' },
    nest: { prefix: 'nest', noun: 'nest', plural: 'nests' },
    template: { prefix: 'tpl', noun: 'template', plural: 'templates' },
    user: { prefix: 'usr', noun: 'user', plural: 'users', also: 'username' },
    role: { prefix: 'role', noun: 'role', plural: 'roles' },
    ipPool: { prefix: 'ipp', noun: 'IP pool', plural: 'ip-pools', title: 'networkName' },
    alertRule: { prefix: 'rule', noun: 'alert rule', plural: 'alert-rules' },
    webhook: { prefix: 'whk', noun: 'webhook', plural: 'webhooks' },
    apiKey: { prefix: 'key', noun: 'API key', plural: 'api-keys' },
    backupPolicy: { prefix: 'bpl', noun: 'backup policy', plural: 'backup-policies' },
    backupStore: { prefix: 'bst', noun: 'backup store', plural: 'backup-stores' },
    databaseHost: { prefix: 'dbh', noun: 'database host', plural: 'db-hosts' },
  }

/** The list of each kind. A contract is loaded when a word is looked up: all of them would cost every command 30 ms. */
const LISTS: Readonly<Record<Listed, () => Promise<Endpoint>>> = {
  server: async () => (await import('../../../shared/api/servers.ts')).listServers,
  // Also for those to whom nodes are only assigned.
  node: async () => (await import('../../../shared/api/assignments.ts')).listAccessibleNodes,
  location: async () => (await import('../../../shared/api/locations.ts')).listLocations,
  nest: async () => (await import('../../../shared/api/nests.ts')).listNests,
  template: async () => (await import('../../../shared/api/templates.ts')).listTemplates,
  user: async () => (await import('../../../shared/api/users.ts')).listUsers,
  role: async () => (await import('../../../shared/api/api-keys.ts')).listRoles,
  ipPool: async () => (await import('../../../shared/api/ip-pools.ts')).listIpPools,
  alertRule: async () => (await import('../../../shared/api/alert-rules.ts')).listAlertRules,
  webhook: async () => (await import('../../../shared/api/webhooks.ts')).listWebhooks,
  apiKey: async () => (await import('../../../shared/api/api-keys.ts')).listApiKeys,
  backupPolicy: async () => (await import('../../../shared/api/backup-policies.ts')).listBackupPolicies,
  backupStore: async () => (await import('../../../shared/api/backup-stores.ts')).listBackupStores,
  databaseHost: async () => (await import('../../../shared/api/database-hosts.ts')).listDatabaseHosts,
}

/**
 * The thing that a word means: a whole id as it is, else by exact name, else by the beginning of the id. Several matches are
 * exit 2 with the candidates, none is exit 6.
 */
export async function resolve(run: Run, ref: Reference, word: string): Promise<Named> {
  if (word.trim() === '') throw usage(`an empty word names no ${ref === 'context' ? ref : KINDS[ref].noun}`)
  if (ref === 'context') return { id: word, name: word }
  const kind = KINDS[ref]
  // A whole id needs no look-up: the call itself answers whether it is there.
  if (isAnId(word, kind.prefix)) return { id: word, name: word }
  // Names need not be unique, and many may contain the word: all of them are looked at.
  const rows = await candidates(await run.client(), ref, word, Number.POSITIVE_INFINITY)
  const exact = rows.filter((row) => row.name === word || row.also.includes(word) || row.id === word)
  const found =
    exact.length > 0
      ? exact
      : rows.filter((row) => beginsId(row.id, kind.prefix, word) || (ref === 'server' && beginsUuid(row, word)))
  const [only] = found
  if (only !== undefined && found.length === 1) return only
  if (found.length > 1) throw ambiguous(kind.noun, word, found)
  if (ref === 'template') return await inCatalog(run, word)
  throw new CliFailure('NOT_FOUND', `there is no ${kind.noun} '${word}'`, { hint: `panel ${kind.plural} list` })
}

/** The template that was installed from the catalogue under this name. */
async function inCatalog(run: Run, word: string): Promise<Named> {
  const { listCatalog } = await import('../../../shared/api/template-catalog.ts')
  const shipped = await (await run.client()).call(listCatalog).catch((error: unknown) => {
    // Daemons of before have no catalogue, and not everybody may read it.
    if (error instanceof PanelError && (error.code === 'NOT_FOUND' || error.code === 'PERMISSION_DENIED')) return []
    throw error
  })
  const one = shipped.find(({ name }) => name === word)
  if (one?.installed) return { id: one.installed.templateId, name: one.installed.name }
  const hint = one === undefined ? 'panel templates list' : `panel templates install ${one.name}`
  throw new CliFailure('NOT_FOUND', `there is no template '${word}'`, { hint })
}

/** Several words, in their order; a word that is given twice counts once. */
export async function resolveAll(run: Run, ref: Reference, words: readonly string[]): Promise<readonly Named[]> {
  if (words.length === 0) throw usage(`name at least one ${ref}`)
  const found = new Map<string, Named>()
  for (const word of words) {
    const named = await resolve(run, ref, word)
    found.set(named.id, named)
  }
  return [...found.values()]
}

/** Rows of a kind that may be meant by the word: those on the first pages of what its list finds. */
export async function candidates(client: Client, ref: Listed, word: string, pages = 1): Promise<readonly Candidate[]> {
  if (ref === 'role' || word === '') return rowsOf(client, ref, { query: {}, pages })
  const found = await rowsOf(client, ref, { query: { search: word }, pages })
  // Not every list finds the beginning of an id; small ones are read whole instead.
  return found.length > 0 ? found : rowsOf(client, ref, { query: {}, pages: 1 })
}

async function rowsOf(
  client: Client,
  ref: Listed,
  { query, pages }: { readonly query: Readonly<Record<string, string>>; readonly pages: number },
): Promise<readonly Candidate[]> {
  const list = await LISTS[ref]()
  const rows: Candidate[] = []
  for (let page = 1; page <= pages; page++) {
    const asked = { params: {}, query: { ...query, limit: 100, page } }
    const { data, pagination } = await client.page<Endpoint>(list, asked)
    const found = named(data, KINDS[ref])
    rows.push(...found)
    if (!hasNextPage(pagination, found.length)) break
  }
  return rows
}

/** The allocation of a node that `ip:port`, a port or an id names. */
export async function resolveAllocation(run: Run, nodeId: string, word: string): Promise<string> {
  if (word.trim() === '') throw usage('an empty word names no allocation')
  if (isAnId(word, 'alc')) return word
  const { listAllocations } = await import('../../../shared/api/allocations.ts')
  const client = await run.client()
  const found: Named[] = []
  for (let page = 1; ; page++) {
    const { data, pagination } = await client.page(listAllocations, { params: { nodeId }, query: { limit: 100, page } })
    for (const { id, ip, port } of data) {
      const address = `${ip}:${port}`
      if (address === word || String(port) === word || beginsId(id, 'alc', word)) {
        found.push({ id, name: address })
      }
    }
    if (!hasNextPage(pagination, data.length)) break
  }
  const [only] = found
  if (only !== undefined && found.length === 1) return only.id
  if (found.length > 1) throw ambiguous('allocation', word, found)
  throw new CliFailure('NOT_FOUND', `there is no allocation '${word}' on this node`, {
    hint: 'panel allocations list --node <node>',
  })
}

/** The first part of a UUID is what other panels show of it. */
function beginsUuid({ also }: Candidate, word: string): boolean {
  return word.length >= 8 && also.some((uuid) => uuid.startsWith(word))
}

function named(
  data: unknown,
  { title = 'name', also }: { readonly title?: string; readonly also?: string },
): Candidate[] {
  if (!Array.isArray(data)) return []
  return data.flatMap((row: unknown) => {
    if (typeof row !== 'object' || row === null || !('id' in row) || typeof row.id !== 'string') return []
    const fields = new Map<string, unknown>(Object.entries(row))
    const name = fields.get(title)
    const second = also === undefined ? undefined : fields.get(also)
    return [
      {
        id: row.id,
        name: typeof name === 'string' ? name : row.id,
        also: [second, fields.get('email')].filter((text) => typeof text === 'string'),
      },
    ]
  })
}

function ambiguous(noun: string, word: string, found: readonly Named[]): CliFailure {
  const list = found.slice(0, 8).map(({ id, name }) => `${name} (${id})`)
  const rest = found.length > 8 ? ` and ${found.length - 8} more` : ''
  return new CliFailure('AMBIGUOUS_NAME', `'${word}' means ${found.length} ${noun}s: ${list.join(', ')}${rest}`, {
    hint: 'use the id',
    details: found.map(({ id, name }) => ({ field: id, message: name })),
  })
}
