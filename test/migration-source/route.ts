import { type Answer, notFound, Refusal } from './answer.ts'
import type { ApplicationViews } from './application-views.ts'
import type { SimBackups } from './backups.ts'
import type { ClientViews } from './client-views.ts'
import type { Faults } from './options.ts'
import type { SimBackup, SimNode, SimServer, SimUser, SimWorld } from './rows.ts'
import { type Includes, list, type Resource, type View } from './view.ts'

/** What a route has to go by. */
export interface RouteContext {
  readonly world: SimWorld
  readonly caller: SimUser
  readonly application: ApplicationViews
  readonly client: ClientViews
  readonly backups: SimBackups
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  readonly includes: Includes
  readonly body: Readonly<Record<string, unknown>>
  /** Where the panel is reached, and the path that was asked for. */
  readonly url: string
  readonly path: string
  faults(): Faults
  nodeUrl(node: SimNode): string
  isOffline(node: SimNode): boolean
  s3Url(backup: SimBackup): string
}

/** One route of the panel. */
export interface SimRoute {
  readonly method: string
  readonly path: string
  /** Of the keys' access lists; client routes have none. */
  readonly resource: Resource | null
  handle(context: RouteContext): Answer | Promise<Answer>
}

const SORTED = new Set(['users', 'nodes', 'locations', 'servers'])

/** What lists can be filtered by; a part of the value is enough, whatever its case, but for allocations. */
const FILTERS: Readonly<Record<string, readonly string[]>> = {
  users: ['email', 'uuid', 'username', 'external_id'],
  nodes: ['uuid', 'name', 'fqdn'],
  locations: ['short', 'long'],
  servers: ['uuid', 'name', 'description', 'image', 'external_id'],
  allocations: ['ip', 'port', 'server_id'],
}

/** The rows that the filters of a query leave; `fieldOf` says what a row has in a field. */
export function filtered<T>(
  { query }: Pick<RouteContext, 'query'>,
  name: string,
  rows: readonly T[],
  fieldOf: (row: T, field: string) => unknown,
): readonly T[] {
  const allowed = FILTERS[name] ?? []
  const asked = [...query].flatMap(([key, value]) => {
    const field = /^filter\[(\w+)\]$/.exec(key)?.[1]
    if (field === undefined) return []
    if (!allowed.includes(field)) {
      throw new Refusal(400, 'InvalidFilterQuery', `Requested filter(s) \`${field}\` are not allowed.`)
    }
    return [{ field, part: value.toLowerCase() }]
  })
  const isHit = (has: string, part: string): boolean => (name === 'allocations' ? has === part : has.includes(part))
  return rows.filter((row) =>
    asked.every(({ field, part }) => isHit(String(fieldOf(row, field) ?? '').toLowerCase(), part)),
  )
}

/**
 * A page of a list. A list that could be sorted and is not has its rows in another order on each page, as databases do that
 * were not asked for one.
 */
export function paged<T>(
  { query, url, path }: Pick<RouteContext, 'query' | 'url' | 'path'>,
  rows: readonly T[],
  view: (row: T) => View,
  { perPage = 50, most = Number.POSITIVE_INFINITY, name = '' } = {},
): View {
  const size = Math.min(Math.max(Number(query.get('per_page') ?? perPage) || perPage, 1), most)
  const page = Math.max(Number(query.get('page') ?? 1) || 1, 1)
  const sort = query.get('sort')
  if (sort !== null && !(SORTED.has(name) && /^-?(?:id|uuid)$/.test(sort))) {
    throw new Refusal(400, 'InvalidSortQuery', `Requested sort(s) \`${sort}\` is not allowed.`)
  }
  const shift = SORTED.has(name) && sort === null ? page - 1 : 0
  const ordered = [...rows.slice(shift), ...rows.slice(0, shift)]
  if (sort?.startsWith('-')) ordered.reverse()
  const part = ordered.slice((page - 1) * size, page * size)
  const pages = Math.max(Math.ceil(rows.length / size), 1)
  const links = {
    ...(page > 1 ? { previous: `${url}${path}?page=${page - 1}` } : {}),
    ...(page < pages ? { next: `${url}${path}?page=${page + 1}` } : {}),
  }
  const counts = { total: rows.length, count: part.length, per_page: size, current_page: page, total_pages: pages }
  return { ...list(part.map(view)), meta: { pagination: { ...counts, links } } }
}

/** The row with an id of a path, or the refusal that there is none. */
export function byId<T extends { id: number }>(rows: readonly T[], id: string | undefined): T {
  const found = rows.find((row) => String(row.id) === id)
  if (found === undefined) throw notFound()
  return found
}

/** The path's parameters, if it is one of a route. */
export function matched(pattern: string, path: string): Record<string, string> | undefined {
  const [wanted, given] = [pattern.split('/'), path.split('/')]
  if (wanted.length !== given.length) return undefined
  const params: Record<string, string> = {}
  for (const [index, part] of wanted.entries()) {
    const value = given[index] ?? ''
    if (part.startsWith(':')) params[part.slice(1)] = decodeURIComponent(value)
    else if (part !== value) return undefined
  }
  return params
}

/** Refuses what needs the daemon of a server's node, where nobody reaches that. */
export function reachable(c: RouteContext, server: SimServer): void {
  const node = byId(c.world.nodes, String(server.nodeId))
  if (c.isOffline(node)) {
    const detail = 'There was an exception while attempting to communicate with the daemon: HTTP/504 response code.'
    throw new Refusal(504, 'DaemonConnectionException', detail)
  }
}

/** A route that only reads. */
export const get = (path: string, resource: Resource | null, handle: SimRoute['handle']): SimRoute => ({
  method: 'GET',
  path,
  resource,
  handle,
})
