import { isIPv6 } from 'node:net'
import type { NewTemplate, TemplatePort } from '../../../../shared/api/template-fields.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import {
  addressText,
  type ClaimedAllocation,
  type ClaimsTogether,
  claimAllocation,
  type PortUse,
} from '../../fleet/nodes/allocation-claims.ts'
import { claimPlace, networkOf, releasePlace } from '../../fleet/nodes/pool-claims.ts'
import { type PortHolds, readHoldsOf, readPortHolds } from '../../fleet/nodes/port-holds.ts'
import { MOST_LOOKS, type PortLooks } from '../../fleet/nodes/port-looks.ts'
import { givenPorts, portRangesOf, rangesText } from '../../fleet/nodes/port-ranges.ts'
import { type FurtherPort, furtherPortsOf, portsOfTemplate } from './further-ports.ts'
import type { ServerRow } from './rows.ts'
import { definitionOf } from './view.ts'

/** A further port that a server is to have, and where. */
export interface PortRequest extends PortUse {
  readonly required: boolean
  readonly at:
    | { readonly kind: 'offset'; readonly offset: number }
    | { readonly kind: 'fixed'; readonly ip: string; readonly port: number }
    /** Any that is free at the address of the primary one, or at `ip`; `like` where that is. */
    | { readonly kind: 'any'; readonly ip?: string; readonly like?: number }
}

/** For whom ports are claimed, and by which rules. */
export interface PortClaim {
  readonly tx: Tx
  readonly clock: Clock
  readonly looks: Pick<PortLooks, 'isTaken'>
  readonly serverId: string
  readonly node: { readonly id: string; readonly name: string; readonly portRanges: string }
  readonly template: Pick<NewTemplate, 'supportedPorts' | 'bindsAll'>
  readonly runtime: string
  /** The addresses that the caller may take; without it all of the node. */
  readonly allowed?: AllowedAddresses
  /** The field that is refused where the primary port leaves no room for the others. */
  readonly field: string
  /** What servers of the node hold, by {@link readHolds} in the same transaction; without it it is read. */
  readonly holds?: PortHolds
  /** Where the claims are written together with those of others; without it each is written at once. */
  readonly together?: ClaimsTogether | undefined
}

/** The primary port: an allocation, or an address with a port or without. */
export type PrimaryRequest =
  | { readonly allocationId: string }
  | { readonly ip: string; readonly port: number | undefined }
  | { readonly network: string; readonly ip: string | undefined; readonly port: number | undefined }

/**
 * Claims all ports of a server or none: the primary one, those that lie at a distance from it, those with a number of their own,
 * and then the next free ones for the rest. Required ports that another server has are PORT_IN_USE; a node without free ones is
 * INSUFFICIENT_RESOURCES. The row of the server may be written later in the same transaction.
 */
export async function claimPorts(
  claim: PortClaim,
  primary: PrimaryRequest,
  requests: readonly PortRequest[],
): Promise<{ primary: ClaimedAllocation; further: readonly (ClaimedAllocation & PortUse)[] }> {
  const port = 'port' in primary ? primary.port : undefined
  const holds = claim.holds ?? (await readHolds(claim.tx.q, claim.node.id, { port, requests }))
  return new Claims(claim, holds).all(primary, requests)
}

/** What servers of a node hold, as far as it can be in the way of these ports; `port` is the primary one where it is named. */
export function readHolds(
  q: Queries,
  nodeId: string,
  { port, requests }: { readonly port: number | undefined; readonly requests: readonly PortRequest[] },
): Promise<PortHolds> {
  return readHoldsFor(q, nodeId, [namedPorts(port, requests)])
}

/** The same for several claims, by the {@link namedPorts} of each. */
export function readHoldsFor(
  q: Queries,
  nodeId: string,
  claims: readonly (readonly number[] | undefined)[],
): Promise<PortHolds> {
  const named = claims.flatMap((ports) => ports ?? [])
  return claims.includes(undefined) ? readPortHolds(q, nodeId) : readHoldsOf(q, nodeId, named)
}

/** The ports that can be claimed, where all are named; `undefined` where one is chosen of those that are free. */
export function namedPorts(
  primary: number | undefined,
  requests: readonly PortRequest[],
): readonly number[] | undefined {
  if (primary === undefined) return undefined
  const ports = [primary]
  for (const { at } of requests) {
    if (at.kind === 'any') return undefined
    ports.push(at.kind === 'offset' ? primary + at.offset : at.port)
  }
  return ports
}

