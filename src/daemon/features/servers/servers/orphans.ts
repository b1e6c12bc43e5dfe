import type { z } from 'zod'
import * as api from '../../../../shared/api/orphans.ts'
import type { Answer, Input } from '../../../../shared/kernel/contract.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { ServerId } from '../../../../shared/kernel/ids.ts'
import { MOST_SERVER_PORTS, PortName, PortNumber } from '../../../../shared/kernel/ports.ts'
import { describeOrphan, listOrphans, type OrphanReport, type OrphanResult } from '../../../../shared/protocol/node.ts'
import type { ServerReport } from '../../../../shared/protocol/server.ts'
import type { ServerSpec } from '../../../../shared/protocol/server-spec.ts'
import { checkEnvironment } from '../../../../shared/templates/variable-rules.ts'
import { operationsOver, type Principal, transact } from '../../../access/operation.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Db, Tx } from '../../../db/db.ts'
import type { Gateway } from '../../../gateway/gateway.ts'
import { canonicalIp, isUnspecified } from '../../fleet/nodes/addresses.ts'
import { addressText } from '../../fleet/nodes/allocation-claims.ts'
import { templateRemarks } from './adoption-remarks.ts'
import { portsOfTemplate } from './further-ports.ts'
import { ensureNameFree } from './names.ts'
import { observe } from './observe.ts'
import { addCommand, type OrderDeps } from './orders.ts'
import { claimPorts, type PortRequest } from './ports.ts'
import { findServerRow } from './rows.ts'
import { buildSpec } from './spec.ts'
import { definitionOf } from './view.ts'

/** What the work on orphans needs. */
export type OrphanDeps = OrderDeps & { readonly bus: Bus; readonly ask: Gateway['request'] }

/** What the node has and this database does not know, what runs first; asked of the node itself. */
export async function orphansOf(deps: OrphanDeps, nodeId: string): Promise<z.input<typeof api.Orphan>[]> {
  const orphans = (await reportsOf(deps, nodeId)).map(({ serverId, name, power, pid, hasFiles }) => {
    return { serverId: ServerId.parse(serverId), name, power, pid, hasFiles }
  })
  const rests = ({ power }: (typeof orphans)[number]): number => Number(power === 'offline')
  return orphans.sort((a, b) => rests(a) - rests(b))
}

/** An orphan by its id. */
interface OrphanAt {
  readonly nodeId: string
  readonly serverId: string
}

const operation = operationsOver<OrphanDeps>()

interface PurgeRequest {
  readonly principal: Principal
  readonly input: Input<typeof api.purgeOrphan>
}

/**
 * Has the node remove what it has of the server. The node is asked what that is before the transaction; the order is kept until
 * it is carried out, like any other.
 */
export async function purge(
  deps: OrphanDeps,
  { principal, input }: PurgeRequest,
): Promise<Answer<typeof api.purgeOrphan>> {
  const { orphan } = await describe(deps, input.params)
  return transact(purgeDescribed(orphan), { deps, principal, input })
}

const purgeDescribed = ({ generation, name }: OrphanReport) =>
  operation(api.purgeOrphan, async ({ tx, deps, userId }, { params: { nodeId, serverId } }) => {
    await refuseKnown(tx, serverId)
    const row = { id: serverId, nodeId }
    const args = { keepFiles: false, deletedBy: userId }
    const commandId = await addCommand(tx, deps, { row, generation: generation + 1, op: 'delete', args })
    return {
      answer: { commandId },
      audit: { resourceId: nodeId, details: { serverId, name, commandId } },
      events: [{ type: 'node_updated', data: { nodeId, updatedBy: userId, change: 'orphan_purge' } }],
    }
  })

interface AdoptRequest {
  readonly principal: Principal
  readonly input: Input<typeof api.adoptOrphan>
}

/** Makes the row of a server anew, from what its node, asked before the transaction, knows. */
export async function adopt(
  deps: OrphanDeps,
  { principal, input }: AdoptRequest,
): Promise<Answer<typeof api.adoptOrphan>> {
  const { spec, report } = await describe(deps, input.params)
  if (spec === null || report === null) throw new PanelError('CONFLICT', NOTHING_KNOWN)
  return transact(adoptDescribed(spec, report), { deps, principal, input })
}

type Adoption = OrphanAt & {
  readonly body: z.output<typeof api.adoptOrphan.body>
  readonly callerId: string | undefined
}

