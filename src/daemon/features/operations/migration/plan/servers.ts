import type { Resources } from '../../../fleet/nodes/capacity.ts'
import { roundedCores } from '../../../fleet/nodes/rows.ts'
import { planBelongings } from './belongings.ts'
import { type TargetLimits, targetLimits } from './limits.ts'
import { PortPlan } from './ports.ts'
import type { Planning, ServerInScope } from './scope.ts'

/** Requests for the record of one server. */
const REQUESTS_PER_SERVER = 4

/** What this plan gives to servers on the target nodes. */
interface Room {
  readonly ports: PortPlan
  /** Memory and cores, by target node. */
  readonly given: Map<string, Resources>
}

/** Servers with all that belongs to them, one server after the other. */
export function planServers(planning: Planning, servers: readonly ServerInScope[]): void {
  if (!planning.phases.has('servers')) return
  refuseOldAgents(planning, servers)
  const room = { ports: new PortPlan(), given: new Map<string, Resources>() }
  for (const one of servers) planServer(planning, room, one)
}

/** A node whose agent cannot fetch files is one thing to decide, however many servers are to come to it. */
function refuseOldAgents({ phases, draft }: Planning, servers: readonly ServerInScope[]): void {
  if (!phases.has('files')) return
  for (const { id, name, isAgentTooOld } of new Set(servers.map(({ node }) => node))) {
    if (!isAgentTooOld) continue
    const place = { type: 'node', id, name }
    const text = `The agent of the node ${name} is too old to fetch files from another panel; update it, or choose another node`
    draft.conflict('AGENT_VERSION', place, text, { target: place })
  }
}

function planServer(planning: Planning, room: Room, { server, node }: ServerInScope): void {
  const { request, draft } = planning
  draft.ask(REQUESTS_PER_SERVER)
  const { id, uuid, name } = server
  const place = { type: 'server', id, name }
  const { options } = request
  const needs = [draft.bringing(`egg ${server.eggId}`), draft.bringing(`user ${server.ownerId}`)]
  const { limits, open, notes } = targetLimits(server.limits, { unlimited: options.unlimited, node })
  // When the record was last saved says nothing of what is in it, and files are looked at when it is their turn.
  const { updatedAt: _savedAt, state: _state, subusers: _subusers, filesFingerprint: _files, ...record } = server
  const base = { phase: 'servers', action: 'import_server', type: 'server', id, name, needs } as const
  const target = (targetId: string | null) => ({ type: 'server', id: targetId, name })
  const input = { source: record, nodeId: node.id, limits, notes }
  const again = draft.again('server', id, record)
  if (again !== undefined) {
    draft.add({
      ...base,
      target: target(again.targetId),
      op: again.op,
      reason: again.reason,
      input: { ...input, op: again.op },
    })
    planBelongings(planning, { server, node })
    return
  }
  const skip = (reason: string): void => {
    draft.add({ ...base, target: null, op: 'skip', reason, input: { ...input, op: 'skip' } })
  }
  if (server.ownerId !== '' && !planning.source.users.some((user) => user.id === server.ownerId)) {
    draft.warn(`server ${name} (${uuid}) belongs to nobody on the source any more`)
    skip('owner_missing')
    return
  }
  if (!planning.source.eggs.some((egg) => egg.id === server.eggId)) {
    skip('template_missing')
    return
  }
  const before = draft.conflicts.length
  if (node.runtimes.length > 0 && !options.runtimes.some((one) => node.runtimes.includes(one))) {
    const offered = node.runtimes.join(', ')
    draft.conflict('RUNTIME_MISSING', place, `The node ${node.name} runs servers by ${offered} alone`, {
      target: { type: 'node', id: node.id, name: node.name },
      policy: 'runtimes',
      policyOptions: [...node.runtimes],
    })
  }
  for (const limit of open) {
    draft.conflict('UNLIMITED', place, `It has no limit of ${limit} on the source; servers here have one`, {
      policy: `unlimited.${limit}`,
      policyOptions: [],
    })
  }
  const there = planning.target.servers.get(uuid)
  if (there !== undefined && options.conflicts.server === 'skip') {
    skip('exists')
    return
  }
  if (there !== undefined && options.conflicts.server === 'fail') {
    draft.conflict('SERVER_EXISTS', place, `There is a server with the UUID ${uuid} already`, {
      target: { type: 'server', id: there.id, name: there.name },
      policy: 'conflicts.server',
      policyOptions: ['skip', 'new_uuid'],
    })
  }
  const ports = portsFor(planning, room, { server, node })
  claimCapacity(planning, room, { server, node, limits })
  const op = draft.conflicts.length > before ? 'conflict' : 'create'
  const beyond = options.conflicts.capacity === 'warn' ? { isBeyondNode: true } : {}
  draft.add({
    ...base,
    target: target(null),
    op,
    input: { ...input, ports, isNewUuid: there !== undefined, ...beyond, op },
  })
  planBelongings(planning, { server, node })
}

function portsFor({ request, draft }: Planning, { ports: all }: Room, { server, node }: ServerInScope): unknown[] {
  const place = { type: 'server', id: server.id, name: server.name }
  const allocations = server.allocations ?? []
  if (allocations.length === 0) {
    draft.conflict('NO_ALLOCATION', place, 'It has no address on the source, or the keys do not show it')
  }
  const { ports, taken } = all.give(node, allocations, request.options)
  for (const { from, ip, port } of taken) {
    draft.conflict('PORT_TAKEN', place, `Its address ${from} becomes ${ip}:${port} on ${node.name}, which is taken`, {
      target: { type: 'allocation', id: null, name: `${ip}:${port}` },
      policy: 'conflicts.port',
      policyOptions: ['remap'],
    })
  }
  return [...ports]
}

/** What the creation of the server is going to count: the record of one that its node has no room for is refused. */
function claimCapacity(
  { request, draft }: Planning,
  { given }: Room,
  { server, node, limits }: ServerInScope & { readonly limits: TargetLimits },
): void {
  const before = given.get(node.id) ?? { memoryMb: 0, cpuCores: 0 }
  const memoryMb = before.memoryMb + limits.memoryMb
  const cpuCores = roundedCores(before.cpuCores + limits.cpuCores)
  given.set(node.id, { memoryMb, cpuCores })
  const { freeMemoryMb, freeCpuCores } = node
  const short = [
    ...(freeMemoryMb !== null && memoryMb > freeMemoryMb
      ? [`${memoryMb} MiB of memory; ${freeMemoryMb} MiB are free`]
      : []),
    ...(freeCpuCores !== null && cpuCores > freeCpuCores ? [`${cpuCores} cores; ${freeCpuCores} are free`] : []),
  ]
  if (short.length === 0) return
  const text = `With it the servers that come to ${node.name} need ${short.join(', and ')}`
  if (request.options.conflicts.capacity === 'warn') draft.warn(`server ${server.name}: ${text}`)
  else {
    draft.conflict('CAPACITY', { type: 'server', id: server.id, name: server.name }, text, {
      target: { type: 'node', id: node.id, name: node.name },
      policy: 'conflicts.capacity',
      policyOptions: ['warn'],
    })
  }
}