/** Claims one more port for a server that has others. */
export async function claimFurtherPort(
  claim: PortClaim,
  request: PortRequest,
  primary: { readonly ip: string; readonly port: number },
): Promise<ClaimedAllocation & PortUse> {
  const claims = new Claims(claim, await readPortHolds(claim.tx.q, claim.node.id))
  const claimed = await claims.further({ ...request, required: true }, primary)
  if (claimed === undefined) throw new Error('a required port was neither claimed nor refused')
  return claimed
}

/** The requests that a template has for its servers; those of before the field was there have none. */
export function requestsOf(template: Pick<NewTemplate, 'ports'>): PortRequest[] {
  return portsOfTemplate(template).map(requestOf)
}

/** The same of one of its ports. */
export function requestOf({ name, role, protocol, offset, required }: TemplatePort): PortRequest {
  return { name, role, protocol, required, at: offset === null ? { kind: 'any' } : { kind: 'offset', offset } }
}

/**
 * Gives a server another primary port, and its further ports with it: those at a distance follow, those at the address that it
 * leaves come along, and others stay where they are. All of them or none.
 */
export async function moveServerPorts(
  { tx, clock, looks, allowed, field, row }: MoveClaim,
  primary: PrimaryRequest,
  changed: { readonly without?: string; readonly and?: readonly PortRequest[] } = {},
): Promise<ClaimedAllocation> {
  const template = definitionOf(row)
  const node = await nodeOf(tx, row.nodeId)
  const target = 'allocationId' in primary ? await addressOf(tx, primary.allocationId) : primary
  // Where two ports change places the server does not leave its address.
  const to = changed.without === undefined ? (target?.ip ?? row.ip) : row.ip
  const requests = furtherPortsOf(row)
    .filter(({ id }) => id !== changed.without)
    .map((port) => movedRequest(port, { template, from: row.ip, to }))
  await releasePlace(tx, row.id)
  const claim = { tx, clock, looks, serverId: row.id, node, template, runtime: row.runtime, field }
  const claimed = await claimPorts({ ...claim, ...(allowed === undefined ? {} : { allowed }) }, primary, [
    ...requests,
    ...(changed.and ?? []),
  ])
  return claimed.primary
}

/** Whose ports are moved. */
export type MoveClaim = Pick<PortClaim, 'tx' | 'clock' | 'looks' | 'field'> & {
  readonly row: ServerRow
  readonly allowed?: AllowedAddresses | undefined
}

/** A node as claims need it. */
export function nodeOf(tx: Tx, nodeId: string): Promise<PortClaim['node']> {
  return tx.q.selectFrom('node').select(['id', 'name', 'portRanges']).where('id', '=', nodeId).executeTakeFirstOrThrow()
}

async function addressOf(tx: Tx, allocationId: string): Promise<{ readonly ip: string } | undefined> {
  return await tx.q.selectFrom('allocation').select('ip').where('id', '=', allocationId).executeTakeFirst()
}

function movedRequest(
  { name, role, protocol, ip, port }: FurtherPort,
  { template, from, to }: { readonly template: Pick<NewTemplate, 'ports'>; readonly from: string; readonly to: string },
): PortRequest {
  const use = { name, role, protocol, required: true }
  const known = portsOfTemplate(template).find((one) => one.name === name)
  if (known !== undefined && known.offset !== null) return { ...use, at: { kind: 'offset', offset: known.offset } }
  const moved = ip === from ? to : ip
  if (known !== undefined) return { ...use, at: { kind: 'any', ip: moved, like: port } }
  return { ...use, at: { kind: 'fixed', ip: moved, port } }
}

/** Addresses with their ports that somebody may take. */
export class AllowedAddresses {
  readonly #keys = new Set<string>()
  readonly #ports = new Map<string, number[]>()

  constructor(addresses: readonly { readonly ip: string; readonly port: number }[]) {
    for (const { ip, port } of addresses) {
      this.#keys.add(`${ip} ${port}`)
      const there = this.#ports.get(ip)
      if (there === undefined) this.#ports.set(ip, [port])
      else there.push(port)
    }
  }

  has(ip: string, port: number): boolean {
    return this.#keys.has(`${ip} ${port}`)
  }