const adoptDescribed = (spec: ServerSpec, report: ServerReport) =>
  operation(api.adoptOrphan, async ({ tx, deps, userId }, { params, body }) => {
    const { nodeId, serverId } = params
    await refuseKnown(tx, serverId)
    const conflicts: string[] = []
    const adoption = { ...params, body, callerId: userId ?? undefined }
    const row = await rowOf(tx, deps, { ...adoption, spec, report, conflicts })
    await ensureNameFree(tx, { ...row, advice: 'adopt this one under another name (--name, or body.name)' })
    await tx.q.insertInto('server').values(row).execute()
    const stored = await findServerRow(tx.q, serverId)
    if (stored !== undefined)
      conflicts.push(...templateRemarks(spec, buildSpec(stored, { generation: row.generation, logMb: 0 })))
    const at = { receivedMs: deps.clock.nowMs(), ageMs: 0 }
    await observe(tx, deps.bus, { nodeId, reports: [{ report, at }] })
    await addCommand(tx, deps, { row: { id: serverId, nodeId }, generation: row.generation, op: 'apply', args: {} })
    const { name, templateId, ownerId } = row
    const data = { serverName: name, ownerId, nodeId, createdBy: userId }
    return {
      answer: { serverId, name, conflicts },
      audit: { resourceId: serverId, details: { name, nodeId, templateId, ownerId, conflicts } },
      events: [{ type: 'server_created', serverId, data }],
    }
  })

const NOTHING_KNOWN =
  'The node knows nothing of this server but its folders: create a server, move the files, and purge what is left'

async function rowOf(
  tx: Tx,
  deps: OrphanDeps,
  of: Adoption & { readonly spec: ServerSpec; readonly report: ServerReport; readonly conflicts: string[] },
) {
  const { nodeId, serverId, body, spec, report, conflicts } = of
  const node = await tx.q.selectFrom('node').selectAll().where('id', '=', nodeId).executeTakeFirst()
  if (node === undefined) throw new PanelError('NODE_NOT_FOUND', 'There is no such node')
  const template = await templateOf(tx, body.templateId ?? spec.templateId)
  const ownerId = await ownerOf(tx, body.ownerId ?? of.callerId)
  const port = spec.ports.find(({ primary }) => primary)
  const wanted = { ip: port?.ip ?? node.defaultIp, port: port?.port ?? 0 }
  // That its own game has its ports open is no obstacle.
  const looks = { isTaken: () => false }
  const claim = { tx, clock: deps.clock, looks, serverId, node, template, runtime: spec.runtime }
  const knownPorts = knownRequests(spec, conflicts)
  const { primary: allocation, further } = await claimPorts({ ...claim, field: 'body.templateId' }, wanted, knownPorts)
  conflicts.push(...portRemarks(template, { requests: knownPorts, claimed: further }))
  const { limits } = spec
  const generation = Math.max(report.generation, spec.generation)
  if (spec.suspended) conflicts.push('It was suspended when the panel lost it, and is suspended again')
  return {
    id: serverId,
    uuid: await freeUuid(tx, spec.uuid, serverId),
    name: body.name ?? spec.name,
    description: null,
    templateId: template.id,
    nodeId,
    locationId: node.locationId,
    ownerId,
    allocationId: allocation.id,
    runtime: spec.runtime,
    memoryMb: limits.memoryMb,
    cpuCores: limits.cpuCores,
    diskMb: limits.diskMb,
    swapMb: limits.swapMb,
    databaseAllocation: 0,
    environment: JSON.stringify(environmentFor(template, spec.env, conflicts)),
    ...startupFor(template, spec.startup),
    restartPolicy: spec.restart.policy,
    maxCrashCount: spec.restart.maxCrashes,
    desired: report.power === 'offline' ? ('stopped' as const) : ('running' as const),
    generation,
    power: 'offline' as const,
    installed: report.installed ? 1 : 0,
    failed: 0,
    crashed: 0,
    crashCount: report.crash.count,
    observedGeneration: 0,
    ...(spec.suspended ? { suspendedAt: tx.now, suspensionReason: 'Was suspended before it was adopted' } : {}),
    createdAt: tx.now,
    updatedAt: tx.now,
  } as const
}

/** The further ports that the node has it with. What another server has by now is left out and said. */
function knownRequests(spec: ServerSpec, conflicts: string[]): PortRequest[] {
  const names = new Set<string>()
  const requests = spec.ports
    .filter(({ primary }) => !primary)
    .flatMap(({ ip: text, ...port }) => {
      const ip = canonicalIp(text)
      return ip === undefined || isUnspecified(ip) || !PortNumber.safeParse(port.port).success ? [] : [{ ...port, ip }]
    })
    .map(({ ip, port, name: text, role = 'other', protocol = 'both' }): PortRequest => {
      const named = PortName.safeParse(text).data
      const name = named === undefined || names.has(named) ? `port-${port}-${names.size + 1}` : named
      names.add(name)
      return { name, role, protocol, required: false, at: { kind: 'fixed', ip, port } }
    })
  if (requests.length >= MOST_SERVER_PORTS) {
    conflicts.push(`It had ${requests.length} further ports; the first ${MOST_SERVER_PORTS - 1} are taken over`)
  }
  return requests.slice(0, MOST_SERVER_PORTS - 1)
}

function portRemarks(
  template: Template,
  {
    requests,
    claimed,
  }: { readonly requests: readonly PortRequest[]; readonly claimed: readonly { readonly name: string }[] },
): string[] {
  const has = new Set(claimed.map(({ name }) => name))
  const lost = requests.flatMap(({ name, at }) =>
    at.kind === 'fixed' && !has.has(name)
      ? [`Its port ${name}, ${addressText(at)}, cannot be had any more and is left out`]
      : [],
  )
  const missing = portsOfTemplate(template).filter(({ name, required }) => required && !has.has(name))
  return [
    ...lost,
    ...missing.map(
      ({ name }) => `It has no port ${name}, which the template asks for: panel servers ports add --name ${name}`,
    ),
  ]
}

