import { createHash } from 'node:crypto'
import { FIRST_MS } from './sim-files.ts'
import type {
  SimAllocation,
  SimBackup,
  SimDatabase,
  SimDatabaseHost,
  SimEgg,
  SimLocation,
  SimMount,
  SimNest,
  SimNode,
  SimSchedule,
  SimServer,
  SimUser,
  SimVariable,
  SimWorld,
} from './sim-world.ts'

/** A value as it stands in an answer. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json }
/** An item, a list or what stands in their place. */
export type View = { [name: string]: Json }
/** Which relations an answer has, and which those have. */
export type Includes = ReadonlyMap<string, Includes>

/** Whose rows an include may show: what the key may not read is answered as nothing. */
export type MayRead = (resource: Resource) => boolean
export type Resource =
  | 'users'
  | 'allocations'
  | 'database_hosts'
  | 'server_databases'
  | 'eggs'
  | 'locations'
  | 'nests'
  | 'nodes'
  | 'servers'
  | 'mounts'
  | 'roles'

/** As `2026-01-02T03:04:05+00:00`. */
export const stamp = (ms: number): string => new Date(ms).toISOString().replace(/\.\d{3}Z$/, '+00:00')
const AT = stamp(FIRST_MS)
const DATES = { created_at: AT, updated_at: AT }
/** Variables have theirs in another way. */
const FINE_DATES = { created_at: '2026-01-02T03:04:05.000000Z', updated_at: '2026-01-02T03:04:05.000000Z' }

export const item = (object: string | null, attributes: View): View => ({ object, attributes })
export const list = (data: View[]): View => ({ object: 'list', data })
const NOTHING: View = { object: 'null_resource', attributes: null }

/** The relations that a query asks for, two levels deep. */
export function includesOf(text: string | null): Includes {
  const tree = new Map<string, Map<string, Includes>>()
  for (const path of (text ?? '').split(',')) {
    const [first = '', second] = path.trim().split('.')
    if (first === '') continue
    const below = tree.get(first) ?? new Map<string, Includes>()
    tree.set(first, below)
    if (second !== undefined && second !== '') below.set(second, new Map())
  }
  return tree
}

/** What PHP makes of an empty map. */
const phpMap = (map: Record<string, unknown> | null): Json =>
  map === null || Object.keys(map).length === 0 ? [] : (map as { [name: string]: Json })
const identifier = (server: SimServer): string => server.uuid.slice(0, 8)

/** Thrown where the source answers 500, because a stored row cannot be shown. */
export class BrokenRow extends Error {}

/** Where nodes are reached. */
export interface NodeAddress {
  readonly host: string
  readonly port: number
  readonly scheme: 'http' | 'https'
}

/** Rows as the application API answers them. */
export class ApplicationViews {
  readonly #world: SimWorld
  readonly #mayRead: MayRead
  readonly #address: (node: SimNode) => NodeAddress
  readonly #isPelican: boolean

  constructor(world: SimWorld, mayRead: MayRead, address: (node: SimNode) => NodeAddress) {
    this.#world = world
    this.#mayRead = mayRead
    this.#address = address
    this.#isPelican = world.options.flavor === 'pelican'
  }

