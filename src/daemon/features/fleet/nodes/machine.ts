import type { NodeMachine } from '../../../../shared/protocol/node.ts'
import type { Queries } from '../../../db/db.ts'
import type { MachineClaim } from '../../../gateway/handlers.ts'
import { nodeOnHello } from './joining-rows.ts'

/** Compares the machine of an agent with the one that first connected with the node's present key. */
export async function claimOf(q: Queries, nodeId: string, said: NodeMachine | undefined): Promise<MachineClaim> {
  const row = await nodeOnHello(q, nodeId)
  if (said === undefined || row === undefined || row.machineBootId === null) return 'unproved'
  if (said.id !== null && row.machineId !== null) return said.id === row.machineId ? 'same' : 'other'
  return said.bootId === row.machineBootId ? 'same' : 'unproved'
}

/** The columns that make the machine of an agent that was let in the node's. */
export function machineColumns({ id, bootId }: NodeMachine): { machineId?: string; machineBootId: string } {
  return { ...(id === null ? {} : { machineId: id }), machineBootId: bootId }
}
