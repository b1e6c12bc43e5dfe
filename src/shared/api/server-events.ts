import { z } from 'zod'
import { defineStream } from '../kernel/contract.ts'
import { CommandProgress, EVENTS, ResourceStats } from '../kernel/events.ts'
import { ServerId } from '../kernel/ids.ts'

const serverEvents = Object.fromEntries(
  Object.entries(EVENTS).flatMap(([type, kind]) => (kind.server ? [[type, kind.data]] : [])),
)

export const streamServerEvents = defineStream({
  id: 'servers.events',
  tag: 'Servers',
  summary: 'Follow the state and usage of a server, or of `all-servers`',
  path: '/api/servers/:serverId/events',
  access: { server: ['server.read'] },
  params: { serverId: ServerId },
  query: z.object({ types: z.string().max(1000).optional() }),
  events: { ...serverEvents, resource_stats: ResourceStats, server_command_progress: CommandProgress },
  errors: ['SERVER_NOT_FOUND', 'STREAM_LIMIT_REACHED'],
})
