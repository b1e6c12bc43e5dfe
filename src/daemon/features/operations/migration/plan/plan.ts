import type {
  Lost,
  MigrationOptions,
  MigrationPlan,
  PlanConflict,
  PlanItem,
} from '../../../../../shared/api/migration.ts'
import type { MigrationPhase } from '../../../../../shared/kernel/migration.ts'
import type { IsoTime } from '../../../../../shared/kernel/time.ts'
import type { SourceKind, SourceServer, SourceSubuser, SourceUser } from '../source/model.ts'
import { contentHash, stepId } from './content-hash.ts'
import { targetLimits } from './limits.ts'
import { mappedPermissions } from './permissions.ts'
import { PortPlan } from './ports.ts'
import type { SourceSnapshot, TargetNodeState, TargetState } from './state.ts'

/** What a migration was asked to bring. */
export interface PlanRequest {
  readonly scope: 'full' | 'node' | 'server'
  /** From ids of nodes of the source to ids of nodes here. */
  readonly nodeMappings: Readonly<Record<string, string>>
  /** From ids of servers of the source to ids of nodes here. */
  readonly serverMappings: Readonly<Record<string, string>>
  /** All if empty. */
  readonly phases: readonly MigrationPhase[]
  readonly options: MigrationOptions
}

/** A step as it is stored. */
export interface PlannedStep {
  readonly id: string
  readonly phase: MigrationPhase
  readonly action: string
  readonly name: string
  readonly sourceType: string
  readonly sourceId: string
  /** Where it is known before. */
  readonly targetId: string | null
  /** Skipped from the beginning, for this reason. */
  readonly skipped: string | null
  /** Failed from the beginning: a difference that a comparison has found. */
  readonly failed?: { readonly code: string; readonly text: string }
  /** Ids of the steps that must be completed before, or skipped because their thing is there. */
  readonly needs: readonly string[]
  /** Ids of the steps that must be over before, however they went. */
  readonly follows: readonly string[]
  readonly input: Readonly<Record<string, unknown>>
}

/** A plan as people see it, and the steps that carry it out, in their order. */
export interface BuiltPlan {
  readonly plan: MigrationPlan
  readonly steps: readonly PlannedStep[]
}

/** How many items an answer shows. */
const MOST_ITEMS = 20_000
/** Requests for the record of one server, and for its files. */
const REQUESTS_PER_SERVER = 4
const REQUESTS_PER_TRANSFER = 8

/** What things that cannot be read would have belonged to. */
const PHASE_OF: Readonly<Partial<Record<SourceKind, MigrationPhase>>> = {
  location: 'locations',
  nest: 'templates',
  egg: 'templates',
  user: 'users',
  server: 'servers',
  subuser: 'subusers',
  database: 'databases',
  schedule: 'schedules',
  backup: 'backups',
}

/** What becomes of a server's files, one after the other. */
const FILE_STEPS = [
  'freeze_source',
  'create_backup',
  'transfer_files',
  'verify_files',
  'place_files',
  'source_cleanup',
] as const

/** Of a folder of the node nothing has to be made or put back. */
const DIRECTORY_STEPS = ['transfer_files', 'verify_files', 'place_files'] as const

/** What shares a node goes one after the other. */
function laneOf(action: (typeof FILE_STEPS)[number], server: SourceServer, node: TargetNodeState): string | undefined {
  if (action === 'create_backup') return `backup ${server.nodeId}`
  return action === 'transfer_files' ? `transfer ${node.id}` : undefined
}

/** What the phases that were asked for cannot do without. */
const NEEDED: Readonly<Partial<Record<MigrationPhase, readonly MigrationPhase[]>>> = {
  servers: ['locations', 'templates', 'users'],
  subusers: ['servers', 'users'],
  databases: ['servers'],
  schedules: ['servers'],
  backups: ['servers'],
  files: ['servers'],
}

/**
 * What a migration is going to do, from what the source has, what this panel has, and what was asked for. It reads nothing else and
 * changes nothing; the same three give the same plan, and the same hash.
 */
