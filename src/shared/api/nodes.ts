import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { LocationId, NodeId, ServerId } from '../kernel/ids.ts'
import { pageQuery } from '../kernel/page.ts'
import { MOST_PORT_RANGES, PortRange } from '../kernel/ports.ts'
import { ServerStatus } from '../kernel/server-life.ts'
import { OneLine } from '../kernel/setting-values.ts'
import { IsoTime } from '../kernel/time.ts'
import { RuntimeReport } from '../protocol/node.ts'

const Name = OneLine.trim().min(1).max(100)
const Address = OneLine.trim().min(1).max(255)
const Ip = z.union([z.ipv4(), z.ipv6()], 'must be an IP address')

/** online, offline (silent for 30 s), stale (offline for more than 5 min), maintenance. */
export const NodeStatus = z.enum(['online', 'offline', 'stale', 'maintenance'])
export type NodeStatus = z.infer<typeof NodeStatus>

/** A machine that hosts servers. Never with its key. */
export const Node = z.object({
  id: NodeId,
  name: z.string(),
  description: z.string().nullable(),
  locationId: LocationId,
  location: z.object({ id: LocationId, name: z.string() }),
  hostname: z.string(),
  publicAddress: z.string(),
  /** The address that a server without `primaryIp` is given. */
  defaultIp: z.string(),
  /** From which ports its servers get theirs when none is asked for, in this order; empty: 25565 to 29999. */
  portRanges: z.array(PortRange).default([]),
  maxMemoryMb: z.int(),
  maxCpuCores: z.number(),
  /** Percent above the maximum that may be given to servers; -1: no limit. */
  memoryOverallocatePercent: z.int(),
  cpuOverallocatePercent: z.int(),
  status: NodeStatus,
  isOnline: z.boolean(),
  lastSeenAt: IsoTime.nullable(),
  agentVersion: z.string().nullable(),
  os: z.string().nullable(),
  arch: z.string().nullable(),
  runtimes: z.array(RuntimeReport),
  addresses: z.array(z.string()),
  serverCount: z.int(),
  createdAt: IsoTime,
  updatedAt: IsoTime,
})
export type Node = z.infer<typeof Node>

const nodeBody = {
  name: Name,
  description: z.string().max(500).nullish(),
  locationId: LocationId,
  hostname: Address.optional(),
  publicAddress: Address.optional(),
  defaultIp: Ip.optional(),
  portRanges: z.array(PortRange).max(MOST_PORT_RANGES).optional(),
  maxMemoryMb: z.int().min(16).max(1_073_741_824),
  maxCpuCores: z.number().min(0.1).max(4096),
  memoryOverallocatePercent: z.int().min(-1).max(10_000).optional(),
  cpuOverallocatePercent: z.int().min(-1).max(10_000).optional(),
}

/** The rows of a node's servers in its detail. */
const NodeServer = z.object({ id: ServerId, uuid: z.string(), name: z.string(), status: ServerStatus })

const nodeQuery = pageQuery().extend({ search: z.string().max(200).optional(), locationId: LocationId.optional() })

export const listNodes = defineEndpoint({
  id: 'nodes.list',
  tag: 'Nodes',
  summary: 'List nodes by name',
  method: 'GET',
  path: '/api/nodes',
  access: { panel: 'node.read' },
  query: nodeQuery,
  response: z.array(Node),
  paged: true,
  cached: true,
})

export const listAdminNodes = defineEndpoint({
  id: 'nodes.list_admin',
  tag: 'Admin',
  summary: 'List all nodes with what is given to their servers',
  method: 'GET',
  path: '/api/admin/nodes',
  access: { panel: 'node.read' },
  query: nodeQuery,
  response: z.array(
    Node.extend({ allocatedMemoryMb: z.int(), allocatedCpuCores: z.number(), runningServers: z.int() }),
  ),
  paged: true,
  cached: true,
})

