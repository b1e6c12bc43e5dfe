import { z } from 'zod'
import { defineEndpoint } from '../kernel/contract.ts'
import { IsoTime } from '../kernel/time.ts'

/** The numbers of the first page, of what the caller may see. */
export const DashboardStats = z.object({
  servers: z.int(),
  /** Servers that run. */
  serversOnline: z.int(),
  nodes: z.int(),
  nodesOnline: z.int(),
  /** Open alerts, and those that nobody has acknowledged; 0 without `alert.read`. */
  alerts: z.int(),
  alertsUnacknowledged: z.int(),
})
export type DashboardStats = z.infer<typeof DashboardStats>

export const getDashboardStats = defineEndpoint({
  id: 'dashboard.stats',
  tag: 'Dashboard',
  summary: 'Count the servers, nodes and alerts that you may see',
  method: 'GET',
  path: '/api/dashboard/stats',
  access: 'session',
  response: DashboardStats,
})

/** Something that was done, in words. */
export const DashboardActivity = z.object({
  id: z.string(),
  /** What was done: `Server start`. */
  title: z.string(),
  /** Who did it, and to what. */
  detail: z.string(),
  /** How long ago: `5m ago`. */
  time: z.string(),
  type: z.enum(['server', 'backup', 'node', 'alert', 'user']),
  action: z.string(),
  timestamp: IsoTime,
})
export type DashboardActivity = z.infer<typeof DashboardActivity>

export const getDashboardActivity = defineEndpoint({
  id: 'dashboard.activity',
  tag: 'Dashboard',
  summary: 'Show what was done last: all of it with admin.read, else your own doings',
  method: 'GET',
  path: '/api/dashboard/activity',
  access: 'session',
  query: z.object({ limit: z.coerce.number().int().min(1).max(20).default(5) }),
  response: z.array(DashboardActivity),
})

/** What the nodes use that the caller may see, by the last reports of those that are connected. */
export const DashboardResources = z.object({
  /** Share of all their cores that is busy; 0 when no node reports. */
  cpuUtilization: z.number(),
  memoryUtilization: z.number(),
  /** Always `null`: how much a network could carry is not known, so there is no share to report. */
  networkThroughput: z.null(),
  /** Bytes that the nodes received and sent per second between their last two reports; `null` before there are two. */
  networkRxBytesPerSecond: z.number().nullable(),
  networkTxBytesPerSecond: z.number().nullable(),
  /** Of how many nodes these stats are. */
  nodesReporting: z.int(),
})
export type DashboardResources = z.infer<typeof DashboardResources>

export const getDashboardResources = defineEndpoint({
  id: 'dashboard.resources',
  tag: 'Dashboard',
  summary: 'Show how busy the nodes are that you may see',
  method: 'GET',
  path: '/api/dashboard/resources',
  access: 'session',
  response: DashboardResources,
})
