import { z } from 'zod'
import { defineEndpoint } from '../kernel/contract.ts'
import { ServerId } from '../kernel/ids.ts'
import { Server } from './servers.ts'

/** Why a server is suspended; members of the server are shown it. */
export const SuspensionReason = z.string().trim().min(1).max(500)

const params = { serverId: ServerId }

export const suspendServer = defineEndpoint({
  id: 'servers.suspend',
  tag: 'Servers',
  summary: 'Suspend a server: it is stopped, and refuses everything but reads until it is unsuspended',
  method: 'POST',
  path: '/api/servers/:serverId/suspend',
  access: { server: ['server.suspend'] },
  params,
  /** `stopServer: false` lets it run on until it ends; it is not started again then. */
  body: z.object({ reason: SuspensionReason.nullish(), stopServer: z.boolean().default(true) }).prefault({}),
  response: Server,
  errors: ['SERVER_NOT_FOUND', 'SERVER_ALREADY_SUSPENDED', 'SERVER_INVALID_STATE'],
  audit: { action: 'server.suspend' },
})

export const unsuspendServer = defineEndpoint({
  id: 'servers.unsuspend',
  tag: 'Servers',
  summary: 'End the suspension of a server; it is not started by that',
  method: 'POST',
  path: '/api/servers/:serverId/unsuspend',
  access: { server: ['server.suspend'] },
  params,
  response: Server,
  errors: ['SERVER_NOT_FOUND', 'SERVER_NOT_SUSPENDED', 'SERVER_INVALID_STATE'],
  audit: { action: 'server.unsuspend' },
})
