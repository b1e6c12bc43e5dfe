import { sql } from 'kysely'
import type { z } from 'zod'
import { NewServer } from '../../../../shared/api/servers.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { newId, uuidOf } from '../../../../shared/kernel/ids.ts'
import { grants } from '../../../../shared/kernel/permissions.ts'
import { RuntimeReport } from '../../../../shared/protocol/node.ts'
import type { RuntimeName } from '../../../../shared/protocol/server-spec.ts'
import { checkEnvironment } from '../../../../shared/templates/variable-rules.ts'
import type { Done, WorkOver } from '../../../access/operation.ts'
import { compiled } from '../../../core/cached.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { keptRows } from '../../../db/kept-results.ts'
import { statement } from '../../../db/statement.ts'
import type { ClaimsTogether } from '../../fleet/nodes/allocation-claims.ts'
import { type Resources, refuseBeyond } from '../../fleet/nodes/capacity.ts'
import type { PortHolds } from '../../fleet/nodes/port-holds.ts'
import type { PortLooks } from '../../fleet/nodes/port-looks.ts'
import { roundedCores } from '../../fleet/nodes/rows.ts'
import { refuseFixedVariables, refuseStartupLine, refuseStartupName } from './edit.ts'
import { chosenImage } from './images.ts'
import { namesakesOf, nameTaken } from './names.ts'
import { addCommand, type CommandOf, type OrderDeps } from './orders.ts'
import { claimPorts, type PrimaryRequest, readHolds, requestsOf } from './ports.ts'
import { insertServerRows, type NewServerRow } from './rows.ts'
import type { StoredOrder } from './spec.ts'
import { definitionOf, withoutMasks } from './view.ts'

type Body = z.output<typeof NewServer>

/** What creates servers works with. */
export type CreationWork = WorkOver<OrderDeps & { readonly portLooks: Pick<PortLooks, 'isTaken'> }>

/** What a new server is checked against, as it is in the transaction that writes it. */
export interface Surroundings {
  readonly ownerId: string
  readonly template: Template
  /** `undefined`: there is none. */
  readonly node: NodeForNew | undefined
  /** The server of this owner that has the name. */
  readonly namesake: string | undefined
  readonly holds: PortHolds
  readonly together?: ClaimsTogether
}

/** What is different about a server that comes from elsewhere. */
export interface Moved {
  /** `undefined`: it is given one. */
  readonly uuid: string | undefined
  /** Somebody has decided that the node takes it beyond what its servers may be given. */
  readonly isBeyondNode: boolean
}

/** A server that may be made: what is written of it, and what that leaves. */
export interface NewServerPlan {
  readonly row: NewServerRow
  readonly order: CommandOf & StoredOrder
  readonly done: Done
}

/**
 * Creates a server: address, sizes, variables and references are checked and claimed, and its installation is queued:
 * `commandId` is the order that makes it ready. A node that is away gets it when it is back. One that is `moved` in from elsewhere brings
 * its files, so that nothing is installed, and may bring its UUID.
 */
export async function insertServer(
  work: CreationWork,
  body: Body,
  moved?: Moved,
): Promise<{ id: string; commandId: string; done: Done }> {
  const { tx, deps } = work
  const ownerId = await ownerOf(work, body)
  const template = await templateOf(tx, body.templateId)
  const [[node], [namesake], holds] = await Promise.all([
    nodesForNew(tx.q, [body.nodeId]),
    namesakesOf(tx.q, [{ ownerId, name: body.name }]),
    readHolds(tx.q, body.nodeId, { port: namedPort(body), requests: requestsOf(template) }),
  ])
  const { row, order, done } = await planServer(work, body, { ownerId, template, node, namesake, holds }, moved)
  const commandId = await addCommand(tx, deps, order)
  await insertServerRows(tx.q, [row])
  return { id: row.id, commandId, done }
}

