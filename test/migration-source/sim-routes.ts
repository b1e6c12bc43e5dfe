import { type Answer, DONE, invalid, notFound, ok, Refusal, signedUrl } from './sim-answer.ts'
import { downloadClaims, type SimBackups, signedToken } from './sim-backups.ts'
import { bytesOf, FIRST_MS } from './sim-files.ts'
import type { ApplicationViews, ClientViews, Includes, Resource, View } from './sim-views.ts'
import { type BrokenRow, item, list, stamp } from './sim-views.ts'
import { fileOf, listingOf, modeText } from './sim-wings.ts'
import type { SimBackup, SimNode, SimServer, SimUser, SimWorld } from './sim-world.ts'

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
  /** Where the panel is reached. */
  readonly url: string
  nodeUrl(node: SimNode): string
  isOffline(node: SimNode): boolean
  s3Url(backup: SimBackup): string
}

export interface SimRoute {
  readonly method: string
  readonly path: string
  /** Of the keys' access lists; client routes have none. */
  readonly resource: Resource | null
  handle(context: RouteContext): Answer | Promise<Answer>
}

const SORTED = new Set(['users', 'nodes', 'locations', 'servers'])

/**
 * A page of a list. A list that could be sorted and is not has its rows in another order on each page, as databases do that were not
 * asked for one.
 */
function paged<T>(
  { query, url }: Pick<RouteContext, 'query' | 'url'>,
  rows: readonly T[],
  view: (row: T) => View,
  { perPage = 50, most = Number.POSITIVE_INFINITY, name = '' } = {},
): View {
  const size = Math.min(Math.max(Number(query.get('per_page') ?? perPage) || perPage, 1), most)
  const page = Math.max(Number(query.get('page') ?? 1) || 1, 1)
  const sort = query.get('sort')
  if (sort !== null && !SORTED.has(name)) {
    throw new Refusal(400, 'InvalidSortQuery', `Requested sort(s) \`${sort}\` is not allowed.`)
  }
  const shift = SORTED.has(name) && sort === null ? page - 1 : 0
  const ordered = [...rows.slice(shift), ...rows.slice(0, shift)]
  const part = ordered.slice((page - 1) * size, page * size)
  const pages = Math.max(Math.ceil(rows.length / size), 1)
  const links = {
    ...(page > 1 ? { previous: `${url}/?page=${page - 1}` } : {}),
    ...(page < pages ? { next: `${url}/?page=${page + 1}` } : {}),
  }
  const counts = { total: rows.length, count: part.length, per_page: size, current_page: page, total_pages: pages }
  return { ...list(part.map(view)), meta: { pagination: { ...counts, links } } }
}

const byId = <T extends { id: number }>(rows: readonly T[], id: string | undefined): T => {
  const found = rows.find((row) => String(row.id) === id)
  if (found === undefined) throw notFound()
  return found
}

type Handle = SimRoute['handle']
const get = (path: string, resource: Resource | null, handle: Handle): SimRoute => ({
  method: 'GET',
  path,
  resource,
  handle,
})
const APP = '/api/application'
const CLIENT = '/api/client'

/** Both flavours. */
const SHARED: readonly SimRoute[] = [
  get(`${APP}/nodes`, 'nodes', (c) =>
    ok(paged(c, c.world.nodes, (row) => c.application.node(row, c.includes), { name: 'nodes' })),
  ),
  get(`${APP}/nodes/:id`, 'nodes', (c) => ok(c.application.node(byId(c.world.nodes, c.params['id']), c.includes))),
  get(`${APP}/nodes/:id/configuration`, 'nodes', (c) => ok(configuration(c, byId(c.world.nodes, c.params['id'])))),
  get(`${APP}/nodes/:id/allocations`, 'allocations', (c) => {
    const { id } = byId(c.world.nodes, c.params['id'])
    const rows = c.world.allocations.filter(({ nodeId }) => nodeId === id)
    return ok(paged(c, rows, (row) => c.application.allocation(row, c.includes)))
  }),
  get(`${APP}/users`, 'users', (c) => {
    const part = c.query.get('filter[email]')?.toLowerCase()
    const rows = c.world.users.filter(({ email }) => part === undefined || email.toLowerCase().includes(part))
    return ok(paged(c, rows, (row) => c.application.user(row, c.includes), { name: 'users' }))
  }),
  get(`${APP}/users/:id`, 'users', (c) => ok(c.application.user(byId(c.world.users, c.params['id']), c.includes))),
  get(`${APP}/servers`, 'servers', (c) =>
    ok(paged(c, c.world.servers, (row) => c.application.server(row, c.includes), { name: 'servers' })),
  ),
  get(`${APP}/servers/:id`, 'servers', (c) =>
    ok(c.application.server(byId(c.world.servers, c.params['id']), c.includes)),
  ),
  get(`${APP}/servers/:id/databases`, 'server_databases', (c) => {
    const server = byId(c.world.servers, c.params['id'])
    return ok(list(server.databases.map((row) => c.application.serverDatabase(row, server, c.includes))))
  }),
  { method: 'PATCH', path: `${APP}/servers/:id/build`, resource: 'servers', handle: changeBuild },
  { method: 'POST', path: `${APP}/servers/:id/suspend`, resource: 'servers', handle: (c) => suspend(c, true) },
  { method: 'POST', path: `${APP}/servers/:id/unsuspend`, resource: 'servers', handle: (c) => suspend(c, false) },
]

