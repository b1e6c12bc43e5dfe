import type { MigrationOptions } from '../../../../../shared/api/migration.ts'
import { MigrationPhase } from '../../../../../shared/kernel/migration.ts'
import type { SourceServer } from '../source/model.ts'
import type { Draft } from './draft.ts'
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

/** What a plan is made from, and where what it comes to is written down. */
export interface Planning {
  readonly source: SourceSnapshot
  readonly target: TargetState
  readonly request: PlanRequest
  readonly phases: ReadonlySet<MigrationPhase>
  readonly draft: Draft
}

/** A server that comes along, and where it is to come. */
export interface ServerInScope {
  readonly server: SourceServer
  readonly node: TargetNodeState
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

/** Servers that come along, by their nodes, so that one node of the source is done before the next. */
export function serversInScope({ source, target, request, draft }: Planning): readonly ServerInScope[] {
  const { scope, nodeMappings, serverMappings } = request
  const found = []
  for (const server of source.servers) {
    const nodeId = own(serverMappings, server.id) ?? (scope === 'server' ? undefined : own(nodeMappings, server.nodeId))
    const node = nodeId === undefined ? undefined : target.nodes.get(nodeId)
    if (node !== undefined) found.push({ server, node })
  }
  const known = new Set(source.servers.map(({ id }) => id))
  for (const id of Object.keys(serverMappings)) {
    if (known.has(id)) continue
    draft.conflict('SERVER_UNKNOWN', { type: 'server', id, name: id }, `The source has no server with the id ${id}`)
  }
  const nodes = new Set(source.nodes.map(({ id }) => id))
  for (const id of Object.keys(nodeMappings)) {
    if (nodes.has(id)) continue
    draft.conflict('NODE_UNKNOWN', { type: 'node', id, name: id }, `The source has no node with the id ${id}`)
  }
  return found.sort((a, b) => byId(a.server.nodeId, b.server.nodeId) || byId(a.server.id, b.server.id))
}

/** The phases that were asked for, with those that they cannot do without; all if nobody has asked for one. */
export function phasesOf(asked: readonly MigrationPhase[]): ReadonlySet<MigrationPhase> {
  const all = MigrationPhase.options.filter((phase) => phase !== 'validate' && phase !== 'finish')
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
