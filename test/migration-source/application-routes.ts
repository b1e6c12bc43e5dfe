import { type Answer, DONE, invalid, notFound, ok } from './answer.ts'
import type { Flavor } from './options.ts'
import { byId, filtered, get, paged, type RouteContext, reachable, type SimRoute } from './route.ts'
import type { SimNode } from './rows.ts'
import { item, list, type View } from './view.ts'

const APP = '/api/application'

/** Both flavours. */
const SHARED: readonly SimRoute[] = [
  get(`${APP}/nodes`, 'nodes', (c) => {
    const rows = filtered(c, 'nodes', c.world.nodes, (row, field) =>
      field === 'fqdn' ? new URL(c.nodeUrl(row)).hostname : row[field as 'uuid' | 'name'],
    )
    return ok(paged(c, rows, (row) => c.application.node(row, c.includes), { name: 'nodes' }))
  }),
  get(`${APP}/nodes/:id`, 'nodes', (c) => ok(c.application.node(byId(c.world.nodes, c.params['id']), c.includes))),
  get(`${APP}/nodes/:id/configuration`, 'nodes', (c) => ok(configuration(c, byId(c.world.nodes, c.params['id'])))),
  get(`${APP}/nodes/:id/allocations`, 'allocations', (c) => {
    const { id } = byId(c.world.nodes, c.params['id'])
    const own = c.world.allocations.filter(({ nodeId }) => nodeId === id)
    const rows = filtered(c, 'allocations', own, (row, field) =>
      field === 'server_id' ? row.serverId : row[field as 'ip' | 'port'],
    )
    return ok(paged(c, rows, (row) => c.application.allocation(row, c.includes)))
  }),
  get(`${APP}/users`, 'users', (c) => {
    const rows = filtered(c, 'users', c.world.users, (row, field) =>
      field === 'external_id' ? null : row[field as 'email' | 'uuid' | 'username'],
    )
    return ok(paged(c, rows, (row) => c.application.user(row, c.includes), { name: 'users' }))
  }),
  get(`${APP}/users/:id`, 'users', (c) => ok(c.application.user(byId(c.world.users, c.params['id']), c.includes))),
  get(`${APP}/servers`, 'servers', (c) => {
    const rows = filtered(c, 'servers', c.world.servers, (row, field) =>
      field === 'external_id' ? row.externalId : row[field as 'uuid' | 'name' | 'description' | 'image'],
    )
    return ok(paged(c, rows, (row) => c.application.server(row, c.includes), { name: 'servers' }))
  }),
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
  get(`${APP}/locations`, 'locations', (c) => {
    const rows = filtered(c, 'locations', c.world.locations, (row, field) => row[field as 'short' | 'long'])
    return ok(paged(c, rows, (row) => c.application.location(row, c.includes), { name: 'locations' }))
  }),
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

/** The routes of the application API of a flavour. */
export function applicationRoutes(flavor: Flavor): readonly SimRoute[] {
  return [...SHARED, ...(flavor === 'pelican' ? PELICAN : PTERODACTYL)]
}

/** What a node is set up with, and all that is needed to control it. */
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
    backups: feature('backups'),
  }
  if (typeof body['oom_disabled'] === 'boolean') server.oomDisabled = body['oom_disabled']
  server.updatedMs = Date.now()
  return ok(c.application.server(server, c.includes))
}

function suspend(c: RouteContext, on: boolean): Answer {
  const server = byId(c.world.servers, c.params['id'])
  reachable(c, server)
  if (on) server.power = 'offline'
  if (on || server.status === 'suspended') server.status = on ? 'suspended' : null
  return DONE
}