type Template = ReturnType<typeof definitionOf> & { readonly id: string }

async function templateOf(tx: Tx, id: string | undefined): Promise<Template> {
  if (id === undefined) throw fieldError('body.templateId', 'is required: the node does not know it')
  const row = await tx.q
    .selectFrom('template')
    .select(['id', 'definition as templateDefinition'])
    .where('id', '=', id)
    .executeTakeFirst()
  if (row === undefined) {
    throw new PanelError('TEMPLATE_NOT_FOUND', `There is no template ${id} any more; name another one`)
  }
  return { ...definitionOf(row), id: row.id }
}

async function ownerOf(tx: Tx, id: string | undefined): Promise<string> {
  if (id === undefined) throw fieldError('body.ownerId', 'is required')
  const user = await tx.q.selectFrom('user').select('id').where('id', '=', id).executeTakeFirst()
  if (user === undefined) throw new PanelError('USER_NOT_FOUND', 'There is no such user')
  return user.id
}

/** The template's own line, one of its further ones, or one of the server's own. */
function startupFor({ startup, startupCommands }: Template, known: string) {
  const named = startupCommands.find(({ command }) => command === known)
  if (known === startup) return { startupCommand: null, startupName: null }
  return { startupCommand: named === undefined ? known : null, startupName: named?.name ?? null }
}

/** Values that the template would refuse, or has no variable for, are left out and said. */
function environmentFor(
  template: Template,
  known: Readonly<Record<string, string>>,
  conflicts: string[],
): Record<string, string> {
  const names = new Set(template.variables.map(({ name }) => name))
  const given = Object.fromEntries(Object.entries(known).filter(([name]) => names.has(name)))
  for (const name of Object.keys(known)) {
    if (!names.has(name)) conflicts.push(`The template has no variable ${name}; its value is left out`)
  }
  const { environment, problems } = checkEnvironment(template.variables, given, {})
  for (const { field, message } of problems) conflicts.push(`${field.replace('body.environment.', '')} ${message}`)
  return environment
}

/** A uuid that another server has by now is not taken over. */
async function freeUuid(tx: Tx, uuid: string, serverId: string): Promise<string> {
  const other = await tx.q.selectFrom('server').select('id').where('uuid', '=', uuid).executeTakeFirst()
  return other === undefined ? uuid : serverId
}

async function refuseKnown(tx: Tx, serverId: string): Promise<void> {
  const row = await tx.q
    .selectFrom('server')
    .innerJoin('node', 'node.id', 'server.nodeId')
    .select('node.name as nodeName')
    .where('server.id', '=', serverId)
    .executeTakeFirst()
  if (row === undefined) return
  throw new PanelError('CONFLICT', `The panel has this server, on the node ${row.nodeName}`)
}

/** What the node has of this one server. */
async function describe(
  deps: OrphanDeps,
  { nodeId, serverId }: OrphanAt,
): Promise<OrphanResult & { orphan: OrphanReport }> {
  await ensureNode(deps.db, nodeId)
  const { orphan, ...known } = await deps.ask(nodeId, describeOrphan, { serverId })
  if (orphan !== null) return { orphan, ...known }
  throw new PanelError(
    'SERVER_NOT_FOUND',
    'The node has no such server without a record; see "panel nodes orphans list"',
  )
}

/** All that the node lists, answer by answer; what was listed is known in the next question. */
async function reportsOf(deps: OrphanDeps, nodeId: string): Promise<OrphanReport[]> {
  await ensureNode(deps.db, nodeId)
  const known = await knownServers(deps.db, nodeId)
  const found = new Map<string, OrphanReport>()
  for (;;) {
    const before = found.size
    const { orphans, more } = await deps.ask(nodeId, listOrphans, { known: [...known, ...found.keys()] })
    for (const orphan of orphans) if (found.size < api.MOST_ORPHANS) found.set(orphan.serverId, orphan)
    // A node that repeats itself has nothing else to say.
    if (!more || found.size === before || found.size === api.MOST_ORPHANS) break
  }
  return [...found.values()].filter(({ serverId }) => ServerId.safeParse(serverId).success)
}

async function ensureNode(db: Db, nodeId: string): Promise<void> {
  const node = await db.read.selectFrom('node').select('id').where('id', '=', nodeId).executeTakeFirst()
  if (node === undefined) throw new PanelError('NODE_NOT_FOUND', 'There is no node with this id')
}

/** The servers of the node by its rows. */
async function knownServers(db: Db, nodeId: string): Promise<string[]> {
  const rows = await db.read.selectFrom('server').select('id').where('nodeId', '=', nodeId).limit(10_000).execute()
  return rows.map(({ id }) => id)
}