const PTERODACTYL: readonly SimRoute[] = [
  get(`${APP}/locations`, 'locations', (c) =>
    ok(paged(c, c.world.locations, (row) => c.application.location(row, c.includes), { name: 'locations' })),
  ),
  get(`${APP}/nests`, 'nests', (c) => ok(paged(c, c.world.nests, (row) => c.application.nest(row, c.includes)))),
  get(`${APP}/nests/:nest/eggs`, 'eggs', (c) => {
    const nest = byId(c.world.nests, c.params['nest'])
    const rows = c.world.eggs.filter(({ nestId }) => nestId === nest.id)
    return ok(list(rows.map((row) => c.application.egg(row, c.includes))))
  }),
  get(`${APP}/nests/:nest/eggs/:egg`, 'eggs', (c) => {
    const egg = byId(c.world.eggs, c.params['egg'])
    if (String(egg.nestId) !== c.params['nest']) throw notFound()
    return ok(c.application.egg(egg, c.includes))
  }),
]

const PELICAN: readonly SimRoute[] = [
  get(`${APP}/eggs`, 'eggs', (c) => ok(list(c.world.eggs.map((row) => c.application.egg(row, c.includes))))),
  get(`${APP}/eggs/:egg`, 'eggs', (c) => ok(c.application.egg(byId(c.world.eggs, c.params['egg']), c.includes))),
  get(`${APP}/database-hosts`, 'database_hosts', (c) =>
    ok(paged(c, c.world.databaseHosts, (row) => c.application.databaseHost(row), { perPage: 10 })),
  ),
  get(`${APP}/mounts`, 'mounts', (c) => ok(paged(c, c.world.mounts, (row) => c.application.mount(row, c.includes)))),
  get(`${APP}/roles`, 'roles', (c) =>
    ok(paged(c, [{ id: 1, name: 'Root Admin' }], (row) => item('role', { ...row }), { perPage: 10 })),
  ),
]

