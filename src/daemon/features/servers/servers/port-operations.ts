import type { z } from 'zod'
import * as api from '../../../../shared/api/server-allocations.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { grants } from '../../../../shared/kernel/permissions.ts'
import { MOST_SERVER_PORTS, type PortName } from '../../../../shared/kernel/ports.ts'
import { operationsOver, type WorkOver } from '../../../access/operation.ts'
import { mayAsAssignee } from '../../../access/permit.ts'
import type { NewEvent } from '../../../core/bus.ts'
import { canonicalIp, isUnspecified } from '../../fleet/nodes/addresses.ts'
import { oneOfItsAddresses } from '../../fleet/nodes/own-addresses.ts'
import { refuseUnlessStopped, replaceQueuedApplies } from './edit.ts'
import { type FurtherPort, furtherPortsOf, portsOfTemplate } from './further-ports.ts'
import type { ServerDeps } from './operations.ts'
import { addCommand, nextGeneration, refuseSuspended } from './orders.ts'
import {
  AllowedAddresses,
  claimFurtherPort,
  moveServerPorts,
  nodeOf,
  type PortClaim,
  type PortRequest,
  requestOf,
} from './ports.ts'
import { findServerRow, type ServerRow } from './rows.ts'
import { definitionOf, shownPorts, type ViewFacts } from './view.ts'

type Change = WorkOver<ServerDeps>
type Port = z.input<typeof api.ServerAllocation>

const NO_PORT = 'The server has no such port; see "panel servers ports list"'

const operation = operationsOver<ServerDeps>()

export const addServerAllocation = operation(api.addServerAllocation, async (work, { params: { serverId }, body }) => {
  const { tx, deps } = work
  const row = await editable(work, serverId)
  const { containerPort, hostPort = containerPort } = body
  if (hostPort !== containerPort) {
    throw fieldError('body.hostPort', 'must be the same as containerPort: a port has one number inside and outside')
  }
  const ports = furtherPortsOf(row)
  if (ports.length + 1 >= MOST_SERVER_PORTS) {
    throw new PanelError(
      'INSUFFICIENT_RESOURCES',
      `A server has at most ${MOST_SERVER_PORTS} ports; remove one first`,
      {
        meta: { available: { ports: 0 }, required: { ports: 1 } },
      },
    )
  }
  const ip = await requestedIp(work, row, body.ip)
  if (containerPort !== undefined) refuseOwn(row, ip, containerPort)
  const request = requestFor(row, { ...body, ip })
  if (ports.some(({ name }) => name === request.name)) {
    throw new PanelError('ALLOCATION_EXISTS', `The server has a port named ${request.name} already`)
  }
  const allowed = await allowedFor(work, row)
  const { clock, portLooks: looks } = deps
  const claim: PortClaim = {
    tx,
    clock,
    looks,
    serverId: row.id,
    node: await nodeOf(tx, row.nodeId),
    template: definitionOf(row),
    runtime: row.runtime,
    field: 'body.name',
    ...(allowed === undefined ? {} : { allowed }),
  }
  const claimed = await claimFurtherPort(claim, request, row)
  await emitSpec(work, row)
  const shown = portsIn(await reread(work, row), deps.facts).find(({ allocationId }) => allocationId === claimed.id)
  if (shown === undefined) throw new Error(`allocation ${claimed.id} is gone within the transaction that claimed it`)
  const { name, role, protocol, port } = shown
  return {
    answer: shown,
    audit: { resourceId: row.id, details: { name, role, protocol, ip: shown.ip, port } },
    events: [updated(work, row, 'allocation_added')],
  }
})