  at(ip: string): number[] {
    return (this.#ports.get(ip) ?? []).toSorted((a, b) => a - b)
  }
}

/** The claims of one server, beside what others have. */
class Claims {
  readonly #claim: PortClaim
  readonly #holds: PortHolds
  readonly #bindsAll: boolean

  constructor(claim: PortClaim, holds: PortHolds) {
    this.#claim = claim
    this.#holds = holds
    // A container binds its own addresses; what is published of it names one.
    this.#bindsAll = claim.template.bindsAll && claim.runtime === 'process'
  }

  async all(primary: PrimaryRequest, requests: readonly PortRequest[]) {
    const allocation = await this.#primary(primary, requests)
    const further: (ClaimedAllocation & PortUse)[] = []
    for (const kind of ['offset', 'fixed', 'any'] as const) {
      for (const request of requests.filter(({ at }) => at.kind === kind)) {
        const claimed = await this.further(request, allocation)
        if (claimed !== undefined) further.push(claimed)
      }
    }
    return { primary: allocation, further }
  }

  async #primary(request: PrimaryRequest, requests: readonly PortRequest[]): Promise<ClaimedAllocation> {
    const { tx, node, serverId, clock, together } = this.#claim
    const required = requests.filter((one) => one.required)
    const wanted =
      'allocationId' in request
        ? request
        : { ...request, port: request.port ?? ((ip: string) => this.#chosen(ip, required)) }
    const allocation = await claimPlace(tx, { nodeId: node.id, serverId, clock, wanted, together })
    this.#refuseBlocked(allocation)
    this.#hold(allocation)
    return allocation
  }

  /** Claims a further port; `undefined`: it is not required, and not to be had. */
  async further(
    request: PortRequest,
    primary: { readonly ip: string; readonly port: number },
  ): Promise<(ClaimedAllocation & PortUse) | undefined> {
    const { tx, node, serverId, clock, together } = this.#claim
    const { name, role, protocol } = request
    const wanted = this.#place(request, primary)
    if (wanted === undefined) return undefined
    if (await this.#isOthersNetwork(request, wanted.ip, primary.ip)) return undefined
    this.#refuseForbidden(wanted)
    this.#refuseBlocked(wanted, name)
    const use = { name, role, protocol }
    const claimed = await claimAllocation(tx, { nodeId: node.id, serverId, clock, wanted, use, together })
    this.#hold(claimed)
    return { ...claimed, ...use }
  }

  #place(
    { name, at, required }: PortRequest,
    primary: { readonly ip: string; readonly port: number },
  ): { readonly ip: string; readonly port: number } | undefined {
    if (at.kind === 'fixed') return required || this.#isFree(at.ip, at.port) ? at : undefined
    if (at.kind === 'any') {
      const ip = at.ip ?? primary.ip
      const candidates = this.#candidates(ip, [], primary.port)
      for (const port of at.like === undefined ? candidates : [at.like, ...candidates]) {
        if (this.#isFree(ip, port)) return { ip, port }
      }
      if (required) throw this.#nothingFree(1)
      return undefined
    }
    const address = { ip: primary.ip, port: primary.port + at.offset }
    if (isPort(address.port)) return required || this.#isFree(address.ip, address.port) ? address : undefined
    if (!required) return undefined
    const room = at.offset > 0 ? `at most ${65_535 - at.offset}` : `at least ${1 - at.offset}`
    throw fieldError(
      this.#claim.field,
      `must leave room for the port ${name} at ${signed(at.offset)}: ${room}, not ${primary.port}`,
    )
  }

  /** The first port at which the required others have their place too. */
  #chosen(ip: string, required: readonly PortRequest[]): number {
    const offsets = required.flatMap(({ at }) => (at.kind === 'offset' ? [at.offset] : []))
    for (const port of this.#candidates(ip, this.#claim.template.supportedPorts)) {
      if ([0, ...offsets].every((offset) => this.#isFree(ip, port + offset))) return port
    }
    throw this.#nothingFree(1 + required.length)
  }

  #candidates(ip: string, preferred: readonly number[], after = 0): number[] {
    const { allowed, node } = this.#claim
    const ports = allowed === undefined ? [...givenPorts(portRangesOf(node), preferred)] : allowed.at(ip)
    // What belongs together is easier to find side by side.
    return after === 0 ? ports : [...ports.filter((port) => port > after), ...ports.filter((port) => port <= after)]
  }

  #isFree(ip: string, port: number): boolean {
    const { looks, node, allowed } = this.#claim
    if (!isPort(port) || allowed?.has(ip, port) === false) return false
    if (this.#holds.blocking({ ip, port, bindsAll: this.#bindsAll }) !== undefined) return false
    return !looks.isTaken(node.id, lookAt({ ip, port }, this.#bindsAll))
  }

  #hold({ ip, port }: ClaimedAllocation): void {
    this.#holds.add({ ip, port, bindsAll: this.#bindsAll })
  }

  #refuseBlocked({ ip, port }: { readonly ip: string; readonly port: number }, name?: string): void {
    const blocking = this.#holds.blocking({ ip, port, bindsAll: this.#bindsAll })
    if (blocking === undefined) return
    const what = `${addressText({ ip, port })}${name === undefined ? '' : `, for the port ${name},`}`
    const message =
      blocking.ip === ip
        ? `${what} is taken already`
        : `${what} cannot be had beside ${addressText(blocking)}: a game that binds all addresses has the number on each of them`
    throw new PanelError('PORT_IN_USE', `${message}; choose another port`, { meta: { ip, port } })
  }

  #refuseForbidden({ ip, port }: { readonly ip: string; readonly port: number }): void {
    if (this.#claim.allowed?.has(ip, port) !== false) return
    throw new PanelError(
      'PERMISSION_DENIED',
      `${addressText({ ip, port })} is no free allocation of the node; taking another one needs admin.write`,
      { meta: { missing: ['admin.write'] } },
    )
  }

  /** The address of a network is the whole server's: it is given with the primary port alone. */
  async #isOthersNetwork({ required }: PortRequest, ip: string, own: string): Promise<boolean> {
    if (ip === own) return false
    const network = await networkOf(this.#claim.tx, this.#claim.node.id, ip)
    if (network === undefined) return false
    if (!required) return true
    throw fieldError(
      'body.ip',
      `must be the server's own address or one of the node: the network ${network} gives ${ip} out`,
    )
  }

  #nothingFree(required: number): PanelError {
    const { node, allowed } = this.#claim
    const ranges = rangesText(portRangesOf(node))
    const many = required === 1 ? 'no free port' : `no place for ${required} ports`
    const message =
      allowed === undefined
        ? `The node ${node.name} has ${many} in ${ranges}; give it more (panel nodes edit ${node.name} --port-range …) or name a port`
        : `The node ${node.name} has no free allocation at this address; its operator can add some`
    return new PanelError('INSUFFICIENT_RESOURCES', message, {
      meta: { available: { ports: 0 }, required: { ports: required } },
    })
  }
}

function isPort(port: number): boolean {
  return port >= 1 && port <= 65_535
}

function signed(offset: number): string {
  return offset > 0 ? `+${offset}` : String(offset)
}

/** Where an agent looks whether a port is free: on all addresses for a game that binds all of them. */
function lookAt<A extends { readonly ip: string }>(address: A, bindsAll: boolean): A {
  return bindsAll ? { ...address, ip: isIPv6(address.ip) ? '::' : '0.0.0.0' } : address
}

/**
 * The addresses that a server without a port of its own will most likely be given, for a look at them before: as many as an agent
 * looks at at once.
 */
export function likelyAddresses(
  holds: PortHolds,
  {
    ip,
    node,
    template,
    runtime,
  }: { readonly ip: string } & Pick<PortClaim, 'node' | 'template' | 'runtime'> & {
      readonly template: Pick<NewTemplate, 'ports'>
    },
): { ip: string; port: number }[] {
  const bindsAll = template.bindsAll && runtime === 'process'
  const offsets = portsOfTemplate(template).flatMap(({ offset }) => (offset === null ? [] : [offset]))
  const found = new Map<number, { ip: string; port: number }>()
  for (const port of givenPorts(portRangesOf(node), template.supportedPorts)) {
    if (found.size >= MOST_LOOKS) break
    for (const one of [port, ...offsets.map((offset) => port + offset)]) {
      if (!isPort(one) || holds.blocking({ ip, port: one, bindsAll }) !== undefined) continue
      found.set(one, lookAt({ ip, port: one }, bindsAll))
    }
  }
  return [...found.values()].slice(0, MOST_LOOKS)
}
