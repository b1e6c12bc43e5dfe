import { z } from 'zod'
import type { WebhookEvent } from '../../../../shared/kernel/webhook-events.ts'
import type { CommittingEvent } from '../../../core/bus.ts'
import type { Tx } from '../../../db/db.ts'

/** What is sent of an event, before it gets the shape of a format. */
export const Payload = z.object({
  event: z.string(),
  serverId: z.string().optional(),
  serverName: z.string().optional(),
  /** Who did it; `null`: the panel or an agent. */
  userId: z.string().nullable(),
  timestamp: z.string(),
  data: z.record(z.string(), z.unknown()),
})
export type Payload = z.infer<typeof Payload>

type Data = Readonly<Record<string, unknown>>

/** Which webhook event each written event is. Names, because some are written by later parts of the panel. */
const NAMES: Readonly<Record<string, WebhookEvent | ((data: Data) => WebhookEvent | undefined)>> = {
  alert_created: 'alert.created',
  alert_resolved: 'alert.resolved',
  auth_lockout_created: 'auth.locked_out',
  backup_complete: ({ status }) => (status === 'failed' ? 'backup.failed' : 'backup.completed'),
  backup_policy_run_ended: ({ status }) =>
    status === 'completed' ? 'backup_policy.completed' : status === 'failed' ? 'backup_policy.failed' : undefined,
  node_created: 'node.created',
  node_deleted: 'node.deleted',
  node_updated: ({ isOnline }) =>
    isOnline === undefined ? undefined : isOnline === true ? 'node.online' : 'node.offline',
  server_created: 'server.created',
  server_deleted: 'server.deleted',
  server_state_update: (data) => stateEvent(data),
  server_suspended: 'server.suspended',
  server_unsuspended: 'server.unsuspended',
  server_updated: 'server.updated',
  system_error: 'system.error',
  user_created: 'user.created',
  user_deleted: 'user.deleted',
}

/** The webhook event that a written event is; `undefined` for those that webhooks do not get. */
export function webhookEventOf({ type, data }: Pick<CommittingEvent, 'type' | 'data'>): WebhookEvent | undefined {
  const name = NAMES[type]
  return typeof name === 'function' ? name(data) : name
}

/** What webhooks get of the event. */
export async function payloadOf(tx: Tx, name: WebhookEvent, event: CommittingEvent): Promise<Payload> {
  const { serverId, data, timestamp } = event
  const server = serverId === null ? {} : { serverId, ...(await serverName(tx, serverId, data)) }
  return { event: name, ...server, userId: actorOf(data), timestamp, data: { ...data, ...(await nodeName(tx, event)) } }
}

function stateEvent({ state, previousState }: Data): WebhookEvent | undefined {
  if (state === previousState) return undefined
  if (state === 'crashed') return 'server.crashed'
  if (state === 'running') return 'server.started'
  return state === 'stopped' ? 'server.stopped' : undefined
}

async function serverName(tx: Tx, serverId: string, data: Data): Promise<{ serverName?: string }> {
  if (typeof data['serverName'] === 'string') return { serverName: data['serverName'] }
  const row = await tx.q.selectFrom('server').select('name').where('id', '=', serverId).executeTakeFirst()
  return row === undefined ? {} : { serverName: row.name }
}

/** That a node came or went says which by its id; people know names. */
async function nodeName(tx: Tx, { type, data }: CommittingEvent): Promise<{ nodeName?: string }> {
  if (type !== 'node_updated') return {}
  const row = await tx.q.selectFrom('node').select('name').where('id', '=', String(data['nodeId'])).executeTakeFirst()
  return row === undefined ? {} : { nodeName: row.name }
}

/** The field in which each event says who did it. */
function actorOf(data: Data): string | null {
  const names = ['createdBy', 'updatedBy', 'deletedBy', 'suspendedBy', 'unsuspendedBy', 'resolvedBy']
  for (const name of names) if (typeof data[name] === 'string') return data[name]
  return null
}