/** Checks a creation against what is there, and claims its addresses. What it answers is not written yet; throws the refusal. */
export async function planServer(
  work: CreationWork,
  body: Body,
  { ownerId, template, node, namesake, holds, together }: Surroundings,
  moved?: Moved,
): Promise<NewServerPlan> {
  const { tx, deps, holder } = work
  if (node === undefined) throw new PanelError('NODE_NOT_FOUND', 'There is no such node')
  if (node.maintenance === 1) {
    throw new PanelError('NODE_IN_MAINTENANCE', `The node ${node.name} is in maintenance and takes no new servers now`)
  }
  if (node.locationId !== body.locationId) {
    const location = await tx.q.selectFrom('location').select('id').where('id', '=', body.locationId).executeTakeFirst()
    if (location === undefined) throw new PanelError('LOCATION_NOT_FOUND', 'There is no such location')
    throw fieldError('body.locationId', 'must be the location of the node')
  }
  if (typeof body.startupCommand === 'string' && !grants(holder.permissions, 'admin.write')) {
    throw new PanelError('PERMISSION_DENIED', 'A startup line of its own needs admin.write', {
      meta: { missing: ['admin.write'] },
    })
  }
  refuseStartOrder(body.startOrder, holder)
  if (body.mounts.length > 0 && !grants(holder.permissions, 'admin.write')) {
    throw new PanelError('PERMISSION_DENIED', 'Mounts need admin.write', { meta: { missing: ['admin.write'] } })
  }
  refuseStartupLine(body.startupCommand)
  refuseStartupName(template, body)
  const given = withoutMasks(body.environment, template.variables)
  refuseFixedVariables(holder, template.variables, given, {})
  const { environment, problems } = checkEnvironment(template.variables, given, {})
  // Those of one that comes from elsewhere stay what they are, as those of servers that are here when rules change.
  if (problems.length > 0 && moved === undefined) {
    throw new PanelError('VALIDATION_ERROR', 'Some variables are not valid', { details: problems })
  }
  if (namesake !== undefined) throw nameTaken(body.name, namesake)
  if (moved?.isBeyondNode !== true)
    refuseBeyond(node, node.given, { memoryMb: body.allocatedMemoryMb, cpuCores: body.allocatedCpuCores })
  const runtime = chooseRuntime(body.runtime, template.runtimes, parseJson(RuntimeReport.array(), node.runtimes))
  const id = newId('srv', deps.clock)
  const { clock, portLooks: looks } = deps
  const claim = { tx, clock, looks, serverId: id, node, template, runtime, field: primaryField(body), holds, together }
  const { primary, further } = await claimPorts(claim, primaryRequest(body, node), requestsOf(template))
  const installs = template.installScript !== null && moved === undefined
  const row: NewServerRow = {
    id,
    uuid: moved?.uuid ?? uuidOf(id) ?? id,
    name: body.name,
    description: body.description ?? null,
    templateId: body.templateId,
    nodeId: node.id,
    locationId: node.locationId,
    ownerId,
    allocationId: primary.id,
    runtime,
    memoryMb: body.allocatedMemoryMb,
    cpuCores: body.allocatedCpuCores,
    diskMb: body.allocatedDiskMb,
    swapMb: body.allocatedSwapMb,
    databaseAllocation: body.databaseAllocation ?? databasesByTemplate(template.features),
    cpuSet: body.cpuSet ?? null,
    ioWeight: body.ioWeight ?? null,
    image: chosenImage(template, body.image),
    environment: JSON.stringify(environment),
    startupCommand: body.startupCommand ?? null,
    startupName: body.startupName ?? null,
    mounts: JSON.stringify(body.mounts),
    restartPolicy: body.restartPolicy,
    maxCrashCount: body.maxCrashCount,
    bootPolicy: body.bootPolicy,
    startOrder: body.startOrder,
    stopTimeoutSeconds: body.stopTimeoutSeconds ?? null,
    timeZone: body.timeZone ?? null,
    desired: body.start ? 'running' : 'stopped',
    generation: 1,
    power: 'offline',
    installed: installs ? 0 : 1,
    failed: 0,
    crashed: 0,
    crashCount: 0,
    observedGeneration: 0,
    createdAt: tx.now,
    updatedAt: tx.now,
  }
  const first: StoredOrder = installs
    ? { op: 'install', args: { wipe: false, thenStart: body.start } }
    : { op: body.start ? 'start' : 'apply', args: {} }
  const details = {
    name: body.name,
    nodeId: node.id,
    templateId: body.templateId,
    ownerId,
    ip: primary.ip,
    port: primary.port,
    ...furtherDetails(further),
  }
  const data = { serverName: body.name, ownerId, nodeId: node.id, createdBy: work.userId }
  const done: Done = {
    audit: { resourceId: id, details },
    events: [{ type: 'server_created', serverId: id, data }],
  }
  return { row, order: { row: { id, nodeId: node.id }, generation: 1, ...first }, done }
}

/** The order among the servers of a node is not for who owns one of them. */
function refuseStartOrder(order: number, holder: WorkOver<OrderDeps>['holder']): void {
  if (order === 0 || grants(holder.permissions, 'admin.write')) return
  throw new PanelError('PERMISSION_DENIED', 'A start order needs admin.write', { meta: { missing: ['admin.write'] } })
}

