import { z } from 'zod'
import { defineEndpoint } from '../kernel/contract.ts'
import { ServerId } from '../kernel/ids.ts'
import { Server } from './servers.ts'

const serverPin = {
  tag: 'Servers',
  method: 'POST',
  access: { server: ['server.update'] },
  params: { serverId: ServerId },
  response: Server,
  errors: ['SERVER_NOT_FOUND', 'SERVER_SUSPENDED', 'SERVER_INVALID_STATE', 'PERMISSION_DENIED', 'CONFLICT'],
} as const

export const pinServer = defineEndpoint({
  ...serverPin,
  id: 'servers.pin',
  summary: 'Keep the template of a server as it is now: edits of it reach the server no more (needs admin.write)',
  path: '/api/servers/:serverId/pin',
  /** `refresh`: a server that is pinned takes over what its template has become; without it nothing changes. */
  body: z.object({ refresh: z.boolean().default(false) }).prefault({}),
  audit: { action: 'server.pin' },
})

export const unpinServer = defineEndpoint({
  ...serverPin,
  id: 'servers.unpin',
  summary: 'Let edits of its template reach a server again, from its next start on (needs admin.write)',
  path: '/api/servers/:serverId/unpin',
  audit: { action: 'server.unpin' },
})
