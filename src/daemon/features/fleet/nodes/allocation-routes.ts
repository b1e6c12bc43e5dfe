import {
  createAllocations,
  deleteAllocation,
  listAllocations,
  updateAllocation,
} from '../../../../shared/api/allocations.ts'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import { changes } from '../../../access/audit.ts'
import { type Route, route } from '../../../http/route.ts'
import { expandIps, expandPorts } from './addresses.ts'
import * as repo from './allocation-repo.ts'
import type { NodeDeps } from './deps.ts'
import { oneOfItsAddresses } from './own-addresses.ts'
import { findNode } from './repo.ts'

const GONE = 'There is no node with this id'
const NO_ALLOCATION = 'The node has no allocation with this id'
const MAX_PAIRS = 5000

/** The routes of a node's addresses and ports. */
export function allocationRoutes(deps: NodeDeps): Route[] {
  return [list(deps), create(deps), update(deps), remove(deps)]
}

function list({ db }: NodeDeps): Route {
  return route(listAllocations, async ({ params: { nodeId }, query }, context) => {
    if ((await findNode(db.read, nodeId)) === undefined) context.fail('NODE_NOT_FOUND', GONE)
    return repo.listAllocations(db.read, nodeId, query)
  })
}

function create({ db, bus, audit, clock }: NodeDeps): Route {
  return route(createAllocations, async ({ params: { nodeId }, body }, context) => {
    const pairs = pairsOf(body, await oneOfItsAddresses(db.read, nodeId))
    return db.write(async (tx) => {
      if ((await findNode(tx.q, nodeId)) === undefined) context.fail('NODE_NOT_FOUND', GONE)
      const note = { alias: body.alias ?? null, notes: body.notes ?? null }
      const created = await repo.insertAllocations(tx, clock, { nodeId, pairs, note })
      const skipped = pairs.length - created
      if (created === 0) return { created, skipped }
      await audit.record(tx, context.actor, {
        action: 'node.allocation_create',
        resource: 'node',
        resourceId: nodeId,
        details: { ip: body.ip, ports: body.ports, created, skipped },
      })
      await bus.append(tx, {
        type: 'node_updated',
        data: { nodeId, updatedBy: context.caller?.userId ?? null, change: 'allocations' },
      })
      return { created, skipped }
    })
  })
}

function update({ db, bus, audit }: NodeDeps): Route {
  return route(updateAllocation, ({ params: { nodeId, allocationId }, body }, context) =>
    db.write(async (tx) => {
      if ((await findNode(tx.q, nodeId)) === undefined) context.fail('NODE_NOT_FOUND', GONE)
      const before =
        (await repo.findAllocation(tx.q, nodeId, allocationId)) ?? context.fail('ALLOCATION_NOT_FOUND', NO_ALLOCATION)
      const note = {
        alias: body.alias === undefined ? before.alias : body.alias,
        notes: body.notes === undefined ? before.notes : body.notes,
      }
      const details = changes(before, note)
      if (details === undefined) return before
      await repo.updateAllocationNote(tx, allocationId, note)
      await audit.record(tx, context.actor, {
        action: 'node.allocation_update',
        resource: 'node',
        resourceId: nodeId,
        details: { allocationId, ...details },
      })
      await bus.append(tx, {
        type: 'node_updated',
        data: { nodeId, updatedBy: context.caller?.userId ?? null, change: 'allocations' },
      })
      return { ...before, ...note, updatedAt: tx.now }
    }),
  )
}

function remove({ db, bus, audit }: NodeDeps): Route {
  return route(deleteAllocation, ({ params: { nodeId, allocationId } }, context) =>
    db.write(async (tx) => {
      if ((await findNode(tx.q, nodeId)) === undefined) context.fail('NODE_NOT_FOUND', GONE)
      const deleted = await repo.deleteFreeAllocation(tx, nodeId, allocationId)
      if (deleted === undefined) {
        const present = await repo.findAllocation(tx.q, nodeId, allocationId)
        if (present === undefined) return context.fail('ALLOCATION_NOT_FOUND', NO_ALLOCATION)
        return context.fail('ALLOCATION_IN_USE', 'A server uses this allocation; delete or move the server first')
      }
      await audit.record(tx, context.actor, {
        action: 'node.allocation_delete',
        resource: 'node',
        resourceId: nodeId,
        details: { allocationId, ...deleted },
      })
      await bus.append(tx, {
        type: 'node_updated',
        data: { nodeId, updatedBy: context.caller?.userId ?? null, change: 'allocations' },
      })
      return null
    }),
  )
}

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
