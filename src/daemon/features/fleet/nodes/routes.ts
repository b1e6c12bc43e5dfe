import { listAccessibleNodes } from '../../../../shared/api/assignments.ts'
import {
  createNode,
  deleteNode,
  getNode,
  getNodeStats,
  listAdminNodes,
  listNodes,
  setNodeMaintenance,
  updateNode,
} from '../../../../shared/api/nodes.ts'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { now } from '../../../../shared/kernel/time.ts'
import { changes } from '../../../access/audit.ts'
import { visibleNodes } from '../../../access/permit.ts'
import { isForeignKeyViolation, uniqueViolation } from '../../../db/db.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import { isUnspecified } from './addresses.ts'
import { allocationRoutes } from './allocation-routes.ts'
import { credentialRoutes } from './credential-routes.ts'
import type { NodeDeps } from './deps.ts'
import { editedFields, newNodeFields } from './fields.ts'
import { oneOfItsAddresses } from './own-addresses.ts'
import { poolRoutes } from './pool-routes.ts'
import * as repo from './repo.ts'
import { nodeStats } from './stats.ts'
import { nodeView } from './view.ts'

const GONE = 'There is no node with this id'

/** The routes of nodes, their credentials, allocations and IP pools. */
export function nodeRoutes(deps: NodeDeps): Route[] {
  return [
    list(deps),
    listForAdmin(deps),
    listAccessible(deps),
    get(deps),
    create(deps),
    update(deps),
    maintenance(deps),
    remove(deps),
    stats(deps),
    ...credentialRoutes(deps),
    ...allocationRoutes(deps),
    ...poolRoutes(deps),
  ]
}

function list(deps: NodeDeps): Route {
  return route(listNodes, async ({ query }) => {
    const { items, total } = await repo.listNodes(deps.db.read, query)
    return { items: items.map((row) => nodeView(row, deps)), total }
  })
}

function listForAdmin(deps: NodeDeps): Route {
  return route(listAdminNodes, async ({ query }) => {
    const { items, total } = await repo.listNodes(deps.db.read, query)
    const usageOf = await repo.nodeUsage(
      deps.db.read,
      items.map(({ id }) => id),
    )
    const withUsage = items.map((row) => {
      const { memoryMb, cpuCores, running } = usageOf(row.id)
      const given = { allocatedMemoryMb: memoryMb, allocatedCpuCores: cpuCores, runningServers: running }
      return { ...nodeView(row, deps), ...given }
    })
    return { items: withUsage, total }
  })
}

function listAccessible(deps: NodeDeps): Route {
  return route(listAccessibleNodes, async ({ query }, context) => {
    const at = { q: deps.db.read, now: now(deps.clock) }
    const visibility = await visibleNodes(at, callerOf(context))
    const { items, total } = await repo.listNodes(deps.db.read, { ...query, visibility })
    return { items: items.map((row) => nodeView(row, deps)), total }
  })
}

function get(deps: NodeDeps): Route {
  return route(getNode, async ({ params }, context) => {
    const row = (await repo.findNode(deps.db.read, params.nodeId)) ?? context.fail('NODE_NOT_FOUND', GONE)
    return { ...nodeView(row, deps), servers: await repo.serversOfNode(deps.db.read, row.id) }
  })
}

function create(deps: NodeDeps): Route {
  const { db, bus, audit, clock } = deps
  return route(createNode, ({ body }, context) => {
    const fields = newNodeFields(body)
    return db.write(async (tx) => {
      const id = newId('node', clock)
      const row = { id, ...fields, ...NOT_SEEN, createdAt: tx.now, updatedAt: tx.now }
      await repo.insertNode(tx.q, row).catch((error: unknown) => {
        if (isForeignKeyViolation(error)) return context.fail('LOCATION_NOT_FOUND', NO_LOCATION)
        if (uniqueViolation(error) === undefined) throw error
        return context.fail('NODE_NAME_TAKEN', `There is a node named ${fields.name} already`)
      })
      await audit.record(tx, context.actor, {
        action: 'node.create',
        resource: 'node',
        resourceId: id,
        details: { ...fields },
      })
      await bus.append(tx, {
        type: 'node_created',
        data: {
          nodeId: id,
          nodeName: fields.name,
          locationId: fields.locationId,
          createdBy: context.caller?.userId ?? null,
        },
      })
      return nodeView((await repo.findNode(tx.q, id)) ?? missing(id), deps)
    })
  })
}

