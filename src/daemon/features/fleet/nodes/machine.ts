import type { NodeMachine } from '../../../../shared/protocol/node.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import type { MachineClaim } from '../../../gateway/handlers.ts'

/** Compares the machine of an agent with the one that first connected with the node's present key. */
export async function claimOf(q: Queries, nodeId: string, said: NodeMachine | undefined): Promise<MachineClaim> {
  const row = await q
    .selectFrom('node')
    .select(['machineId', 'machineBootId'])
    .where('id', '=', nodeId)
    .executeTakeFirst()
  if (said === undefined || row === undefined || row.machineBootId === null) return 'unproved'
  if (said.id !== null && row.machineId !== null) return said.id === row.machineId ? 'same' : 'other'
  return said.bootId === row.machineBootId ? 'same' : 'unproved'
}

/** Makes the machine of an agent that was let in the node's. */
export async function noteMachine(tx: Tx, nodeId: string, { id, bootId }: NodeMachine): Promise<void> {
  await tx.q
    .updateTable('node')
    .set({ ...(id === null ? {} : { machineId: id }), machineBootId: bootId })
    .where('id', '=', nodeId)
    .execute()
}