export const removeServerAllocation = operation(
  api.removeServerAllocation,
  async (work, { params: { serverId, containerPort }, query }) => {
    const { tx } = work
    const row = await editable(work, serverId)
    const port = Number(containerPort)
    const isPrimary = port === row.port && (query.ip === undefined || canonicalIp(query.ip) === row.ip)
    const others = furtherPortsOf(row)
    if (isPrimary && !others.some((one) => one.port === port)) {
      throw fieldError('params.containerPort', 'is the primary port; make another one primary first')
    }
    const found = onePort(row, { port, ip: query.ip })
    const known = portsOfTemplate(definitionOf(row)).find(({ name }) => name === found.name)
    if (known?.required === true) {
      throw fieldError('params.containerPort', `is the port ${found.name}, which the template asks for`)
    }
    await refuseUnlessStopped(tx, row, 'Stop the server before you take a port from it')
    await tx.q
      .updateTable('allocation')
      .set({ serverId: null, name: null, role: null, protocol: null, updatedAt: tx.now })
      .where('id', '=', found.id)
      .execute()
    await emitSpec(work, row)
    return {
      answer: null,
      audit: { resourceId: row.id, details: { name: found.name, ip: found.ip, port: found.port } },
      events: [updated(work, row, 'allocation_removed')],
    }
  },
)

export const setPrimaryAllocation = operation(
  api.setPrimaryAllocation,
  async (work, { params: { serverId }, body }) => {
    const { tx, deps } = work
    const row = await editable(work, serverId)
    const { containerPort: port } = body
    const ip = body.ip === undefined ? undefined : (canonicalIp(body.ip) ?? body.ip)
    if (port === row.port && (ip ?? row.ip) === row.ip) {
      return { answer: { primaryPort: row.port, primaryIp: row.ip } }
    }
    const chosen = onePort(row, { port, ip })
    const known = portsOfTemplate(definitionOf(row)).find(({ name }) => name === chosen.name)
    if (known !== undefined && known.offset !== null) {
      const distance = known.offset > 0 ? `+${known.offset}` : known.offset
      throw fieldError(
        'body.containerPort',
        `is the port ${chosen.name}, which stands at ${distance} from the primary one; move both by editing the primary port`,
      )
    }
    await refuseUnlessStopped(tx, row, 'Stop the server before you give it another primary port')
    const allowed = await allowedFor(work, row)
    const { name, role, protocol } = chosen
    // The two change places: what the chosen one was for is at the former primary port from now on.
    const at = { kind: 'fixed', ip: row.ip, port: row.port } as const
    const former: PortRequest = { name, role, protocol, required: true, at }
    const { clock, portLooks: looks } = deps
    const { id } = await moveServerPorts(
      { tx, clock, looks, row, allowed, field: 'body.containerPort' },
      { ip: chosen.ip, port: chosen.port },
      { without: chosen.id, and: [former] },
    )
    await tx.q.updateTable('server').set({ allocationId: id, updatedAt: tx.now }).where('id', '=', row.id).execute()
    await emitSpec(work, row)
    const before = { ip: row.ip, port: row.port }
    return {
      answer: { primaryPort: chosen.port, primaryIp: chosen.ip },
      audit: { resourceId: row.id, details: { before, after: { ip: chosen.ip, port: chosen.port } } },
      events: [updated(work, row, 'primary_allocation_changed')],
    }
  },
)

/** The ports of a server with their allocations, the primary one first. */
export function portsIn(row: ServerRow, facts: Pick<ViewFacts, 'templates'>): Port[] {
  const template = facts.templates.of(row, { permissions: new Set() })
  const further = furtherPortsOf(row)
  return shownPorts(row, template).map((port, index) => {
    const own = index === 0 ? undefined : further[index - 1]
    return {
      ...port,
      allocationId: own?.id ?? row.allocationId,
      containerPort: port.port,
      hostPort: port.port,
      alias: own === undefined ? row.allocationAlias : own.alias,
      offset: template.ports.get(port.name)?.offset ?? null,
    }
  })
}

async function editable({ tx }: Change, serverId: string): Promise<ServerRow> {
  const row = await findServerRow(tx.q, serverId)
  if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
  refuseSuspended(row)
  if (row.deletingAt !== null) {
    throw new PanelError('SERVER_INVALID_STATE', 'This server is being deleted', {
      meta: { currentStatus: 'deleting', allowed: [] },
    })
  }
  return row
}

async function reread({ tx }: Change, { id }: ServerRow): Promise<ServerRow> {
  const row = await findServerRow(tx.q, id)
  if (row === undefined) throw new Error(`server ${id} is gone within the transaction that changed it`)
  return row
}

