import * as api from '../../../../shared/api/allocations.ts'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import { changes } from '../../../access/audit.ts'
import { type OperationDeps, operationsOver } from '../../../access/operation.ts'
import { expandIps, expandPorts } from './addresses.ts'
import * as rows from './allocation-rows.ts'
import { GONE } from './operations.ts'
import { oneOfItsAddresses } from './own-addresses.ts'
import { findNode } from './rows.ts'

/** What the operations of a node's addresses and ports need. */
export interface AllocationOperationDeps extends OperationDeps {
  readonly clock: Clock
}

const NO_ALLOCATION = 'The node has no allocation with this id'
const MAX_PAIRS = 5000

const operation = operationsOver<AllocationOperationDeps>()

export const createAllocations = operation(
  api.createAllocations,
  async ({ tx, deps, userId, fail }, { params: { nodeId }, body }) => {
    const { clock } = deps
    const pairs = pairsOf(body, await oneOfItsAddresses(tx.q, nodeId))

    if ((await findNode(tx.q, nodeId)) === undefined) fail('NODE_NOT_FOUND', GONE)
    const note = { alias: body.alias ?? null, notes: body.notes ?? null }
    const created = await rows.insertAllocations(tx, clock, { nodeId, pairs, note })
    const skipped = pairs.length - created
    if (created === 0) return { answer: { created, skipped } }

    return {
      answer: { created, skipped },
      audit: {
        resourceId: nodeId,
        details: { ip: body.ip, ports: body.ports, created, skipped },
      },
      events: [
        {
          type: 'node_updated',
          data: { nodeId, updatedBy: userId, change: 'allocations' },
        },
      ],
    }
  },
)

export const updateAllocation = operation(
  api.updateAllocation,
  async ({ tx, userId, fail }, { params: { nodeId, allocationId }, body }) => {
    if ((await findNode(tx.q, nodeId)) === undefined) fail('NODE_NOT_FOUND', GONE)
    const before =
      (await rows.findAllocation(tx.q, nodeId, allocationId)) ?? fail('ALLOCATION_NOT_FOUND', NO_ALLOCATION)
    const note = {
      alias: body.alias === undefined ? before.alias : body.alias,
      notes: body.notes === undefined ? before.notes : body.notes,
    }
    const details = changes(before, note)
    if (details === undefined) return { answer: before }
    await rows.updateAllocationNote(tx, allocationId, note)

    return {
      answer: { ...before, ...note, updatedAt: tx.now },
      audit: {
        resourceId: nodeId,
        details: { allocationId, ...details },
      },
      events: [
        {
          type: 'node_updated',
          data: { nodeId, updatedBy: userId, change: 'allocations' },
        },
      ],
    }
  },
)

export const deleteAllocation = operation(
  api.deleteAllocation,
  async ({ tx, userId, fail }, { params: { nodeId, allocationId } }) => {
    if ((await findNode(tx.q, nodeId)) === undefined) fail('NODE_NOT_FOUND', GONE)
    const deleted = await rows.deleteFreeAllocation(tx, nodeId, allocationId)
    if (deleted === undefined) {
      const present = await rows.findAllocation(tx.q, nodeId, allocationId)
      if (present === undefined) return fail('ALLOCATION_NOT_FOUND', NO_ALLOCATION)
      return fail('ALLOCATION_IN_USE', 'A server uses this allocation; delete or move the server first')
    }

    return {
      answer: null,
      audit: {
        resourceId: nodeId,
        details: { allocationId, ...deleted },
      },
      events: [
        {
          type: 'node_updated',
          data: { nodeId, updatedBy: userId, change: 'allocations' },
        },
      ],
    }
  },
)

function pairsOf(
  body: { readonly ip: string; readonly ports: string },
  instead: string,
): { ip: string; port: number }[] {
  const ips = expandIps(body.ip, MAX_PAIRS, instead)
  if (typeof ips === 'string') throw fieldError('body.ip', ips)
  const ports = expandPorts(body.ports, MAX_PAIRS)
  if (typeof ports === 'string') throw fieldError('body.ports', ports)
  const count = ips.length * ports.length
  if (count > MAX_PAIRS) {
    throw fieldError('body.ports', `makes ${count} pairs with body.ip; at most ${MAX_PAIRS} are added at once`)
  }
  return ips.flatMap((ip) => ports.map((port) => ({ ip, port })))
}