export const getNode = defineEndpoint({
  id: 'nodes.get',
  tag: 'Nodes',
  summary: 'Show a node with its servers',
  method: 'GET',
  path: '/api/nodes/:nodeId',
  access: { node: 'node.read' },
  params: { nodeId: NodeId },
  response: Node.extend({ servers: z.array(NodeServer) }),
  errors: ['NODE_NOT_FOUND'],
  cached: true,
})

export const createNode = defineEndpoint({
  id: 'nodes.create',
  tag: 'Nodes',
  summary: 'Add a node; an agent enrols for it afterwards',
  method: 'POST',
  path: '/api/nodes',
  access: { panel: 'node.create' },
  body: z.object(nodeBody),
  ignores: ['serverDataDir'],
  response: Node,
  status: 201,
  errors: ['LOCATION_NOT_FOUND', 'NODE_NAME_TAKEN'],
  audit: { action: 'node.create' },
})

export const updateNode = defineEndpoint({
  id: 'nodes.update',
  tag: 'Nodes',
  summary: 'Edit a node',
  method: 'PUT',
  path: '/api/nodes/:nodeId',
  access: { node: 'node.update' },
  params: { nodeId: NodeId },
  body: z.object(nodeBody).partial(),
  ignores: ['serverDataDir'],
  response: Node,
  errors: ['NODE_NOT_FOUND', 'LOCATION_NOT_FOUND', 'NODE_NAME_TAKEN'],
  audit: { action: 'node.update' },
})

/** A node in maintenance takes no new servers, and alerts keep quiet about it and its servers; what runs there runs on. */
export const setNodeMaintenance = defineEndpoint({
  id: 'nodes.maintenance',
  tag: 'Nodes',
  summary: 'Begin or end the maintenance of a node',
  method: 'PUT',
  path: '/api/nodes/:nodeId/maintenance',
  access: { node: 'node.update' },
  params: { nodeId: NodeId },
  body: z.object({ enabled: z.boolean() }),
  response: Node,
  errors: ['NODE_NOT_FOUND'],
  audit: { action: 'node.maintenance' },
})

export const deleteNode = defineEndpoint({
  id: 'nodes.delete',
  tag: 'Nodes',
  summary: 'Delete a node that has no servers, with its keys and allocations',
  method: 'DELETE',
  path: '/api/nodes/:nodeId',
  access: { node: 'node.delete' },
  params: { nodeId: NodeId },
  /** How many keys of agents went with it. */
  response: z.object({ deletedApiKeys: z.int() }),
  errors: ['NODE_NOT_FOUND', 'NODE_IN_USE'],
  audit: { action: 'node.delete' },
})

const Percent = z.number().nullable()

/** The stats of a node; `null` where there are none, or where overallocation is unlimited. */
export const NodeStats = z.object({
  nodeId: NodeId,
  isOnline: z.boolean(),
  lastSeenAt: IsoTime.nullable(),
  resources: z.object({
    maxMemoryMb: z.int(),
    maxCpuCores: z.number(),
    memoryOverallocatePercent: z.int(),
    cpuOverallocatePercent: z.int(),
    effectiveMaxMemoryMb: z.number().nullable(),
    effectiveMaxCpuCores: z.number().nullable(),
    allocatedMemoryMb: z.int(),
    allocatedCpuCores: z.number(),
    availableMemoryMb: z.number().nullable(),
    availableCpuCores: z.number().nullable(),
    memoryUsagePercent: Percent,
    cpuUsagePercent: Percent,
    actualMemoryUsageMb: z.number().nullable(),
    actualMemoryTotalMb: z.number().nullable(),
    actualCpuPercent: Percent,
    actualDiskUsageMb: z.number().nullable(),
    actualDiskTotalMb: z.number().nullable(),
  }),
  servers: z.object({ total: z.int(), running: z.int(), stopped: z.int() }),
  lastMetricsUpdate: IsoTime.nullable(),
})
export type NodeStats = z.infer<typeof NodeStats>