export function buildPlan(
  source: SourceSnapshot,
  target: TargetState,
  { request, createdAt }: { readonly request: PlanRequest; readonly createdAt: IsoTime },
): BuiltPlan {
  return new Planner(source, target, request).build(createdAt)
}

type Op = PlanItem['op']

interface NewItem {
  readonly phase: MigrationPhase
  readonly action: string
  readonly type: string
  readonly id: string
  readonly name: string
  readonly target: PlanItem['target']
  readonly op: Op
  readonly reason?: string | undefined
  readonly needs?: readonly (string | undefined)[]
  readonly follows?: readonly (string | undefined)[]
  readonly input: Readonly<Record<string, unknown>>
  readonly bytes?: number | null
}

class Planner {
  readonly #source: SourceSnapshot
  readonly #target: TargetState
  readonly #request: PlanRequest
  readonly #phases: ReadonlySet<MigrationPhase>
  readonly #items: PlanItem[] = []
  readonly #steps: PlannedStep[] = []
  readonly #conflicts: PlanConflict[] = []
  readonly #warnings: string[] = []
  readonly #lost: Lost[] = []
  readonly #ports = new PortPlan()
  /** MiB that this plan gives to servers, by target node. */
  readonly #memory = new Map<string, number>()
  /** Names that this plan gives, in lower case, by kind. */
  readonly #names = new Map<string, Set<string>>()
  /** Ids of steps that bring a thing, by `type id`. */
  readonly #brings = new Map<string, string>()
  #requests = 0

  constructor(source: SourceSnapshot, target: TargetState, request: PlanRequest) {
    this.#source = source
    this.#target = target
    this.#request = request
    this.#phases = phasesOf(request.phases)
  }

