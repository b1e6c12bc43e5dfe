import type {
  SimAllocation,
  SimDatabase,
  SimDatabaseHost,
  SimEgg,
  SimLocation,
  SimMount,
  SimNest,
  SimNode,
  SimServer,
  SimUser,
  SimVariable,
  SimWorld,
} from './rows.ts'
import {
  AT,
  BrokenRow,
  DATES,
  FINE_DATES,
  type Includes,
  identifier,
  item,
  type Json,
  list,
  type MayRead,
  NOTHING,
  type NodeAddress,
  phpMap,
  type Resource,
  stamp,
  type View,
} from './view.ts'

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
      maintenance_mode: one.isInMaintenance,
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
    const configParent = this.#world.eggs.find(({ id }) => id === one.configFrom)
    const scriptParent = this.#world.eggs.find(({ id }) => id === one.scriptFrom)
    // Pelican answers what is inherited as if it were the egg's own.
    const config = this.#isPelican ? (configParent ?? one) : one
    const script = this.#isPelican ? (scriptParent ?? one) : one
    const files = config.files ?? {}
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
        startup: phpMap(config.startupDone),
        stop: config.stop,
        logs: phpMap(config.logs),
        file_denylist: one.fileDenylist,
        extends: one.configFrom,
      },
      startup: one.startup,
      ...(this.#isPelican ? { startup_commands: { Default: one.startup } } : {}),
      script: {
        privileged: true,
        install: script.install,
        entry: script.installEntry,
        container: script.installImage,
        extends: one.scriptFrom,
      },
      ...DATES,
    }
    const nest = this.#world.nests.find(({ id }) => id === one.nestId)
    if (this.#isPelican && (includes.has('config') || includes.has('script'))) throw new BrokenRow('BadMethodCall')
    return this.#item('egg', attributes, includes, {
      nest: ['nests', (below) => (nest === undefined ? NOTHING : this.nest(nest, below))],
      servers: ['servers', (below) => this.#servers((server) => server.eggId === one.id, below)],
      config: ['eggs', () => (configParent === undefined ? NOTHING : item(null, inheritedConfig(configParent)))],
      script: [
        'eggs',
        () =>
          scriptParent === undefined
            ? NOTHING
            : item(null, {
                privileged: true,
                install: scriptParent.install,
                entry: scriptParent.installEntry,
                container: scriptParent.installImage,
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
      rules: this.#isPelican ? [...one.rules] : one.rules.join('|'),
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