export const getNodeStats = defineEndpoint({
  id: 'nodes.stats',
  tag: 'Nodes',
  summary: 'Show what a node has, has given away and uses',
  method: 'GET',
  path: '/api/nodes/:nodeId/stats',
  access: { node: 'node.view_stats' },
  params: { nodeId: NodeId },
  response: NodeStats,
  errors: ['NODE_NOT_FOUND'],
})

export const createDeploymentToken = defineEndpoint({
  id: 'nodes.deployment_token',
  tag: 'Nodes',
  summary: 'Make a one-time enrolment token for an agent',
  method: 'POST',
  path: '/api/nodes/:nodeId/deployment-token',
  access: { node: 'node.rotate_key' },
  params: { nodeId: NodeId },
  body: z.object({ ttlSeconds: z.int().min(60).max(604_800).default(3600) }).prefault({}),
  response: z.object({
    deploymentToken: z.string(),
    expiresAt: IsoTime,
    /** What to run on the machine; the token goes in by standard input. */
    command: z.string(),
    deployUrl: z.null(),
  }),
  status: 201,
  errors: ['NODE_NOT_FOUND'],
  audit: { action: 'node.token_create' },
})

/** What may be shown of a node's key. */
const NodeKey = z.object({ id: z.string(), preview: z.string(), createdAt: IsoTime, lastUsedAt: IsoTime.nullable() })

export const getNodeKey = defineEndpoint({
  id: 'nodes.key_get',
  tag: 'Nodes',
  summary: 'Show whether a node has a key',
  method: 'GET',
  path: '/api/nodes/:nodeId/api-key',
  access: { node: 'node.read' },
  params: { nodeId: NodeId },
  response: z.object({ exists: z.boolean(), apiKey: NodeKey.nullable() }),
  errors: ['NODE_NOT_FOUND'],
})

export const createNodeKey = defineEndpoint({
  id: 'nodes.key_create',
  tag: 'Nodes',
  summary: 'Make or rotate the key of a node; the old one stops at once',
  method: 'POST',
  path: '/api/nodes/:nodeId/api-key',
  access: { node: 'node.rotate_key' },
  params: { nodeId: NodeId },
  body: z.object({ regenerate: z.boolean().default(false) }).prefault({}),
  response: z.object({ nodeId: NodeId, apiKey: z.string(), regenerated: z.boolean() }),
  status: 201,
  errors: ['NODE_NOT_FOUND', 'AGENT_KEY_EXISTS'],
  audit: { action: 'node.api_key_create' },
})

export const deleteNodeKey = defineEndpoint({
  id: 'nodes.key_delete',
  tag: 'Nodes',
  summary: 'Revoke the key of a node; its agent is cut off at once',
  method: 'DELETE',
  path: '/api/nodes/:nodeId/api-key',
  access: { node: 'node.rotate_key' },
  params: { nodeId: NodeId },
  response: NoData,
  errors: ['NODE_NOT_FOUND', 'API_KEY_NOT_FOUND'],
  audit: { action: 'node.api_key_delete' },
})

/** The entrance for a machine that joins: the one-time token is the credential, in the body. */
export const enrollAgent = defineEndpoint({
  id: 'agent.enroll',
  tag: 'Internal',
  summary: 'Exchange a one-time enrolment token for node credentials',
  method: 'POST',
  path: '/api/agent/enroll',
  access: 'public',
  lenient: 'newer agents may say more of themselves',
  body: z.object({ deploymentToken: z.string().min(1).max(200), hostname: OneLine.max(255).optional() }),
  response: z.object({ nodeId: NodeId, nodeName: z.string(), apiKey: z.string() }),
  status: 201,
  errors: ['DEPLOYMENT_TOKEN_INVALID'],
  audit: { action: 'node.enroll' },
})