  build(createdAt: IsoTime): BuiltPlan {
    const servers = this.#serversInScope()
    this.#locations(servers)
    this.#templates(servers)
    this.#users(servers)
    for (const { server, node } of servers) this.#server(server, node)
    for (const [index, one] of this.#source.unreadable.entries()) this.#unreadable(one, index)
    for (const { what, count, why } of this.#source.losses) this.#lost.push({ what, count: count ?? 0, why })
    this.#finish()
    const counts = { create: 0, link: 0, update: 0, skip: 0, conflict: 0 }
    for (const { op } of this.#items) counts[op]++
    const hasFiles = this.#items.some(({ action, op }) => action === 'transfer_files' && op !== 'skip')
    const bytes = hasFiles ? null : this.#items.reduce((sum, { bytesEstimate }) => sum + (bytesEstimate ?? 0), 0)
    const plan: MigrationPlan = {
      planVersion: 1,
      sourceFp: this.#source.fingerprint,
      createdAt,
      hash: contentHash({
        source: this.#source.fingerprint,
        request: this.#request,
        items: this.#items,
        conflicts: this.#conflicts,
        inputs: this.#steps.map(({ input }) => input),
      }),
      counts,
      items: this.#items.slice(0, MOST_ITEMS),
      conflicts: this.#conflicts,
      lost: this.#lost,
      warnings: this.#warnings,
      estimate: { apiRequests: this.#requests, bytes, minSeconds: Math.ceil(this.#requests / 4) },
    }
    return { plan, steps: this.#steps }
  }

  /** It counts as read all the same, so that what was read is the sum of what has become of it. */
  #unreadable({ kind, id, name, reason }: SourceSnapshot['unreadable'][number], index: number): void {
    const phase = PHASE_OF[kind]
    this.#warnings.push(`${kind} ${name ?? id ?? 'of unknown id'} cannot be read: ${reason}`)
    if (phase === undefined || !this.#phases.has(phase)) return
    const item = { phase, action: `import_${kind}`, type: kind, id: `unreadable ${id ?? index}`, target: null } as const
    this.#add({
      ...item,
      name: name ?? id ?? kind,
      op: 'skip',
      reason: 'unreadable',
      input: { reason, nodeId: '', source: { uuid: '', name: name ?? '', nodeId: '' } },
    })
  }

  /** Servers that come along, by their nodes, so that one node of the source is done before the next. */
  #serversInScope(): { server: SourceServer; node: TargetNodeState }[] {
    const { scope, nodeMappings, serverMappings } = this.#request
    const found = []
    for (const server of this.#source.servers) {
      const nodeId =
        own(serverMappings, server.id) ?? (scope === 'server' ? undefined : own(nodeMappings, server.nodeId))
      const node = nodeId === undefined ? undefined : this.#target.nodes.get(nodeId)
      if (node !== undefined) found.push({ server, node })
    }
    const known = new Set(this.#source.servers.map(({ id }) => id))
    for (const id of Object.keys(serverMappings)) {
      if (known.has(id)) continue
      this.#conflict('SERVER_UNKNOWN', { type: 'server', id, name: id }, `The source has no server with the id ${id}`)
    }
    const nodes = new Set(this.#source.nodes.map(({ id }) => id))
    for (const id of Object.keys(nodeMappings)) {
      if (nodes.has(id)) continue
      this.#conflict('NODE_UNKNOWN', { type: 'node', id, name: id }, `The source has no node with the id ${id}`)
    }
    return found.sort((a, b) => byId(a.server.nodeId, b.server.nodeId) || byId(a.server.id, b.server.id))
  }

  #locations(servers: readonly { server: SourceServer }[]): void {
    if (!this.#phases.has('locations')) return
    const isFull = this.#request.scope === 'full'
    const wanted = new Set(servers.map(({ server }) => server.nodeId))
    const needed = new Set(this.#source.nodes.flatMap(({ id, locationId }) => (wanted.has(id) ? [locationId] : [])))
    for (const location of this.#source.locations) {
      if (!isFull && !needed.has(location.id)) continue
      const { id, name } = location
      this.#named('locations', 'import_location', {
        type: 'location',
        id,
        name,
        source: location,
        held: this.#target.locations,
      })
    }
  }

  #templates(servers: readonly { server: SourceServer }[]): void {
    if (!this.#phases.has('templates')) return
    const isFull = this.#request.scope === 'full'
    const wanted = new Set(servers.map(({ server }) => server.eggId))
    const eggs = this.#source.eggs.filter(({ id }) => isFull || wanted.has(id))
    const nests = new Set(eggs.map(({ nestId }) => nestId))
    for (const nest of this.#source.nests) {
      if (!isFull && !nests.has(nest.id)) continue
      const { id, name } = nest
      this.#named('templates', 'import_nest', { type: 'nest', id, name, source: nest, held: this.#target.nests })
    }
    for (const egg of eggs) this.#template(egg)
  }

  /** A nest or location: whoever has its name stands for it. */
  #named(
    phase: MigrationPhase,
    action: string,
    {
      type,
      id,
      name,
      source,
      held,
    }: {
      type: 'location' | 'nest'
      id: string
      name: string
      source: object
      held: ReadonlyMap<string, string>
    },
  ): string {
    const add = (op: Op, targetId: string | null, as: string, reason?: string) =>
      this.#add({
        phase,
        action,
        type,
        id,
        name,
        target: { type, id: targetId, name: as },
        op,
        reason,
        input: { source, name: as, op },
      })
    const again = this.#again(type, id, source)
    if (again !== undefined) return add(again.op, again.targetId, name, again.reason)
    const there = held.get(name)
    if (there === undefined) return add('create', null, this.#freeName(type, name, held))
    const policy = this.#request.options.conflicts.location
    if (policy === 'link') return add('link', there, name, 'exists')
    if (policy === 'suffix') return add('create', null, this.#freeName(type, name, held))
    this.#conflict('NAME_TAKEN', { type, id, name }, `There is a ${type} named ${name} already`, {
      target: { type, id: there, name },
      policy: 'conflicts.location',
      policyOptions: ['link', 'suffix'],
    })
    return add('conflict', there, name)
  }