async function requestedIp({ tx }: Change, row: ServerRow, given: string | undefined): Promise<string> {
  if (given === undefined) return row.ip
  const ip = canonicalIp(given)
  if (ip === undefined || isUnspecified(ip)) throw fieldError('body.ip', await oneOfItsAddresses(tx.q, row.nodeId))
  return ip
}

function refuseOwn(row: ServerRow, ip: string, port: number): void {
  const own = [row, ...furtherPortsOf(row)].some((one) => one.ip === ip && one.port === port)
  if (own) throw new PanelError('ALLOCATION_EXISTS', `The server has the port ${port} at ${ip} already`)
}

interface Requested {
  readonly ip: string
  readonly containerPort?: number | undefined
  readonly name?: z.output<typeof PortName> | undefined
  readonly role?: PortRequest['role'] | undefined
  readonly protocol?: PortRequest['protocol'] | undefined
}

/** What is asked for, or what the template says of the port of this name. */
function requestFor(
  row: ServerRow,
  { ip, containerPort, name, role = 'other', protocol = 'both' }: Requested,
): PortRequest {
  const known = portsOfTemplate(definitionOf(row)).find((port) => port.name === name)
  if (known !== undefined) {
    const request = { ...requestOf(known), required: true }
    if (known.offset !== null) {
      if (containerPort === undefined || containerPort === row.port + known.offset) return request
      throw fieldError(
        'body.containerPort',
        `must be ${row.port + known.offset}: the template has the port ${known.name} at this distance from the primary one`,
      )
    }
    const at: PortRequest['at'] =
      containerPort === undefined ? { kind: 'any', ip } : { kind: 'fixed', ip, port: containerPort }
    return { ...request, at }
  }
  const at: PortRequest['at'] =
    containerPort === undefined ? { kind: 'any', ip } : { kind: 'fixed', ip, port: containerPort }
  return { name: name ?? freeName(row, containerPort), role, protocol, required: true, at }
}

/** A name for a port that is given none. */
function freeName(row: ServerRow, port: number | undefined): string {
  const taken = new Set(furtherPortsOf(row).map(({ name }) => name))
  const wanted = port === undefined ? 'extra' : `port-${port}`
  for (let count = 1; ; count++) {
    const name = count === 1 ? wanted : `${wanted}-${count}`
    if (!taken.has(name)) return name
  }
}

function onePort(
  row: ServerRow,
  { port, ip }: { readonly port: number; readonly ip: string | undefined },
): FurtherPort {
  const wanted = ip === undefined ? undefined : (canonicalIp(ip) ?? ip)
  const found = furtherPortsOf(row).filter((one) => one.port === port && (wanted === undefined || one.ip === wanted))
  const [only] = found
  if (only === undefined) throw new PanelError('ALLOCATION_NOT_FOUND', NO_PORT)
  if (found.length === 1) return only
  const ips = found.map((one) => one.ip).join(', ')
  throw fieldError('query.ip', `is needed: the server has the port ${port} at ${ips}`)
}

/**
 * What a caller may claim: operators, and who has the node assigned, any port of it; others what the operator has put there for
 * servers to take, and what the server has.
 */
async function allowedFor({ tx, holder }: Change, row: ServerRow): Promise<AllowedAddresses | undefined> {
  if (grants(holder.permissions, 'admin.write')) return undefined
  if (await mayAsAssignee({ q: tx.q, now: tx.now }, holder, row.nodeId, 'server.create')) return undefined
  const free = await tx.q
    .selectFrom('allocation')
    .select(['ip', 'port'])
    .where('nodeId', '=', row.nodeId)
    .where((eb) => eb.or([eb('serverId', 'is', null), eb('serverId', '=', row.id)]))
    .execute()
  return new AllowedAddresses(free)
}

/** Its node gets the server's ports as they are now; a run keeps those that it was started with. */
async function emitSpec({ tx, deps }: Change, row: ServerRow): Promise<void> {
  const generation = await nextGeneration(tx, row, {})
  await replaceQueuedApplies(tx, deps.bus, row)
  await addCommand(tx, deps, { row, generation, op: 'apply', args: {} })
}

function updated({ userId }: Change, row: ServerRow, change: string): NewEvent {
  return { type: 'server_updated', serverId: row.id, data: { updatedBy: userId, change } }
}
