import * as api from '../../../../shared/api/nodes.ts'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { changes } from '../../../access/audit.ts'
import { type OperationDeps, operationsOver } from '../../../access/operation.ts'
import { isForeignKeyViolation, uniqueViolation } from '../../../db/db.ts'
import { isUnspecified } from './addresses.ts'
import { editedFields, newNodeFields } from './fields.ts'
import type { NodeKeys } from './keys.ts'
import { oneOfItsAddresses } from './own-addresses.ts'
import { portRangesOf } from './port-ranges.ts'
import * as rows from './rows.ts'
import { nodeView, type Presence } from './view.ts'

/** What the operations of nodes need. */
export interface NodeOperationDeps extends OperationDeps, Presence {
  readonly keys: NodeKeys
}

export const GONE = 'There is no node with this id'
const NO_LOCATION = 'There is no location with this id'

/** What only an agent can report, before the first one has. */
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

const operation = operationsOver<NodeOperationDeps>()

export const createNode = operation(api.createNode, async ({ tx, deps, userId, fail }, { body }) => {
  const fields = newNodeFields(body)
  const id = newId('node', deps.clock)
  const row = { id, ...fields, ...NOT_SEEN, createdAt: tx.now, updatedAt: tx.now }
  await rows.insertNode(tx.q, row).catch((error: unknown) => {
    if (isForeignKeyViolation(error)) return fail('LOCATION_NOT_FOUND', NO_LOCATION)
    if (uniqueViolation(error) === undefined) throw error
    return fail('NODE_NAME_TAKEN', `There is a node named ${fields.name} already`)
  })
  const data = { nodeId: id, nodeName: fields.name, locationId: fields.locationId, createdBy: userId }
  return {
    answer: nodeView((await rows.findNode(tx.q, id)) ?? missing(id), deps),
    audit: { resourceId: id, details: { ...fields, portRanges: portRangesOf(fields) } },
    events: [{ type: 'node_created', data }],
  }
})

export const updateNode = operation(
  api.updateNode,
  async ({ tx, deps, userId, fail }, { params: { nodeId }, body }) => {
    const fields = editedFields(body)
    const before = (await rows.findNode(tx.q, nodeId)) ?? fail('NODE_NOT_FOUND', GONE)
    if (fields.defaultIp !== undefined && isUnspecified(fields.defaultIp)) {
      throw fieldError('body.defaultIp', await oneOfItsAddresses(tx.q, nodeId))
    }
    const details = changes({ ...before }, fields)
    if (details === undefined) return { answer: nodeView(before, deps) }
    await rows.updateNode(tx.q, nodeId, { ...fields, updatedAt: tx.now }).catch((error: unknown) => {
      if (isForeignKeyViolation(error)) return fail('LOCATION_NOT_FOUND', NO_LOCATION)
      if (uniqueViolation(error) === undefined) throw error
      return fail('NODE_NAME_TAKEN', `There is a node named ${fields.name} already`)
    })
    return {
      answer: nodeView((await rows.findNode(tx.q, nodeId)) ?? missing(nodeId), deps),
      audit: { resourceId: nodeId, details: shown(details) },
      events: [{ type: 'node_updated', data: { nodeId, updatedBy: userId } }],
    }
  },
)

export const setNodeMaintenance = operation(
  api.setNodeMaintenance,
  async ({ tx, deps, userId, fail }, { params: { nodeId }, body: { enabled } }) => {
    const before = (await rows.findNode(tx.q, nodeId)) ?? fail('NODE_NOT_FOUND', GONE)
    if ((before.maintenance === 1) === enabled) return { answer: nodeView(before, deps) }
    await rows.updateNode(tx.q, nodeId, { maintenance: enabled ? 1 : 0, updatedAt: tx.now })
    const details = { name: before.name, enabled: { before: !enabled, after: enabled } }
    return {
      answer: nodeView((await rows.findNode(tx.q, nodeId)) ?? missing(nodeId), deps),
      audit: { resourceId: nodeId, details },
      events: [{ type: 'node_updated', data: { nodeId, updatedBy: userId } }],
    }
  },
)

export const deleteNode = operation(api.deleteNode, async ({ tx, deps, userId, fail }, { params: { nodeId } }) => {
  const hadKey = await deps.keys.revoke(tx, nodeId)
  const deleted = await rows.deleteNode(tx.q, nodeId).catch((error: unknown) => {
    if (!isForeignKeyViolation(error)) throw error
    return fail('NODE_IN_USE', 'The node has servers; delete them first')
  })
  const { name } = deleted ?? fail('NODE_NOT_FOUND', GONE)
  return {
    answer: { deletedApiKeys: hadKey ? 1 : 0 },
    audit: { resourceId: nodeId, details: { name } },
    events: [{ type: 'node_deleted', data: { nodeId, nodeName: name, deletedBy: userId } }],
  }
})

/** Ranges of ports as they are, not as the database keeps them. */
function shown(details: Readonly<Record<string, { before: unknown; after: unknown }>>): Record<string, unknown> {
  const { portRanges, ...others } = details
  if (portRanges === undefined) return others
  const ranges = (text: unknown) => portRangesOf({ portRanges: String(text) })
  return { ...others, portRanges: { before: ranges(portRanges.before), after: ranges(portRanges.after) } }
}

function missing(id: string): never {
  throw new Error(`node ${id} is gone within the transaction that wrote it`)
}