  #template(egg: SourceSnapshot['eggs'][number]): string {
    const { id, name, nestId } = egg
    const hash = contentHash(egg.document)
    const there = this.#target.templates.get(name)
    const policy = this.#request.options.conflicts.template
    const needs = [this.#brings.get(`nest ${nestId}`)]
    const add = (op: Op, targetId: string | null, as: string, reason?: string) =>
      this.#add({
        phase: 'templates',
        action: 'import_template',
        type: 'egg',
        id,
        name,
        target: { type: 'template', id: targetId, name: as },
        op,
        reason,
        needs,
        input: { source: egg, name: as, op },
      })
    if (egg.mustExist) {
      const known = there?.id ?? [...this.#target.templates.values()].find((one) => one.id === id)?.id
      return known === undefined ? add('skip', null, name, 'template_missing') : add('link', known, name, 'exists')
    }
    const again = this.#again('egg', id, egg)
    if (again !== undefined) {
      if (again.op !== 'update' || policy === 'overwrite') return add(again.op, again.targetId, name, again.reason)
      // Servers that were brought before keep the template that they have.
      if (policy === 'link') return add('link', again.targetId, name, 'exists')
      if (policy === 'suffix') return add('create', null, this.#freeName('template', name, this.#target.templates))
    } else if (there === undefined || there.origin === hash) {
      return there === undefined
        ? add('create', null, this.#freeName('template', name, this.#target.templates))
        : add('link', there.id, name, 'exists')
    } else if (policy === 'link') return add('link', there.id, name, 'exists')
    else if (policy === 'overwrite') return add('update', there.id, name)
    else if (policy === 'suffix') return add('create', null, this.#freeName('template', name, this.#target.templates))
    this.#conflict('TEMPLATE_DIFFERS', { type: 'egg', id, name }, `There is another template named ${name} already`, {
      target: { type: 'template', id: there?.id ?? null, name },
      policy: 'conflicts.template',
      policyOptions: ['suffix', 'overwrite', 'link'],
    })
    return add('conflict', there?.id ?? null, name)
  }

  #users(servers: readonly { server: SourceServer }[]): void {
    if (!this.#phases.has('users')) return
    const wanted = new Set<string>()
    for (const { server } of servers) {
      wanted.add(server.ownerId)
      for (const one of this.#subusersOf(server)) wanted.add(this.#userOf(one)?.id ?? '')
    }
    for (const user of this.#source.users) {
      if (this.#request.scope !== 'full' && !wanted.has(user.id)) continue
      this.#user(user)
      if (this.#request.options.invite) this.#invite(user)
    }
  }

  #user(user: SourceUser): string {
    const { id, email } = user
    const { conflicts, grantAdmin } = this.#request.options
    const username = freeUsername(user.username, email)
    const add = (op: Op, targetId: string | null, reason?: string, as = username) =>
      this.#add({
        phase: 'users',
        action: 'import_user',
        type: 'user',
        id,
        name: email,
        target: { type: 'user', id: targetId, name: email },
        op,
        reason,
        input: { source: user, username: as, op, grantAdmin: grantAdmin && user.isAdmin },
      })
    const again = this.#again('user', id, user)
    if (user.mustExist && again === undefined) {
      const known = this.#target.users.get(email)?.id ?? this.#target.usernames.get(user.username.toLowerCase())
      return known === undefined ? add('skip', null, 'user_missing') : add('link', known, 'exists')
    }
    // What somebody has made of an account here is not overwritten by what it was on the source.
    if (again !== undefined) return add('skip', again.targetId, 'unchanged')
    const there = this.#target.users.get(email.toLowerCase())
    if (there === undefined) {
      return add('create', null, undefined, this.#freeName('user', username, this.#target.usernames, USERNAME_LENGTH))
    }
    if (conflicts.user === 'link') return add('link', there.id, 'exists')
    if (conflicts.user === 'skip') return add('skip', null, 'policy')
    this.#conflict('USER_EXISTS', { type: 'user', id, name: email }, `${email} has an account already`, {
      target: { type: 'user', id: there.id, name: email },
      policy: 'conflicts.user',
      policyOptions: ['link', 'skip'],
    })
    return add('conflict', there.id)
  }

  /** Also who came in a rehearsal, which writes to nobody. Whoever had an account here has a password. */
  #invite({ id, email }: SourceUser): void {
    const before = this.#target.brought.get(`user ${id}`)
    const there = this.#target.users.get(email.toLowerCase())
    const isNew =
      before?.isThere === true ? before.created && this.#target.withoutPassword.has(before.targetId) : !there
    if (!isNew || this.#target.brought.get(`invite ${id}`)?.isThere === true) return
    const importing = this.#brings.get(`user ${id}`)
    const target = { type: 'user', id: null, name: email }
    const item = {
      phase: 'users',
      action: 'invite_user',
      type: 'invite',
      id,
      name: email,
      target,
      op: 'create',
    } as const
    this.#add({ ...item, needs: [importing], input: { userSourceId: id } })
  }

  #server(server: SourceServer, node: TargetNodeState): void {
    if (!this.#phases.has('servers')) return
    this.#requests += REQUESTS_PER_SERVER
    const { id, uuid, name } = server
    const place = { type: 'server', id, name }
    const { options } = this.#request
    const needs = [this.#brings.get(`egg ${server.eggId}`), this.#brings.get(`user ${server.ownerId}`)]
    const { limits, open, notes } = targetLimits(server.limits, { unlimited: options.unlimited, node })
    // When the record was last saved says nothing of what is in it, and files are looked at when it is their turn.
    const { updatedAt: _savedAt, state: _state, subusers: _subusers, filesFingerprint: _files, ...record } = server
    const base = { phase: 'servers', action: 'import_server', type: 'server', id, name, needs } as const
    const target = (targetId: string | null) => ({ type: 'server', id: targetId, name })
    const input = { source: record, nodeId: node.id, limits, notes }
    const again = this.#again('server', id, record)
    if (again !== undefined) {
      this.#add({
        ...base,
        target: target(again.targetId),
        op: again.op,
        reason: again.reason,
        input: { ...input, op: again.op },
      })
      this.#belongings(server, node)
      return
    }
    const skip = (reason: string): void => {
      this.#add({ ...base, target: null, op: 'skip', reason, input: { ...input, op: 'skip' } })
    }
    if (server.ownerId !== '' && !this.#source.users.some((user) => user.id === server.ownerId)) {
      this.#warnings.push(`server ${name} (${uuid}) belongs to nobody on the source any more`)
      skip('owner_missing')
      return
    }
    if (!this.#source.eggs.some((egg) => egg.id === server.eggId)) {
      skip('template_missing')
      return
    }
    const before = this.#conflicts.length
    if (node.runtimes.length > 0 && !options.runtimes.some((one) => node.runtimes.includes(one))) {
      const offered = node.runtimes.join(', ')
      this.#conflict('RUNTIME_MISSING', place, `The node ${node.name} runs servers by ${offered} alone`, {
        target: { type: 'node', id: node.id, name: node.name },
        policy: 'runtimes',
        policyOptions: [...node.runtimes],
      })
    }
    for (const limit of open) {
      this.#conflict('UNLIMITED', place, `It has no limit of ${limit} on the source; servers here have one`, {
        policy: `unlimited.${limit}`,
        policyOptions: [],
      })
    }
    const there = this.#target.servers.get(uuid)
    if (there !== undefined && options.conflicts.server === 'skip') {
      skip('exists')
      return
    }
    if (there !== undefined && options.conflicts.server === 'fail') {
      this.#conflict('SERVER_EXISTS', place, `There is a server with the UUID ${uuid} already`, {
        target: { type: 'server', id: there.id, name: there.name },
        policy: 'conflicts.server',
        policyOptions: ['skip', 'new_uuid'],
      })
    }
    const ports = this.#portsFor(server, node)
    this.#capacity(server, { node, memoryMb: limits.memoryMb })
    const op = this.#conflicts.length > before ? 'conflict' : 'create'
    this.#add({ ...base, target: target(null), op, input: { ...input, ports, isNewUuid: there !== undefined, op } })
    this.#belongings(server, node)
  }

  #portsFor(server: SourceServer, node: TargetNodeState): unknown[] {
    const place = { type: 'server', id: server.id, name: server.name }
    const allocations = server.allocations ?? []
    if (allocations.length === 0) {
      this.#conflict('NO_ALLOCATION', place, 'It has no address on the source, or the keys do not show it')
    }
    const { ports, taken } = this.#ports.give(node, allocations, this.#request.options)
    for (const { from, ip, port } of taken) {
      this.#conflict('PORT_TAKEN', place, `Its address ${from} becomes ${ip}:${port} on ${node.name}, which is taken`, {
        target: { type: 'allocation', id: null, name: `${ip}:${port}` },
        policy: 'conflicts.port',
        policyOptions: ['remap'],
      })
    }
    return [...ports]
  }

  #capacity(server: SourceServer, { node, memoryMb }: { node: TargetNodeState; memoryMb: number }): void {
    const given = (this.#memory.get(node.id) ?? 0) + memoryMb
    this.#memory.set(node.id, given)
    if (node.freeMemoryMb === null || given <= node.freeMemoryMb) return
    const text = `With it the servers that come to ${node.name} need ${given} MiB of memory; ${node.freeMemoryMb} MiB are free`
    if (this.#request.options.conflicts.capacity === 'warn') this.#warnings.push(`server ${server.name}: ${text}`)
    else {
      this.#conflict('CAPACITY', { type: 'server', id: server.id, name: server.name }, text, {
        target: { type: 'node', id: node.id, name: node.name },
        policy: 'conflicts.capacity',
        policyOptions: ['warn'],
      })
    }
  }

  /** What belongs to a server goes with it, before the next server begins. */
  #belongings(server: SourceServer, node: TargetNodeState): void {
    const needs = [this.#brings.get(`server ${server.id}`)]
    const input = { serverSourceId: server.id }
    const part = (
      item: Pick<NewItem, 'phase' | 'action' | 'type' | 'id' | 'name' | 'needs' | 'bytes'>,
      source: object,
      op?: Op,
      reason?: string,
      more: Readonly<Record<string, unknown>> = {},
    ) => {
      if (!this.#phases.has(item.phase)) return
      const again = this.#again(item.type, item.id, source)
      const chosen = op ?? again?.op ?? 'create'
      this.#add({
        ...item,
        target: { type: item.type, id: again?.targetId ?? null, name: item.name },
        op: chosen,
        reason: reason ?? again?.reason,
        needs: [...needs, ...(item.needs ?? [])],
        input: { ...input, ...more, source, op: chosen },
      })
    }
    for (const one of this.#subusersOf(server)) {
      const user = this.#userOf(one)
      const { permissions, unmapped } = mappedPermissions(one.permissions)
      const id = `${server.id}/${user?.id ?? one.userUuid ?? one.email ?? '?'}`
      const item = {
        phase: 'subusers',
        action: 'import_subuser',
        type: 'subuser',
        id,
        name: `${user?.email ?? id} on ${server.name}`,
      } as const
      const source = { userSourceId: user?.id ?? null, permissions, unmapped }
      if (unmapped.length > 0) this.#warnings.push(`${item.name}: no counterpart for ${unmapped.join(', ')}`)
      if (user === undefined) part(item, source, 'skip', 'user_missing')
      else part({ ...item, needs: [this.#brings.get(`user ${user.id}`)] }, source)
    }
    for (const one of this.#source.mounts) {
      if (!one.serverIds.includes(server.id)) continue
      const id = `${server.id}/${one.id}`
      const item = {
        phase: 'servers',
        action: 'import_mount',
        type: 'mount',
        id,
        name: `${one.name} on ${server.name}`,
      } as const
      if (this.#request.options.mounts === 'list') part(item, one, 'skip', 'listed')
      else part(item, one)
    }
    const held = this.#source.perServer.get(server.id)
    for (const one of held?.databases ?? []) {
      const isSkipped = this.#request.options.conflicts.database === 'skip'
      const item = {
        phase: 'databases',
        action: 'import_database',
        type: 'database',
        id: `${server.id}/${one.id}`,
        name: one.name,
      } as const
      if (isSkipped) part(item, one, 'skip', 'policy')
      else if (one.host === null) part(item, one, 'skip', 'host_hidden')
      else if (!this.#target.databaseHosts.has(`${one.host.host} ${one.host.port}`.toLowerCase()))
        part(item, one, 'skip', 'host_missing')
      else part(item, one)
    }
    for (const one of held?.schedules ?? []) {
      part(
        {
          phase: 'schedules',
          action: 'import_schedule',
          type: 'schedule',
          id: `${server.id}/${one.id}`,
          name: one.name,
        },
        one,
      )
    }
    this.#files(server, node)
    for (const one of held?.backups ?? []) {
      const item = { phase: 'backups', action: 'import_backup', type: 'backup', id: one.uuid, name: one.name } as const
      const origin = this.#source.nodes.find((node) => node.id === server.nodeId)?.origin ?? null
      if (one.state !== 'good') part(item, one, 'skip', one.state === 'failed' ? 'backup_failed' : 'backup_pending')
      else if (this.#request.options.backups === 'list') part(item, one, 'skip', 'listed')
      else
        part(
          { ...item, bytes: one.bytes, needs: [this.#brings.get(`files ${server.id}`)] },
          one,
          undefined,
          undefined,
          {
            nodeOrigin: origin,
          },
        )
    }
    this.#add({
      phase: 'finish',
      action: 'activate_server',
      type: 'server',
      id: server.id,
      name: server.name,
      target: { type: 'server', id: null, name: server.name },
      op: 'update',
      needs: [...needs, this.#brings.get(`files ${server.id}`)],
      input: { ...input, isSuspended: server.isSuspended },
    })
  }

  /** The way is chosen when the step runs: what the source can do then decides. */
  #files(server: SourceServer, node: TargetNodeState): void {
    if (!this.#phases.has('files')) return
    this.#requests += REQUESTS_PER_TRANSFER
    const { id, name, isInstalled } = server
    const nodeOrigin = this.#source.nodes.find((one) => one.id === server.nodeId)?.origin ?? null
    let before: string | undefined = this.#brings.get(`server ${id}`)
    for (const action of this.#source.isDirectory ? DIRECTORY_STEPS : FILE_STEPS) {
      const lane = laneOf(action, server, node)
      before = this.#add({
        phase: 'files',
        action,
        type: 'files',
        id,
        name,
        target: { type: 'server', id: null, name },
        op: isInstalled ? 'update' : 'skip',
        reason: isInstalled ? undefined : 'not_installed',
        // What was changed on the source is put back also when nothing came over.
        ...(action === 'source_cleanup' ? { follows: [before] } : { needs: [before] }),
        input: { serverSourceId: id, nodeOrigin, ...(lane === undefined ? {} : { lane }) },
      })
    }
  }

  #finish(): void {
    this.#add({
      phase: 'finish',
      action: 'write_report',
      type: 'report',
      id: this.#source.fingerprint,
      name: 'report',
      target: null,
      op: 'create',
      follows: this.#steps.map(({ id }) => id),
      input: {},
    })
  }

  #subusersOf(server: SourceServer): readonly SourceSubuser[] {
    return this.#source.perServer.get(server.id)?.subusers ?? server.subusers ?? []
  }

  #userOf({ userId, userUuid, email }: SourceSubuser): SourceUser | undefined {
    const mail = email?.toLowerCase()
    return this.#source.users.find(
      (user) =>
        (userId !== null && user.id === userId) ||
        (userUuid !== null && user.uuid === userUuid) ||
        (mail !== undefined && user.email === mail),
    )
  }

  /** How a thing stands that was brought before; `undefined`: it was not, or its target is gone. */
  #again(
    type: string,
    id: string,
    source: object,
  ): { op: Op; targetId: string; reason: string | undefined } | undefined {
    const before = this.#target.brought.get(`${type} ${id}`)
    if (before === undefined || !before.isThere) return undefined
    const isSame = before.contentHash === contentHash(source)
    return { op: isSame ? 'skip' : 'update', targetId: before.targetId, reason: isSame ? 'unchanged' : undefined }
  }

  #add(item: NewItem): string {
    const { phase, action, type, id, name, target, op, reason, input } = item
    const step = stepId(this.#source.fingerprint, action, type, id)
    const needs = [...new Set((item.needs ?? []).filter((one) => one !== undefined))]
    const follows = [...new Set((item.follows ?? []).filter((one) => one !== undefined))]
    const planned = { stepId: step, phase, action, source: { type, id, name }, target, op }
    this.#items.push({ ...planned, reason: reason ?? null, bytesEstimate: item.bytes ?? null })
    const skipped = op === 'skip' ? (reason ?? 'policy') : null
    const targetId = target?.id ?? null
    const place = { sourceType: type, sourceId: id }
    this.#steps.push({ id: step, phase, action, name, ...place, targetId, skipped, needs, follows, input })
    this.#brings.set(`${type} ${id}`, this.#brings.get(`${type} ${id}`) ?? step)
    // The server may be used when its files are in place, whether or not the source could be cleaned up.
    if (action === 'place_files') this.#brings.set(`files ${id}`, step)
    return step
  }

  #conflict(
    code: string,
    source: PlanConflict['source'],
    text: string,
    more: Partial<Pick<PlanConflict, 'target' | 'policy' | 'policyOptions'>> = {},
  ): void {
    this.#conflicts.push({ code, source, text, target: null, policy: null, policyOptions: [], ...more })
  }

  /** The name, or the name with the first number that nobody has. */
  #freeName(kind: string, name: string, held: { has(name: string): boolean }, most = NAME_LENGTH): string {
    const given = this.#names.get(kind) ?? new Set<string>()
    this.#names.set(kind, given)
    const fits = (one: string) => !held.has(one) && !held.has(one.toLowerCase()) && !given.has(one.toLowerCase())
    let free = name.slice(0, most)
    for (let number = 2; !fits(free); number++) free = `${name.slice(0, most - `-${number}`.length)}-${number}`
    given.add(free.toLowerCase())
    return free
  }
}

