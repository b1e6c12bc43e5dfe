import { z } from 'zod'
import { defineStream } from '../kernel/contract.ts'
import { ResourceStats } from '../kernel/events.ts'
import { NodeId, ServerId } from '../kernel/ids.ts'

export const streamServerMetrics = defineStream({
  id: 'servers.metrics_stream',
  tag: 'Servers',
  summary: 'Follow what a server uses',
  path: '/api/servers/:serverId/metrics/stream',
  access: { server: ['server.read'] },
  params: { serverId: ServerId },
  events: { resource_stats: ResourceStats },
  errors: ['SERVER_NOT_FOUND', 'SERVER_SUSPENDED', 'STREAM_LIMIT_REACHED'],
})

/** The usage of a machine as its agent reports it. */
export const NodeUsage = z.object({
  nodeId: z.string(),
  cpuPercent: z.number(),
  load1: z.number(),
  memoryUsageMb: z.number(),
  memoryTotalMb: z.number(),
  diskUsageMb: z.number(),
  diskTotalMb: z.number(),
  /** Counters since the machine started. */
  networkRxBytes: z.string(),
  networkTxBytes: z.string(),
  /** Between the last two reports; `null` before there are two. */
  networkRxBytesPerSecond: z.number().nullable(),
  networkTxBytesPerSecond: z.number().nullable(),
  runningServers: z.int(),
  uptimeSeconds: z.number(),
})
export type NodeUsage = z.infer<typeof NodeUsage>

export const streamNodeMetrics = defineStream({
  id: 'nodes.metrics_stream',
  tag: 'Nodes',
  summary: 'Follow what a node uses',
  path: '/api/nodes/:nodeId/metrics/stream',
  access: { node: 'node.view_stats' },
  params: { nodeId: NodeId },
  events: { node_stats: NodeUsage },
  errors: ['NODE_NOT_FOUND', 'STREAM_LIMIT_REACHED'],
})
