import { isIPv4 } from 'node:net'
import type { z } from 'zod'
import type { createNode, updateNode } from '../../../../shared/api/nodes.ts'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import { isLoopbackHost } from '../../../../shared/kernel/setting-values.ts'
import { canonicalIp, isReachable, isUnspecified } from './addresses.ts'

/** What people decide about a node. */
export interface NodeFields {
  readonly name: string
  readonly description: string | null
  readonly locationId: string
  readonly hostname: string
  readonly publicAddress: string
  readonly defaultIp: string
  /** As it stands in the database. */
  readonly portRanges: string
  readonly maxMemoryMb: number
  readonly maxCpuCores: number
  readonly memoryOverallocatePercent: number
  readonly cpuOverallocatePercent: number
}

/** The name of a node that was added without one; enrolment replaces it by the machine's own. */
export const UNNAMED_HOST = 'localhost'

const LOOPBACK = '127.0.0.1'

/** The public address of a node for which nobody has named one, until its agent has said which addresses its machine has. */
const UNDECIDED = '0.0.0.0'

/**
 * The fields of a new node. Without addresses it is taken for this machine. Servers get `defaultIp` unless they name
 * another one: the given one, else {@link addressFor} the public address.
 */
export function newNodeFields(body: z.output<typeof createNode.body>): NodeFields {
  const hostname = body.hostname ?? body.publicAddress ?? UNNAMED_HOST
  const publicAddress = body.publicAddress ?? body.hostname ?? LOOPBACK
  return {
    name: body.name,
    description: body.description ?? null,
    locationId: body.locationId,
    hostname,
    publicAddress,
    defaultIp: body.defaultIp === undefined ? addressFor(publicAddress) : boundAddress(body.defaultIp),
    portRanges: JSON.stringify(body.portRanges ?? []),
    maxMemoryMb: body.maxMemoryMb,
    maxCpuCores: body.maxCpuCores,
    memoryOverallocatePercent: body.memoryOverallocatePercent ?? 0,
    cpuOverallocatePercent: body.cpuOverallocatePercent ?? 0,
  }
}

/** The address for servers that none was chosen for: the public one where that is an IP address, else 127.0.0.1. */
export function addressFor(publicAddress: string): string {
  const ip = canonicalIp(publicAddress)
  return ip === undefined || isUnspecified(ip) ? LOOPBACK : ip
}

/**
 * The same once the machine has said which addresses it has: the public one only where it is one of these.
 * A machine that is known by a name, or stands behind a router, has another one; its first IPv4 address is taken. What
 * is no address of one machine is passed over, whatever the agent calls it.
 */
export function addressAmong(publicAddress: string, own: readonly string[]): string {
  const requested = addressFor(publicAddress)
  const local = own.flatMap((address) => canonicalIp(address) ?? [])
  if (isLoopbackHost(publicAddress) || (!isLoopbackHost(requested) && local.includes(requested))) return requested
  const reachable = local.filter(isReachable)
  return reachable.find((ip) => isIPv4(ip)) ?? reachable[0] ?? requested
}

/**
 * The address of a node whose agent has enrolled, where nobody has named one: it is not known to be this machine any more.
 * `undefined`: somebody has, or an agent has been there before and the node stays what it was.
 */
export function addressOnEnrolment(
  node: Pick<NodeFields, 'hostname' | 'publicAddress'> & { readonly agentVersion: string | null },
): string | undefined {
  const isUnnamed = node.hostname === UNNAMED_HOST && node.publicAddress === LOOPBACK
  return isUnnamed && node.agentVersion === null ? UNDECIDED : undefined
}

/** The public address of a node whose servers get this one by default; `undefined`: it has one. */
export function addressOnHello(publicAddress: string, defaultIp: string): string | undefined {
  return publicAddress === UNDECIDED ? defaultIp : undefined
}

/** The fields that an edit names; the others stay. Whether `defaultIp` is one of the node's is left to the caller. */
export function editedFields(body: z.output<typeof updateNode.body>): Partial<NodeFields> {
  const { description, defaultIp, portRanges, ...rest } = body
  const named = Object.entries(rest).filter(([, value]) => value !== undefined)
  return {
    ...Object.fromEntries(named),
    ...(description === undefined ? {} : { description }),
    ...(defaultIp === undefined ? {} : { defaultIp: canonicalIp(defaultIp) ?? defaultIp }),
    ...(portRanges === undefined ? {} : { portRanges: JSON.stringify(portRanges) }),
  }
}

function boundAddress(text: string): string {
  const ip = canonicalIp(text)
  if (ip === undefined || isUnspecified(ip)) throw fieldError('body.defaultIp', 'must be one address of the node')
  return ip
}
