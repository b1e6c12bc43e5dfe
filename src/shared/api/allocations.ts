import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { AllocationId, NodeId, ServerId } from '../kernel/ids.ts'
import { pageQuery } from '../kernel/page.ts'
import { PortProtocol, PortRole } from '../kernel/ports.ts'
import { ServerStatus } from '../kernel/server-life.ts'
import { IsoTime } from '../kernel/time.ts'

/** An address and port of a node, TCP and UDP; it belongs to at most one server. */
export const Allocation = z.object({
  id: AllocationId,
  nodeId: NodeId,
  serverId: ServerId.nullable(),
  server: z.object({ id: ServerId, name: z.string(), status: ServerStatus }).nullable(),
  ip: z.string(),
  port: z.int(),
  alias: z.string().nullable(),
  notes: z.string().nullable(),
  /** What its server calls it and has it for; `null` for a primary one, and without a server. */
  name: z.string().nullable().default(null),
  role: PortRole.nullable().default(null),
  protocol: PortProtocol.nullable().default(null),
  createdAt: IsoTime,
  updatedAt: IsoTime,
})
export type Allocation = z.infer<typeof Allocation>

const allocationNote = { alias: z.string().max(255).nullish(), notes: z.string().max(1000).nullish() }

export const listAllocations = defineEndpoint({
  id: 'allocations.list',
  tag: 'Nodes',
  summary: 'List the allocations of a node by address and port',
  method: 'GET',
  path: '/api/nodes/:nodeId/allocations',
  access: { node: 'node.manage_allocation' },
  params: { nodeId: NodeId },
  query: pageQuery().extend({
    search: z.string().max(200).optional(),
    serverId: ServerId.optional(),
    assigned: z.enum(['true', 'false']).optional(),
  }),
  response: z.array(Allocation),
  paged: true,
  errors: ['NODE_NOT_FOUND'],
})

export const createAllocations = defineEndpoint({
  id: 'allocations.create',
  tag: 'Nodes',
  summary: 'Add addresses and ports to a node; those that exist are left as they are',
  method: 'POST',
  path: '/api/nodes/:nodeId/allocations',
  access: { node: 'node.manage_allocation' },
  params: { nodeId: NodeId },
  /** `ip`: addresses or CIDR ranges, `ports`: `25565,25570-25580`; at most 5,000 pairs. */
  body: z.object({ ip: z.string().min(1).max(2000), ports: z.string().min(1).max(2000), ...allocationNote }),
  response: z.object({ created: z.int(), skipped: z.int() }),
  status: 201,
  errors: ['NODE_NOT_FOUND'],
  audit: { action: 'node.allocation_create' },
})

export const updateAllocation = defineEndpoint({
  id: 'allocations.update',
  tag: 'Nodes',
  summary: 'Edit the alias and notes of an allocation',
  method: 'PATCH',
  path: '/api/nodes/:nodeId/allocations/:allocationId',
  access: { node: 'node.manage_allocation' },
  params: { nodeId: NodeId, allocationId: AllocationId },
  body: z.object(allocationNote),
  response: Allocation,
  errors: ['NODE_NOT_FOUND', 'ALLOCATION_NOT_FOUND'],
  audit: { action: 'node.allocation_update' },
})

export const deleteAllocation = defineEndpoint({
  id: 'allocations.delete',
  tag: 'Nodes',
  summary: 'Remove an allocation that no server uses',
  method: 'DELETE',
  path: '/api/nodes/:nodeId/allocations/:allocationId',
  access: { node: 'node.manage_allocation' },
  params: { nodeId: NodeId, allocationId: AllocationId },
  response: NoData,
  errors: ['NODE_NOT_FOUND', 'ALLOCATION_NOT_FOUND', 'ALLOCATION_IN_USE'],
  audit: { action: 'node.allocation_delete' },
})