/** The primary port that a creation asks for; without a number one is chosen. */
export function primaryRequest(body: Body, node: { readonly defaultIp: string }): PrimaryRequest {
  if (typeof body.allocationId === 'string') return { allocationId: body.allocationId }
  const port = body.primaryPort ?? undefined
  const ip = body.primaryIp ?? undefined
  if (body.networkMode !== undefined) return { network: body.networkMode, ip, port }
  return { ip: ip ?? node.defaultIp, port }
}

/** The number of the primary port, where one is asked for. */
export function namedPort(body: Body): number | undefined {
  return typeof body.allocationId === 'string' ? undefined : (body.primaryPort ?? undefined)
}

function primaryField(body: Body): string {
  return typeof body.allocationId === 'string' ? 'body.allocationId' : 'body.primaryPort'
}

function furtherDetails(further: readonly { readonly name: string; readonly port: number }[]): Record<string, unknown> {
  return further.length === 0 ? {} : { ports: Object.fromEntries(further.map(({ name, port }) => [name, port])) }
}

/** The owner is the caller; naming another one needs `admin.write`. */
export async function ownerOf({ tx, userId, holder }: WorkOver<OrderDeps>, body: Body): Promise<string> {
  const wanted = body.ownerId ?? userId
  if (wanted === null) throw fieldError('body.ownerId', 'is required')
  if (wanted !== userId && !grants(holder.permissions, 'admin.write')) {
    throw new PanelError('PERMISSION_DENIED', 'A server for somebody else needs admin.write', {
      meta: { missing: ['admin.write'] },
    })
  }
  const [user] = await keptRows(tx.q, userById(wanted))
  if (user === undefined) throw new PanelError('USER_NOT_FOUND', 'There is no such user')
  return user.id
}

type Template = ReturnType<typeof definitionOf>

/** The template with this id; throws TEMPLATE_NOT_FOUND. */
export async function templateOf(tx: Tx, id: string): Promise<Template> {
  const [row] = await keptRows(tx.q, templateById(id))
  if (row === undefined) throw new PanelError('TEMPLATE_NOT_FOUND', 'There is no such template')
  return definitionOf(row)
}

/** A node for new servers, with what the servers that it has have been given. */
export type NodeForNew = Omit<Awaited<ReturnType<typeof nodesById>>[number], 'given'> & { readonly given: Resources }

/** Those of the nodes with these ids that are there. */
export async function nodesForNew(q: Queries, ids: readonly string[]): Promise<NodeForNew[]> {
  const found = await nodesById(q, { ids: JSON.stringify(ids) })
  return found.map((node) => {
    const [memoryMb, cpuCores] = JSON.parse(node.given) as [number, number] // made by the statement below
    return { ...node, given: { memoryMb, cpuCores: roundedCores(cpuCores) } }
  })
}

const nodesById = statement((q, { ids }: { ids: string }) =>
  q
    .selectFrom('node')
    .selectAll()
    .select(
      sql<string>`(
        select json_array(total(memory_mb), total(cpu_cores)) from server where server.node_id = node.id
      )`.as('given'),
    )
    .where('id', 'in', sql<string>`(select value from json_each(${ids}))`),
)

const userById = compiled((q, id: string) => q.selectFrom('user').select('id').where('id', '=', id))
const templateById = compiled((q, id: string) =>
  q.selectFrom('template').select('definition as templateDefinition').where('id', '=', id),
)

/** What the template's makers set for its servers; anything but a number of databases counts as none. */
function databasesByTemplate(features: Readonly<Record<string, unknown>>): number {
  return NewServer.shape.databaseAllocation.safeParse(features['databaseAllocation']).data ?? 0
}

/** The requested runtime, or the template's first that the node offers; a node that never reported is taken at its word. */
function chooseRuntime(
  requested: RuntimeName | undefined,
  templates: readonly RuntimeName[],
  offered: readonly RuntimeReport[],
): RuntimeName {
  const reason = (name: RuntimeName): string =>
    offered.find((runtime) => runtime.name === name)?.reason ?? 'not offered'
  const works = (name: RuntimeName): boolean =>
    offered.length === 0 || offered.some((runtime) => runtime.name === name && runtime.ok)
  const choices = requested === undefined ? templates : templates.filter((name) => name === requested)
  const found = choices.find(works)
  if (found !== undefined) return found
  if (choices.length === 0) throw fieldError('body.runtime', `must be one of the template's: ${templates.join(', ')}`)
  throw new PanelError(
    'CONFLICT',
    `The node cannot run this: ${choices.map((name) => `${name}: ${reason(name)}`).join('; ')}`,
  )
}
