import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Tx } from '../../../db/db.ts'
import { statement } from '../../../db/statement.ts'
import { roundedCores } from './rows.ts'

/** The fields of a node that bound what its servers may be given. */
export interface NodeLimits {
  readonly maxMemoryMb: number
  readonly maxCpuCores: number
  readonly memoryOverallocatePercent: number
  readonly cpuOverallocatePercent: number
}

/** Memory in MiB and cores. */
export interface Resources {
  readonly memoryMb: number
  readonly cpuCores: number
}

/** What the servers of a node may be given in all; `null`: as much as anybody asks for. */
export function effectiveMaximum(limits: NodeLimits): { memoryMb: number | null; cpuCores: number | null } {
  const over = (max: number, percent: number): number | null => (percent < 0 ? null : max * (1 + percent / 100))
  const memory = over(limits.maxMemoryMb, limits.memoryOverallocatePercent)
  const cores = over(limits.maxCpuCores, limits.cpuOverallocatePercent)
  return {
    memoryMb: memory === null ? null : Math.floor(memory + 1e-6),
    cpuCores: cores === null ? null : roundedCores(cores),
  }
}

/**
 * Refuses with INSUFFICIENT_RESOURCES when the node cannot give that much beside its other servers. It counts inside
 * the transaction that then writes the server, so that two servers do not share the last of it.
 */
export async function ensureCapacity(
  tx: Tx,
  node: NodeLimits & { readonly id: string },
  required: Resources,
  exceptServerId?: string,
): Promise<void> {
  refuseBeyond(node, await givenBeside(tx, node.id, exceptServerId), required)
}

/** Refuses with INSUFFICIENT_RESOURCES when a node whose other servers have been `given` so much cannot give what is required. */
export function refuseBeyond(node: NodeLimits, given: Resources, required: Resources): void {
  const maximum = effectiveMaximum(node)
  const available = {
    memoryMb: maximum.memoryMb === null ? null : Math.max(0, maximum.memoryMb - given.memoryMb),
    cpuCores: maximum.cpuCores === null ? null : Math.max(0, roundedCores(maximum.cpuCores - given.cpuCores)),
  }
  const short = [
    ...(available.memoryMb !== null && required.memoryMb > available.memoryMb
      ? [`${available.memoryMb} MiB of memory, ${required.memoryMb} are asked for`]
      : []),
    ...(available.cpuCores !== null && required.cpuCores > available.cpuCores
      ? [`${available.cpuCores} cores, ${required.cpuCores} are asked for`]
      : []),
  ]
  if (short.length === 0) return
  throw new PanelError('INSUFFICIENT_RESOURCES', `The node has only ${short.join('; and ')}`, {
    meta: { available, required: { memoryMb: required.memoryMb, cpuCores: required.cpuCores } },
  })
}

async function givenBeside(tx: Tx, nodeId: string, exceptServerId = ''): Promise<Resources> {
  const [row] = await sumBeside(tx.q, { nodeId, exceptServerId })
  return { memoryMb: Number(row?.memoryMb ?? 0), cpuCores: roundedCores(Number(row?.cpuCores ?? 0)) }
}

const sumBeside = statement((q, { nodeId, exceptServerId }: { nodeId: string; exceptServerId: string }) =>
  q
    .selectFrom('server')
    .select((eb) => [eb.fn.sum<number>('memoryMb').as('memoryMb'), eb.fn.sum<number>('cpuCores').as('cpuCores')])
    .where('nodeId', '=', nodeId)
    .where('id', '!=', exceptServerId),
)
