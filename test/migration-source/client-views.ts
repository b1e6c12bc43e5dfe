import { createHash } from 'node:crypto'
import type { SimBackup, SimDatabase, SimNode, SimSchedule, SimServer, SimUser, SimVariable, SimWorld } from './rows.ts'
import { AT, DATES, type Includes, identifier, item, list, type NodeAddress, stamp, type View } from './view.ts'

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
    const all = egg?.variables ?? []
    const attributes: View = {
      server_owner: one.ownerId === caller.id,
      identifier: identifier(one),
      internal_id: one.id,
      uuid: one.uuid,
      name: one.name,
      node: node?.name ?? '',
      is_node_under_maintenance: node?.isInMaintenance ?? false,
      sftp_details: { ip: node === undefined ? '' : this.#address(node).host, port: 2022 },
      description: one.description,
      limits: {
        ...one.limits,
        oom_disabled: one.oomDisabled,
        ...(this.#isPelican ? { oom_killer: !one.oomDisabled } : {}),
      },
      invocation: invocationOf(one, all),
      docker_image: one.image,
      egg_features: egg?.features ?? [],
      feature_limits: { ...one.featureLimits },
      status: one.status,
      is_suspended: one.status === 'suspended',
      is_installing: one.status === 'installing',
      is_transferring: false,
    }
    const variables = all
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
      rules: this.#isPelican ? [...one.rules] : one.rules.join('|'),
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

/** The startup line with its variables filled in; those that users may not see are not shown in it either. */
function invocationOf({ startup, environment, limits }: SimServer, variables: readonly SimVariable[]): string {
  return startup.replace(/\{\{\s*([\w.]+)\s*\}\}/g, (whole, name: string) => {
    if (name === 'SERVER_MEMORY') return String(limits.memory)
    const variable = variables.find(({ envVariable }) => envVariable === name)
    if (variable === undefined) return whole
    return variable.userViewable ? String(environment[name] ?? variable.defaultValue) : '[hidden]'
  })
}