const CLIENT_ROUTES: readonly SimRoute[] = [
  get(CLIENT, null, (c) => {
    const all = c.query.get('type') === 'admin-all' && c.caller.rootAdmin
    const isOwn = (server: SimServer): boolean =>
      server.ownerId === c.caller.id || server.subusers.some(({ userId }) => userId === c.caller.id)
    const rows = c.world.servers.filter((server) => all || isOwn(server))
    return ok(paged(c, rows, (row) => c.client.server(row, c.caller, c.includes), { most: 100 }))
  }),
  get(`${CLIENT}/account`, null, (c) => ok(c.client.account(c.caller))),
  get(`${CLIENT}/account/ssh-keys`, null, (c) => ok(list(c.world.sshKeys.map(sshKey)))),
  {
    method: 'POST',
    path: `${CLIENT}/account/ssh-keys`,
    resource: null,
    handle: (c) => {
      const { name, public_key: publicKey } = c.body
      if (typeof name !== 'string' || typeof publicKey !== 'string') throw invalid('public_key', 'required')
      const key = { name, publicKey, fingerprint: `SHA256:${c.world.sshKeys.length}` }
      c.world.sshKeys.push(key)
      return ok(sshKey(key))
    },
  },
  get(`${CLIENT}/servers/:server`, null, (c) => {
    const server = serverOf(c)
    const meta = { is_server_owner: server.ownerId === c.caller.id, user_permissions: ['*'] }
    return ok({ ...c.client.server(server, c.caller, c.includes), meta })
  }),
  get(`${CLIENT}/servers/:server/resources`, null, (c) => {
    const server = serverOf(c)
    reachable(c, server)
    const usage = {
      memory_bytes: 0,
      cpu_absolute: 0,
      disk_bytes: 0,
      network_rx_bytes: 0,
      network_tx_bytes: 0,
      uptime: 0,
    }
    const isSuspended = server.status === 'suspended'
    return ok(item('stats', { current_state: server.power, is_suspended: isSuspended, resources: usage }))
  }),
  get(`${CLIENT}/servers/:server/schedules`, null, (c) =>
    ok(list(usable(c).schedules.map((row) => c.client.schedule(row)))),
  ),
  get(`${CLIENT}/servers/:server/users`, null, (c) => ok(c.client.subusers(usable(c)))),
  get(`${CLIENT}/servers/:server/databases`, null, (c) =>
    ok(list(usable(c).databases.map((row) => c.client.database(row, c.includes)))),
  ),
  get(`${CLIENT}/servers/:server/network/allocations`, null, (c) => ok(c.client.allocations(usable(c)))),
  get(`${CLIENT}/servers/:server/backups`, null, (c) => {
    const { backups } = usable(c)
    const answer = paged(c, backups, (row) => c.client.backup(row), { perPage: 20, most: 50 })
    const counted = backups.filter((one) => one.completedMs === null || one.isSuccessful).length
    return ok({ ...answer, meta: { ...(answer['meta'] as View), backup_count: counted } })
  }),
  get(`${CLIENT}/servers/:server/backups/:backup`, null, (c) => ok(c.client.backup(backupOf(c, usable(c))))),
  {
    method: 'POST',
    path: `${CLIENT}/servers/:server/backups`,
    resource: null,
    handle: (c) => {
      const server = usable(c)
      reachable(c, server)
      return ok(c.client.backup(c.backups.create(server, c.body)))
    },
  },
  {
    method: 'DELETE',
    path: `${CLIENT}/servers/:server/backups/:backup`,
    resource: null,
    handle: (c) => {
      const server = usable(c)
      reachable(c, server)
      c.backups.remove(server, backupOf(c, server))
      return DONE
    },
  },
  get(`${CLIENT}/servers/:server/backups/:backup/download`, null, (c) => {
    const server = usable(c)
    const backup = backupOf(c, server)
    if (backup.completedMs === null) {
      throw new Refusal(400, 'BadRequestHttpException', 'The backup has not been completed yet.')
    }
    if (c.world.options.s3) return signedUrl(c.s3Url(backup))
    return signedUrl(wingsUrl(c, server, 'backup', { backup_uuid: backup.uuid, scope: 'backup-download' }))
  }),
  get(`${CLIENT}/servers/:server/files/list`, null, (c) => {
    const server = usable(c)
    reachable(c, server)
    const rows = listingOf(server, c.query.get('directory') ?? '/')
    if (rows === undefined)
      throw new Refusal(404, 'DaemonConnectionException', 'The requested directory does not exist.')
    return ok(
      list(
        rows.map(({ name, kind, file }) =>
          item('file_object', {
            name,
            mode: modeText(kind, file?.mode),
            mode_bits: (file?.mode ?? 0o755).toString(8),
            size: file?.size ?? 4096,
            is_file: kind === 'file',
            is_symlink: kind === 'link',
            mimetype: kind === 'directory' ? 'inode/directory' : 'application/octet-stream',
            created_at: stamp(FIRST_MS),
            modified_at: stamp(file?.mtimeMs ?? FIRST_MS),
          }),
        ),
      ),
    )
  }),
  get(`${CLIENT}/servers/:server/files/contents`, null, (c) => {
    const server = usable(c)
    reachable(c, server)
    const [path, file] = fileOf(server, c.query.get('file') ?? '') ?? []
    if (path === undefined || file === undefined) throw notFound()
    return { status: 200, body: null, bytes: bytesOf(server.tree, path, file) }
  }),
  get(`${CLIENT}/servers/:server/files/download`, null, (c) => {
    const server = usable(c)
    return signedUrl(wingsUrl(c, server, 'file', { file_path: c.query.get('file') ?? '', scope: 'file-download' }))
  }),
  {
    method: 'POST',
    path: `${CLIENT}/servers/:server/power`,
    resource: null,
    handle: (c) => {
      const server = usable(c)
      reachable(c, server)
      const { signal } = c.body
      if (!['start', 'stop', 'restart', 'kill'].includes(String(signal))) throw invalid('signal', 'in')
      server.power = signal === 'start' || signal === 'restart' ? 'running' : 'offline'
      return DONE
    },
  },
]

/** The routes of a flavour. */
export function routesOf(flavor: 'pterodactyl' | 'pelican'): readonly SimRoute[] {
  return [...SHARED, ...(flavor === 'pelican' ? PELICAN : PTERODACTYL), ...CLIENT_ROUTES]
}

function configuration(c: RouteContext, node: SimNode): View {
  const { port } = new URL(c.nodeUrl(node))
  const pelican = c.world.options.flavor === 'pelican'
  return {
    debug: false,
    uuid: node.uuid,
    token_id: node.tokenId,
    token: node.token,
    api: {
      host: '0.0.0.0',
      port: Number(port),
      ssl: { enabled: c.nodeUrl(node).startsWith('https'), cert: '/etc/letsencrypt/cert', key: '/etc/letsencrypt/key' },
      upload_limit: 100,
    },
    system: {
      data: pelican ? '/var/lib/pelican/volumes' : '/var/lib/pterodactyl/volumes',
      sftp: { bind_port: 2022 },
    },
    allowed_mounts: [],
    remote: c.url,
  }
}

