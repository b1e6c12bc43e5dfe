import { z } from 'zod'
import { defineEndpoint } from '../kernel/contract.ts'
import { CommandId, NodeId, ServerId, UserId } from '../kernel/ids.ts'
import { ServerStatus } from '../kernel/server-life.ts'
import { IsoTime } from '../kernel/time.ts'
import { SuspensionReason } from './suspension.ts'

/** Ids, each counted once. */
const ids = (max: number) =>
  z
    .array(ServerId)
    .min(1)
    .max(max)
    .transform((given) => [...new Set(given)])

/** What can be done to several servers at once. */
export const BulkAction = z.enum(['start', 'stop', 'restart', 'kill', 'suspend', 'unsuspend', 'delete'])
export type BulkAction = z.infer<typeof BulkAction>

/** What became of one target. `skipped`: it was there, or on its way there, already. */
export const BulkResult = z.object({
  serverId: ServerId,
  status: z.enum(['success', 'failed', 'skipped']),
  /** The order of an action that a node carries out. */
  commandId: CommandId.optional(),
  error: z.string().optional(),
  code: z.string().optional(),
})
export type BulkResult = z.infer<typeof BulkResult>

export const bulkServerActions = defineEndpoint({
  id: 'servers.bulk_actions',
  tag: 'Admin',
  summary: 'Start, stop, restart, kill, suspend, unsuspend or delete several servers',
  method: 'POST',
  path: '/api/admin/servers/actions',
  /** Then each target needs what the action needs on it; 403 when none has it. */
  access: { anyOf: ['server.start', 'server.stop', 'server.suspend', 'server.delete'] },
  body: z.object({ serverIds: ids(200), action: BulkAction, reason: SuspensionReason.nullish() }),
  response: z.object({
    results: z.array(BulkResult),
    summary: z.object({ success: z.int().optional(), failed: z.int().optional(), skipped: z.int().optional() }),
  }),
  errors: ['NOT_FOUND', 'PERMISSION_DENIED'],
  /** One row for each target that was acted on: `server.bulk_start` and so on. */
  audit: { action: 'server.bulk_suspend' },
})

/** What became of the targets of one action. */
const BulkOutcome = z.object({
  success: z.array(ServerId),
  failed: z.array(z.object({ id: ServerId, error: z.string(), code: z.string() })),
  summary: z.object({ total: z.int(), succeeded: z.int(), failed: z.int() }),
})

export const bulkSuspend = defineEndpoint({
  id: 'servers.bulk_suspend',
  tag: 'Servers',
  summary: 'Suspend several servers; one that is not there fails alone',
  method: 'POST',
  path: '/api/servers/bulk/suspend',
  access: { panel: 'server.suspend' },
  body: z.object({
    serverIds: ids(100),
    reason: SuspensionReason.nullish(),
    stopServer: z.boolean().default(true),
  }),
  response: BulkOutcome,
  audit: { action: 'server.bulk_suspend' },
})

export const bulkUnsuspend = defineEndpoint({
  id: 'servers.bulk_unsuspend',
  tag: 'Servers',
  summary: 'End the suspension of several servers; one that is not there fails alone',
  method: 'POST',
  path: '/api/servers/bulk/unsuspend',
  access: { panel: 'server.suspend' },
  body: z.object({ serverIds: ids(100) }),
  response: BulkOutcome,
  audit: { action: 'server.bulk_unsuspend' },
})

const bulkDeletion = {
  tag: 'Servers',
  access: { panel: 'server.delete' },
  body: z.object({ serverIds: ids(100) }),
  response: BulkOutcome,
  audit: { action: 'server.bulk_delete' },
} as const

export const bulkDelete = defineEndpoint({
  ...bulkDeletion,
  id: 'servers.bulk_delete',
  summary: 'Delete several servers and their files; one that is not there fails alone',
  method: 'POST',
  path: '/api/servers/bulk/delete',
})

export const bulkRemove = defineEndpoint({
  ...bulkDeletion,
  id: 'servers.bulk_remove',
  summary: 'Delete several servers (the same as POST /api/servers/bulk/delete)',
  method: 'DELETE',
  path: '/api/servers/bulk',
})

/** The state of one server, or that there is none that the caller may see. */
export const BulkStatus = z.union([
  z.object({
    id: ServerId,
    name: z.string(),
    status: ServerStatus,
    suspendedAt: IsoTime.nullable(),
    suspensionReason: z.string().nullable(),
    allocatedMemoryMb: z.int(),
    allocatedCpuCores: z.number(),
    primaryPort: z.int(),
    primaryIp: z.string(),
    nodeId: NodeId,
    createdAt: IsoTime,
    ownerId: UserId,
  }),
  z.object({ id: ServerId, status: z.literal('not_found') }),
])
export type BulkStatus = z.infer<typeof BulkStatus>

export const bulkStatus = defineEndpoint({
  id: 'servers.bulk_status',
  tag: 'Servers',
  summary: 'Show the state of several servers, in the order in which they were asked for',
  method: 'POST',
  path: '/api/servers/bulk/status',
  access: 'session',
  body: z.object({ serverIds: z.array(ServerId).min(1).max(200) }),
  response: z.array(BulkStatus),
  audit: { none: 'it only reads; the ids would not fit into a query' },
})