const NAME_LENGTH = 100
const USERNAME_LENGTH = 32

/** A user name that this panel takes: letters, digits, `_` and `-`, at least three. */
function freeUsername(username: string, email: string): string {
  const from = username.trim() === '' ? (email.split('@')[0] ?? '') : username
  return from
    .replace(/[^A-Za-z0-9_-]/g, '_')
    .slice(0, USERNAME_LENGTH)
    .padEnd(3, '_')
}

function phasesOf(asked: readonly MigrationPhase[]): ReadonlySet<MigrationPhase> {
  const all: readonly MigrationPhase[] = [
    'locations',
    'templates',
    'users',
    'servers',
    'subusers',
    'databases',
    'schedules',
    'files',
    'backups',
  ]
  if (asked.length === 0) return new Set(all)
  const found = new Set<MigrationPhase>(asked)
  // Sets grow while they are walked: what is needed is looked at too.
  for (const phase of found) for (const one of NEEDED[phase] ?? []) found.add(one)
  return found
}

function own(map: Readonly<Record<string, string>>, key: string): string | undefined {
  return Object.hasOwn(map, key) ? map[key] : undefined
}

/** Numbers by their value, other ids by their text. */
function byId(a: string, b: string): number {
  const [left, right] = [Number(a), Number(b)]
  if (Number.isFinite(left) && Number.isFinite(right)) return left - right
  return a < b ? -1 : a > b ? 1 : 0
}