function update(deps: NodeDeps): Route {
  const { db, bus, audit } = deps
  return route(updateNode, ({ params: { nodeId }, body }, context) => {
    const fields = editedFields(body)
    return db.write(async (tx) => {
      const before = (await repo.findNode(tx.q, nodeId)) ?? context.fail('NODE_NOT_FOUND', GONE)
      if (fields.defaultIp !== undefined && isUnspecified(fields.defaultIp))
        throw fieldError('body.defaultIp', await oneOfItsAddresses(tx.q, nodeId))
      const details = changes({ ...before }, fields)
      if (details === undefined) return nodeView(before, deps)
      await repo.updateNode(tx.q, nodeId, { ...fields, updatedAt: tx.now }).catch((error: unknown) => {
        if (isForeignKeyViolation(error)) return context.fail('LOCATION_NOT_FOUND', NO_LOCATION)
        if (uniqueViolation(error) === undefined) throw error
        return context.fail('NODE_NAME_TAKEN', `There is a node named ${fields.name} already`)
      })
      await audit.record(tx, context.actor, { action: 'node.update', resource: 'node', resourceId: nodeId, details })
      await bus.append(tx, { type: 'node_updated', data: { nodeId, updatedBy: context.caller?.userId ?? null } })
      return nodeView((await repo.findNode(tx.q, nodeId)) ?? missing(nodeId), deps)
    })
  })
}

function maintenance(deps: NodeDeps): Route {
  const { db, bus, audit } = deps
  return route(setNodeMaintenance, ({ params: { nodeId }, body: { enabled } }, context) =>
    db.write(async (tx) => {
      const before = (await repo.findNode(tx.q, nodeId)) ?? context.fail('NODE_NOT_FOUND', GONE)
      if ((before.maintenance === 1) === enabled) return nodeView(before, deps)
      await repo.updateNode(tx.q, nodeId, { maintenance: enabled ? 1 : 0, updatedAt: tx.now })
      await audit.record(tx, context.actor, {
        action: 'node.maintenance',
        resource: 'node',
        resourceId: nodeId,
        details: { name: before.name, enabled: { before: !enabled, after: enabled } },
      })
      await bus.append(tx, { type: 'node_updated', data: { nodeId, updatedBy: context.caller?.userId ?? null } })
      return nodeView((await repo.findNode(tx.q, nodeId)) ?? missing(nodeId), deps)
    }),
  )
}

function remove({ db, bus, audit, keys }: NodeDeps): Route {
  return route(deleteNode, ({ params: { nodeId } }, context) =>
    db.write(async (tx) => {
      const hadKey = await keys.revoke(tx, nodeId)
      const deleted = await repo.deleteNode(tx.q, nodeId).catch((error: unknown) => {
        if (!isForeignKeyViolation(error)) throw error
        return context.fail('NODE_IN_USE', 'The node has servers; delete them first')
      })
      const { name } = deleted ?? context.fail('NODE_NOT_FOUND', GONE)
      await audit.record(tx, context.actor, {
        action: 'node.delete',
        resource: 'node',
        resourceId: nodeId,
        details: { name },
      })
      await bus.append(tx, {
        type: 'node_deleted',
        data: { nodeId, nodeName: name, deletedBy: context.caller?.userId ?? null },
      })
      return { deletedApiKeys: hadKey ? 1 : 0 }
    }),
  )
}

function stats({ db, isOnline, health }: NodeDeps): Route {
  return route(getNodeStats, async ({ params }, context) => {
    const row = (await repo.findNode(db.read, params.nodeId)) ?? context.fail('NODE_NOT_FOUND', GONE)
    const usageOf = await repo.nodeUsage(db.read, [row.id])
    return nodeStats(row, { usage: usageOf(row.id), isOnline: isOnline(row.id), report: health(row.id) })
  })
}

const NO_LOCATION = 'There is no location with this id'

/** What only an agent can tell, before the first one has. */
const NOT_SEEN = {
  maintenance: 0,
  isOnline: 0,
  lastSeenAt: null,
  agentVersion: null,
  os: null,
  arch: null,
  runtimes: '[]',
  addresses: '[]',
  journalId: null,
  eventAck: 0,
  machineId: null,
  machineBootId: null,
} as const

function missing(id: string): never {
  throw new Error(`node ${id} is gone within the transaction that wrote it`)
}
