import { z } from 'zod'
import { defineEndpoint } from '../kernel/contract.ts'
import { CommandId, ServerId } from '../kernel/ids.ts'
import { DesiredState, POWER_PERMISSIONS, PowerAction, ServerStatus } from '../kernel/server-life.ts'

const params = { serverId: ServerId }

/** What an accepted order answers: `commandId` names the command to the agent. */
export const OrderAccepted = z.object({
  action: z.string(),
  status: ServerStatus,
  desired: DesiredState,
  generation: z.int(),
  commandId: CommandId,
  /**
   * `false`: the database could not be written. The order (a stop or a kill) is in the journal of the node, and is written
   * into the database when that can be written again.
   */
  stored: z.boolean().default(true),
})
export type OrderAccepted = z.infer<typeof OrderAccepted>

const orderErrors = [
  'SERVER_NOT_FOUND',
  'SERVER_INVALID_STATE',
  'SERVER_SUSPENDED',
  'NODE_OFFLINE',
  'AGENT_VERSION',
] as const

export const powerServer = defineEndpoint({
  id: 'servers.power',
  tag: 'Servers',
  summary: 'Start, stop, restart or kill a server',
  method: 'POST',
  path: '/api/servers/:serverId/power',
  access: {
    serverByBody: {
      possible: ['server.start', 'server.stop'],
      exact: (body) => POWER_PERMISSIONS[PowerBody.parse(body).action],
    },
  },
  params,
  /** `graceSeconds` overrides how long a stop may take before signals follow. */
  body: z.object({ action: PowerAction, graceSeconds: z.int().min(0).max(600).optional() }),
  response: OrderAccepted,
  status: 202,
  errors: orderErrors,
  audit: { action: 'server.power' },
})
const PowerBody = z.object({ action: PowerAction })

const powerVerb = {
  tag: 'Servers',
  method: 'POST',
  params,
  body: z.object({ graceSeconds: z.int().min(0).max(600).optional() }).prefault({}),
  response: OrderAccepted,
  status: 202,
  errors: orderErrors,
} as const

export const startServer = defineEndpoint({
  ...powerVerb,
  id: 'servers.start',
  summary: 'Start a server',
  path: '/api/servers/:serverId/start',
  access: { server: POWER_PERMISSIONS.start },
  audit: { action: 'server.start' },
})

export const stopServer = defineEndpoint({
  ...powerVerb,
  id: 'servers.stop',
  summary: 'Stop a server',
  path: '/api/servers/:serverId/stop',
  access: { server: POWER_PERMISSIONS.stop },
  audit: { action: 'server.stop' },
})

export const restartServer = defineEndpoint({
  ...powerVerb,
  id: 'servers.restart',
  summary: 'Restart a server',
  path: '/api/servers/:serverId/restart',
  access: { server: POWER_PERMISSIONS.restart },
  audit: { action: 'server.restart' },
})

export const killServer = defineEndpoint({
  ...powerVerb,
  id: 'servers.kill',
  summary: 'Kill a server',
  path: '/api/servers/:serverId/kill',
  access: { server: POWER_PERMISSIONS.kill },
  audit: { action: 'server.kill' },
})

export const installServer = defineEndpoint({
  id: 'servers.install',
  tag: 'Servers',
  summary: 'Run the installation of a server; its files stay',
  method: 'POST',
  path: '/api/servers/:serverId/install',
  access: { server: ['server.install'] },
  params,
  body: z.object({ start: z.boolean().default(false) }).prefault({}),
  response: OrderAccepted,
  status: 202,
  errors: orderErrors,
  audit: { action: 'server.install' },
})

export const rebuildServer = defineEndpoint({
  id: 'servers.rebuild',
  tag: 'Servers',
  summary: 'Fetch the image of a server anew and remove its container; its files stay',
  method: 'POST',
  path: '/api/servers/:serverId/rebuild',
  access: { server: ['server.rebuild'] },
  params,
  /** A server that runs as a process has nothing to be rebuilt: CONFLICT. */
  body: z.object({ start: z.boolean().default(false) }).prefault({}),
  response: OrderAccepted,
  status: 202,
  errors: [...orderErrors, 'CONFLICT'],
  audit: { action: 'server.rebuild' },
})

export const reinstallServer = defineEndpoint({
  id: 'servers.reinstall',
  tag: 'Servers',
  summary: 'Wipe the files of a server and install it again',
  method: 'POST',
  path: '/api/servers/:serverId/reinstall',
  access: { server: ['server.reinstall'] },
  params,
  body: z.object({ start: z.boolean().default(false) }).prefault({}),
  response: OrderAccepted,
  status: 202,
  errors: orderErrors,
  audit: { action: 'server.reinstall' },
})
