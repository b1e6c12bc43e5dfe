import { z } from 'zod'
import { defineEndpoint } from '../kernel/contract.ts'
import { NodeId, ServerId, TemplateId, UserId } from '../kernel/ids.ts'
import { PowerState } from '../kernel/server-life.ts'
import { OneLine } from '../kernel/setting-values.ts'

/** A server, or what is left of one, that a node has and this panel has no record of. */
export const Orphan = z.object({
  serverId: ServerId,
  /** Its name on the node; `null`: only folders are left. */
  name: z.string().nullable(),
  power: PowerState,
  pid: z.int().nullable(),
  hasFiles: z.boolean(),
})
export type Orphan = z.infer<typeof Orphan>

/** A list of them has no more; what runs is never left out for the sake of folders. */
export const MOST_ORPHANS = 10_000

const params = { nodeId: NodeId, serverId: ServerId }

export const listOrphans = defineEndpoint({
  id: 'nodes.orphans',
  tag: 'Nodes',
  summary: 'List what a node has of servers that this panel has no record of, what runs first; at most 10000',
  method: 'GET',
  path: '/api/nodes/:nodeId/orphans',
  access: { node: 'node.read' },
  params: { nodeId: NodeId },
  response: z.array(Orphan),
  errors: ['NODE_NOT_FOUND', 'NODE_OFFLINE', 'AGENT_TIMEOUT', 'AGENT_ERROR', 'AGENT_VERSION'],
})

export const adoptOrphan = defineEndpoint({
  id: 'nodes.orphan_adopt',
  tag: 'Nodes',
  summary: 'Make a server of what a node has: its name, sizes, address and variables are those that the node knows',
  method: 'POST',
  path: '/api/nodes/:nodeId/orphans/:serverId/adopt',
  access: { panel: 'admin.write' },
  params,
  body: z
    .object({
      name: OneLine.trim().min(1).max(100).optional(),
      /** Needed where the node does not know it, or where it is gone. */
      templateId: TemplateId.optional(),
      /** The caller without it. */
      ownerId: UserId.optional(),
    })
    .prefault({}),
  /** `conflicts`: what could not be taken over, and what the template does otherwise than the node until now, in sentences. */
  response: z.object({ serverId: ServerId, name: z.string(), conflicts: z.array(z.string()) }),
  status: 201,
  errors: [
    'NODE_NOT_FOUND', 'SERVER_NOT_FOUND', 'TEMPLATE_NOT_FOUND', 'USER_NOT_FOUND', 'CONFLICT', 'SERVER_NAME_TAKEN', 'PORT_IN_USE', 'NODE_OFFLINE',
    'AGENT_TIMEOUT', 'AGENT_ERROR', 'AGENT_VERSION',
  ], // biome-ignore format: a list
  audit: { action: 'server.adopt' },
})

export const purgeOrphan = defineEndpoint({
  id: 'nodes.orphan_purge',
  tag: 'Nodes',
  summary: 'End the processes of what a node has of a server without a record, and delete its files',
  method: 'POST',
  path: '/api/nodes/:nodeId/orphans/:serverId/purge',
  access: { panel: 'admin.write' },
  params,
  response: z.object({ commandId: z.string() }),
  status: 202,
  errors: [
    'NODE_NOT_FOUND',
    'SERVER_NOT_FOUND',
    'CONFLICT',
    'NODE_OFFLINE',
    'AGENT_TIMEOUT',
    'AGENT_ERROR',
    'AGENT_VERSION',
  ],
  audit: { action: 'node.orphan_purge' },
})