  location(one: SimLocation, includes: Includes = new Map()): View {
    const { id, short, long } = one
    const nodes = this.#world.nodes.filter((node) => node.locationId === id)
    return this.#item('location', { id, short, long, updated_at: AT, created_at: AT }, includes, {
      nodes: ['nodes', (below) => list(nodes.map((node) => this.node(node, below)))],
      servers: [
        'servers',
        (below) => this.#servers((server) => nodes.some((node) => node.id === server.nodeId), below),
      ],
    })
  }

  node(one: SimNode, includes: Includes = new Map()): View {
    const { host, port, scheme } = this.#address(one)
    const own = this.#world.servers.filter((server) => server.nodeId === one.id)
    const sum = (of: (server: SimServer) => number): number => own.reduce((all, server) => all + of(server), 0)
    const attributes = {
      id: one.id,
      uuid: one.uuid,
      public: true,
      name: one.name,
      description: one.description,
      ...(this.#isPelican ? { tags: one.tags } : { location_id: one.locationId }),
      fqdn: host,
      scheme,
      behind_proxy: false,
      maintenance_mode: false,
      memory: one.memory,
      memory_overallocate: 0,
      disk: one.disk,
      disk_overallocate: 0,
      ...(this.#isPelican ? { cpu: 0, cpu_overallocate: 0, daemon_connect: port, daemon_sftp_alias: null } : {}),
      upload_size: 100,
      daemon_listen: port,
      daemon_sftp: 2022,
      daemon_base: this.#isPelican ? '/var/lib/pelican/volumes' : '/var/lib/pterodactyl/volumes',
      ...DATES,
      allocated_resources: { memory: sum(({ limits }) => limits.memory), disk: sum(({ limits }) => limits.disk) },
    }
    const location = this.#world.locations.find(({ id }) => id === one.locationId)
    const allocations = this.#world.allocations.filter(({ nodeId }) => nodeId === one.id)
    return this.#item('node', attributes, includes, {
      allocations: ['allocations', (below) => list(allocations.map((row) => this.allocation(row, below)))],
      ...(this.#isPelican
        ? {}
        : { location: ['locations', (below) => (location === undefined ? NOTHING : this.location(location, below))] }),
      servers: ['servers', (below) => this.#servers((server) => server.nodeId === one.id, below)],
    })
  }

  allocation(one: SimAllocation, includes: Includes = new Map()): View {
    const { id, ip, alias, port, notes, serverId } = one
    const node = this.#world.nodes.find((row) => row.id === one.nodeId)
    const server = this.#world.servers.find((row) => row.id === serverId)
    return this.#item('allocation', { id, ip, alias, port, notes, assigned: serverId !== null }, includes, {
      node: ['nodes', (below) => (node === undefined ? NOTHING : this.node(node, below))],
      server: ['servers', (below) => (server === undefined ? NOTHING : this.server(server, below))],
    })
  }

  nest(one: SimNest, includes: Includes = new Map()): View {
    const { id, uuid, name, description } = one
    const eggs = this.#world.eggs.filter((egg) => egg.nestId === id)
    return this.#item('nest', { id, uuid, author: 'support@source.example', name, description, ...DATES }, includes, {
      eggs: ['eggs', (below) => list(eggs.map((egg) => this.egg(egg, below)))],
      servers: ['servers', (below) => this.#servers((server) => eggs.some((egg) => egg.id === server.eggId), below)],
    })
  }

  /** Throws {@link BrokenRow} for one that is stored badly. */
  egg(one: SimEgg, includes: Includes = new Map()): View {
    if (one.files === null) throw new BrokenRow('JsonException')
    const [image = ''] = Object.values(one.dockerImages)
    const parent = this.#world.eggs.find(({ id }) => id === one.configFrom)
    const source = this.#isPelican && parent !== undefined ? parent : one
    const files = source.files ?? {}
    const attributes = {
      id: one.id,
      uuid: one.uuid,
      name: one.name,
      ...(this.#isPelican ? { icon: null, features: one.features, tags: one.tags } : { nest: one.nestId }),
      author: one.author,
      description: one.description,
      docker_image: image,
      docker_images: one.dockerImages,
      config: {
        files: this.#isPelican ? phpMap(files) : (files as { [name: string]: Json }),
        startup: phpMap(source.startupDone),
        stop: source.stop,
        logs: phpMap(source.logs),
        file_denylist: one.fileDenylist,
        extends: one.configFrom,
      },
      startup: one.startup,
      ...(this.#isPelican ? { startup_commands: { Default: one.startup } } : {}),
      script: {
        privileged: true,
        install: this.#isPelican && parent !== undefined ? parent.install : one.install,
        entry: one.installEntry,
        container: one.installImage,
        extends: one.scriptFrom,
      },
      ...DATES,
    }
    const nest = this.#world.nests.find(({ id }) => id === one.nestId)
    if (this.#isPelican && (includes.has('config') || includes.has('script'))) throw new BrokenRow('BadMethodCall')
    const inherited = this.#world.eggs.find(({ id }) => id === one.configFrom)
    const script = this.#world.eggs.find(({ id }) => id === one.scriptFrom)
    return this.#item('egg', attributes, includes, {
      nest: ['nests', (below) => (nest === undefined ? NOTHING : this.nest(nest, below))],
      servers: ['servers', (below) => this.#servers((server) => server.eggId === one.id, below)],
      config: ['eggs', () => (inherited === undefined ? NOTHING : item(null, inheritedConfig(inherited)))],
      script: [
        'eggs',
        () =>
          script === undefined
            ? NOTHING
            : item(null, {
                privileged: true,
                install: script.install,
                entry: script.installEntry,
                container: script.installImage,
              }),
      ],
      variables: ['eggs', () => list(one.variables.map((variable) => item('egg_variable', this.#variable(variable))))],
    })
  }

  #variable(one: SimVariable): View {
    return {
      id: one.id,
      egg_id: one.eggId,
      name: one.name,
      description: one.description,
      ...(this.#isPelican ? { sort: one.id } : {}),
      env_variable: one.envVariable,
      default_value: one.defaultValue,
      user_viewable: one.userViewable,
      user_editable: one.userEditable,
      rules: this.#isPelican ? one.rules.split('|') : one.rules,
      ...FINE_DATES,
    }
  }

  user(one: SimUser, includes: Includes = new Map()): View {
    const attributes = {
      id: one.id,
      external_id: null,
      ...(this.#isPelican ? { is_managed_externally: false } : {}),
      uuid: one.uuid,
      username: one.username,
      email: one.email,
      ...(this.#isPelican ? {} : { first_name: one.firstName, last_name: one.lastName }),
      language: 'en',
      root_admin: one.rootAdmin,
      ...(this.#isPelican ? { '2fa_enabled': one.has2fa } : {}),
      '2fa': one.has2fa,
      ...DATES,
    }
    return this.#item('user', attributes, includes, {
      servers: ['servers', (below) => this.#servers((server) => server.ownerId === one.id, below)],
    })
  }

  server(one: SimServer, includes: Includes = new Map()): View {
    const world = this.#world
    const egg = world.eggs.find(({ id }) => id === one.eggId)
    const node = world.nodes.find(({ id }) => id === one.nodeId)
    const location = world.locations.find(({ id }) => id === node?.locationId)
    const nest = world.nests.find(({ id }) => id === egg?.nestId)
    const owner = world.users.find(({ id }) => id === one.ownerId)
    const environment = {
      ...one.environment,
      STARTUP: one.startup,
      ...(this.#isPelican ? {} : { P_SERVER_LOCATION: location?.short ?? '' }),
      P_SERVER_UUID: one.uuid,
      P_SERVER_ALLOCATION_LIMIT: one.featureLimits.allocations,
    }
    const attributes = {
      id: one.id,
      external_id: one.externalId,
      uuid: one.uuid,
      identifier: identifier(one),
      name: one.name,
      description: one.description,
      status: one.status,
      suspended: one.status === 'suspended',
      limits: {
        ...one.limits,
        oom_disabled: one.oomDisabled,
        ...(this.#isPelican ? { oom_killer: !one.oomDisabled } : {}),
      },
      feature_limits: { ...one.featureLimits },
      user: one.ownerId,
      node: one.nodeId,
      allocation: one.allocationId,
      ...(this.#isPelican ? {} : { nest: egg?.nestId ?? 0 }),
      egg: one.eggId,
      container: {
        startup_command: one.startup,
        image: one.image,
        installed: one.status === 'installing' || one.status === 'install_failed' ? 0 : 1,
        environment,
      },
      updated_at: stamp(one.updatedMs),
      created_at: AT,
    }
    const allocations = world.allocations.filter(({ serverId }) => serverId === one.id)
    return this.#item('server', attributes, includes, {
      allocations: ['allocations', (below) => list(allocations.map((row) => this.allocation(row, below)))],
      user: ['users', (below) => (owner === undefined ? NOTHING : this.user(owner, below))],
      subusers: ['users', () => list(one.subusers.map((row) => item('subuser', subuser(row, one))))],
      ...(this.#isPelican
        ? {}
        : { nest: ['nests', (below) => (nest === undefined ? NOTHING : this.nest(nest, below))] }),
      egg: ['eggs', (below) => (egg === undefined ? NOTHING : this.egg(egg, below))],
      variables: ['servers', () => list((egg?.variables ?? []).map((row) => this.#serverVariable(row, one)))],
      ...(this.#isPelican
        ? {}
        : {
            location: ['locations', (below) => (location === undefined ? NOTHING : this.location(location, below))],
          }),
      node: ['nodes', (below) => (node === undefined ? NOTHING : this.node(node, below))],
      databases: ['server_databases', () => list(one.databases.map((row) => item('databases', database(row, one))))],
      transfer: [
        'servers',
        () => {
          throw new BrokenRow('TypeError')
        },
      ],
    })
  }

  #serverVariable(variable: SimVariable, server: SimServer): View {
    const value = server.environment[variable.envVariable]
    return item('server_variable', {
      ...this.#variable(variable),
      server_value: value === undefined || value === null ? null : String(value),
    })
  }

  serverDatabase(one: SimDatabase, server: SimServer, includes: Includes): View {
    const host = this.#world.databaseHosts.find(({ id }) => id === one.hostId)
    return this.#item('server_database', database(one, server), includes, {
      password: ['server_databases', () => item('database_password', { password: one.password })],
      host: ['database_hosts', () => (host === undefined ? NOTHING : this.databaseHost(host))],
    })
  }

  databaseHost(one: SimDatabaseHost): View {
    const { id, name, host, port, username, nodeId } = one
    return item('database_host', { id, name, host, port, username, node: nodeId, ...DATES })
  }

  mount(one: SimMount, includes: Includes = new Map()): View {
    const { id, uuid, name, description, source, target, readOnly, userMountable } = one
    const attributes = {
      id,
      uuid,
      name,
      description,
      source,
      target,
      read_only: readOnly,
      user_mountable: userMountable,
    }
    return this.#item('mount', attributes, includes, {
      eggs: ['eggs', () => list([])],
      nodes: ['nodes', () => list([])],
      servers: ['servers', (below) => this.#servers((server) => server.mountIds.includes(id), below)],
    })
  }

  #servers(isWanted: (server: SimServer) => boolean, below: Includes): View {
    return list(this.#world.servers.filter(isWanted).map((server) => this.server(server, below)))
  }

  /** Relations that are not known are left out; those that the key may not read are nothing. */
  #item(
    object: string,
    attributes: View,
    includes: Includes,
    relations: Record<string, readonly [Resource, (below: Includes) => View]>,
  ): View {
    const shown: View = {}
    for (const [name, below] of includes) {
      const relation = relations[name]
      if (relation === undefined) continue
      const [resource, view] = relation
      shown[name] = this.#mayRead(resource) ? view(below) : NOTHING
    }
    return item(object, Object.keys(shown).length === 0 ? attributes : { ...attributes, relationships: shown })
  }
}

function inheritedConfig(egg: SimEgg): View {
  const map = (value: Record<string, unknown> | null): Json => (value ?? {}) as { [name: string]: Json }
  return { files: map(egg.files), startup: map(egg.startupDone), stop: egg.stop, logs: map(egg.logs) }
}

function subuser({ id, userId, permissions }: SimServer['subusers'][number], server: SimServer): View {
  return { id, user_id: userId, server_id: server.id, permissions: [...permissions], ...DATES }
}

function database(one: SimDatabase, server: SimServer): View {
  return {
    id: one.id,
    server: server.id,
    host: one.hostId,
    database: one.database,
    username: one.username,
    remote: one.remote,
    max_connections: one.maxConnections,
    ...DATES,
  }
}

/** Rows as the client API answers them. */
export class ClientViews {
  readonly #world: SimWorld
  readonly #address: (node: SimNode) => NodeAddress
  readonly #isPelican: boolean

  constructor(world: SimWorld, address: (node: SimNode) => NodeAddress) {
    this.#world = world
    this.#address = address
    this.#isPelican = world.options.flavor === 'pelican'
  }

  server(one: SimServer, caller: SimUser, includes: Includes): View {
    const node = this.#world.nodes.find(({ id }) => id === one.nodeId)
    const egg = this.#world.eggs.find(({ id }) => id === one.eggId)
    const attributes: View = {
      server_owner: one.ownerId === caller.id,
      identifier: identifier(one),
      internal_id: one.id,
      uuid: one.uuid,
      name: one.name,
      node: node?.name ?? '',
      is_node_under_maintenance: false,
      sftp_details: { ip: node === undefined ? '' : this.#address(node).host, port: 2022 },
      description: one.description,
      limits: {
        ...one.limits,
        oom_disabled: one.oomDisabled,
        ...(this.#isPelican ? { oom_killer: !one.oomDisabled } : {}),
      },
      invocation: one.startup,
      docker_image: one.image,
      egg_features: egg?.features ?? [],
      feature_limits: { ...one.featureLimits },
      status: one.status,
      is_suspended: one.status === 'suspended',
      is_installing: one.status === 'installing',
      is_transferring: false,
    }
    const variables = (egg?.variables ?? [])
      .filter(({ userViewable }) => userViewable)
      .map((row) => item('egg_variable', this.#variable(row, one)))
    const relationships: View = { allocations: this.allocations(one), variables: list(variables) }
    if (includes.has('egg')) relationships['egg'] = item('egg', { uuid: egg?.uuid ?? '', name: egg?.name ?? '' })
    if (includes.has('subusers')) relationships['subusers'] = this.subusers(one)
    return item('server', { ...attributes, relationships })
  }

  #variable(one: SimVariable, server: SimServer): View {
    const value = server.environment[one.envVariable]
    return {
      name: one.name,
      description: one.description,
      env_variable: one.envVariable,
      default_value: one.defaultValue,
      server_value: value === undefined || value === null ? null : String(value),
      is_editable: one.userEditable,
      rules: this.#isPelican ? one.rules.split('|') : one.rules,
    }
  }

  allocations(one: SimServer): View {
    const own = this.#world.allocations.filter(({ serverId }) => serverId === one.id)
    return list(
      own.map(({ id, ip, alias, port, notes }) =>
        item('allocation', { id, ip, ip_alias: alias, port, notes, is_default: id === one.allocationId }),
      ),
    )
  }

  subusers(one: SimServer): View {
    return list(
      one.subusers.flatMap(({ userId, permissions }) => {
        const user = this.#world.users.find(({ id }) => id === userId)
        if (user === undefined) return []
        const face = createHash('md5').update(user.email.toLowerCase()).digest('hex')
        return [
          item('server_subuser', {
            uuid: user.uuid,
            username: user.username,
            email: user.email,
            image: `https://gravatar.example/avatar/${face}`,
            '2fa_enabled': user.has2fa,
            created_at: AT,
            permissions: [...permissions],
          }),
        ]
      }),
    )
  }

  schedule(one: SimSchedule): View {
    const { minute, hour, dayOfMonth, month, dayOfWeek } = one.cron
    const tasks = one.tasks.map((task) =>
      item('schedule_task', {
        id: task.id,
        sequence_id: task.sequence,
        action: task.action,
        payload: task.payload,
        time_offset: task.offset,
        is_queued: false,
        continue_on_failure: task.continueOnFailure,
        ...DATES,
      }),
    )
    return item('server_schedule', {
      id: one.id,
      name: one.name,
      cron: { day_of_week: dayOfWeek, day_of_month: dayOfMonth, month, hour, minute },
      is_active: one.isActive,
      is_processing: false,
      only_when_online: one.onlyWhenOnline,
      last_run_at: null,
      next_run_at: AT,
      ...DATES,
      relationships: { tasks: list(tasks) },
    })
  }

  backup(one: SimBackup): View {
    return item('backup', {
      uuid: one.uuid,
      is_successful: one.isSuccessful,
      is_locked: one.isLocked,
      ...(this.#isPelican ? { is_scheduled: false } : {}),
      name: one.name,
      ignored_files: [...one.ignored],
      checksum: one.checksum,
      bytes: one.bytes,
      created_at: stamp(one.createdMs),
      completed_at: one.completedMs === null ? null : stamp(one.completedMs),
    })
  }

  database(one: SimDatabase, includes: Includes): View {
    const host = this.#world.databaseHosts.find(({ id }) => id === one.hostId)
    const attributes: View = {
      id: this.#isPelican ? one.id : createHash('md5').update(String(one.id)).digest('base64url').slice(0, 8),
      host: { address: host?.host ?? '', port: host?.port ?? 0 },
      name: one.database,
      username: one.username,
      connections_from: one.remote,
      max_connections: one.maxConnections,
    }
    const password = item('database_password', { password: one.password })
    return item(
      'server_database',
      includes.has('password') ? { ...attributes, relationships: { password } } : attributes,
    )
  }

  account(one: SimUser): View {
    const { id, username, email, firstName, lastName } = one
    const names = this.#isPelican ? {} : { first_name: firstName, last_name: lastName }
    return item('user', { id, admin: one.rootAdmin, username, email, ...names, language: 'en' })
  }
}