function changeBuild(c: RouteContext): Answer {
  const server = byId(c.world.servers, c.params['id'])
  const { body } = c
  const nested = body['limits']
  const limits = (typeof nested === 'object' && nested !== null ? nested : body) as Record<string, unknown>
  const whole = (field: string, least: number): number => {
    const value = limits[field]
    if (value === undefined) throw invalid(typeof nested === 'object' ? `limits.${field}` : field, 'required')
    if (typeof value !== 'number' || value < least) throw invalid(field, 'min')
    return value
  }
  const next = {
    memory: whole('memory', 0),
    swap: whole('swap', -1),
    disk: whole('disk', 0),
    io: whole('io', 10),
    cpu: whole('cpu', 0),
    // What is not sent becomes nothing, as the form has it.
    threads: typeof limits['threads'] === 'string' ? limits['threads'] : null,
  }
  if (typeof body['allocation'] !== 'number') throw invalid('allocation', 'required')
  const features = body['feature_limits']
  if (typeof features !== 'object' || features === null) throw invalid('feature_limits', 'required')
  const feature = (name: string): number | null => {
    const value: unknown = Reflect.get(features, name)
    if (value !== null && value !== undefined && typeof value !== 'number') throw invalid(name, 'integer')
    return value ?? null
  }
  server.limits = next
  server.allocationId = body['allocation']
  server.featureLimits = {
    databases: feature('databases'),
    allocations: feature('allocations'),
    backups: feature('backups') ?? 0,
  }
  if (typeof body['oom_disabled'] === 'boolean') server.oomDisabled = body['oom_disabled']
  server.updatedMs = Date.now()
  return ok(c.application.server(server, c.includes))
}

function suspend(c: RouteContext, on: boolean): Answer {
  const server = byId(c.world.servers, c.params['id'])
  if (on) server.power = 'offline'
  if (on || server.status === 'suspended') server.status = on ? 'suspended' : null
  return DONE
}

/** By uuid, or by the first eight characters of it. */
function serverOf(c: RouteContext): SimServer {
  const key = c.params['server'] ?? ''
  const found = c.world.servers.find(({ uuid }) => uuid === key || uuid.slice(0, 8) === key)
  const isMine =
    c.caller.rootAdmin ||
    found?.ownerId === c.caller.id ||
    found?.subusers.some(({ userId }) => userId === c.caller.id) === true
  if (found === undefined || !isMine) throw notFound()
  return found
}

/** A server that its client API may be used for. */
function usable(c: RouteContext): SimServer {
  const server = serverOf(c)
  if (server.status === null) return server
  const state =
    server.status === 'suspended'
      ? 'This server is currently suspended and the functionality requested is unavailable.'
      : 'This server is currently in an unsupported state, please try again later.'
  throw new Refusal(409, 'ServerStateConflictException', state)
}

function reachable(c: RouteContext, server: SimServer): void {
  const node = byId(c.world.nodes, String(server.nodeId))
  if (c.isOffline(node)) {
    const detail =
      'There was an exception while attempting to communicate with the daemon resulting in a HTTP/504 response code.'
    throw new Refusal(504, 'DaemonConnectionException', detail)
  }
}

function backupOf(c: RouteContext, server: SimServer): SimBackup {
  const found = server.backups.find(({ uuid }) => uuid === c.params['backup'])
  if (found === undefined) throw notFound()
  return found
}

function wingsUrl(
  c: RouteContext,
  server: SimServer,
  kind: 'backup' | 'file',
  { scope, ...more }: Record<string, string>,
): string {
  const node = byId(c.world.nodes, String(server.nodeId))
  const claims = {
    ...downloadClaims({ server, userUuid: c.caller.uuid, userId: c.caller.id, url: c.url }),
    ...more,
    ...(c.world.options.flavor === 'pelican' ? { scope } : {}),
  }
  return `${c.nodeUrl(node)}/download/${kind}?token=${signedToken(node.token, claims)}`
}

const sshKey = ({ name, publicKey, fingerprint }: SimWorld['sshKeys'][number]): View =>
  item('ssh_key', { name, fingerprint, public_key: publicKey, created_at: stamp(FIRST_MS) })

/** What a broken row is answered with. */
export function brokenRow(error: BrokenRow): Refusal {
  return new Refusal(500, error.message, 'An unexpected error was encountered while processing this request.')
}
