import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { ServerId } from '../kernel/ids.ts'
import { RestartPolicy } from '../kernel/server-life.ts'
import { VariableName } from '../protocol/server-spec.ts'
import { ServerPatch } from './servers.ts'
import { TemplateVariable } from './template-fields.ts'

const params = { serverId: ServerId }

const answer = {
  tag: 'Servers',
  method: 'POST',
  response: NoData,
  audit: { action: 'server.eula' },
} as const

const ANSWER_ERRORS = [
  'SERVER_NOT_FOUND',
  'SERVER_SUSPENDED',
  'EULA_NOT_PENDING',
  'INSUFFICIENT_SPACE',
  'FILE_PATH_INVALID',
  'NODE_OFFLINE',
  'AGENT_TIMEOUT',
  'AGENT_ERROR',
  'AGENT_VERSION',
] as const

export const answerServerEula = defineEndpoint({
  ...answer,
  id: 'servers.eula',
  summary: 'Accept or decline the agreement that the game of a server asks for',
  path: '/api/servers/:serverId/eula',
  access: { server: ['server.start'] },
  params,
  body: z.object({ accepted: z.boolean() }),
  errors: ANSWER_ERRORS,
})

export const answerEula = defineEndpoint({
  ...answer,
  id: 'servers.eula_by_body',
  summary: 'The same, with the server in the body',
  path: '/api/servers/eula',
  /** Then `server.start` on the server. */
  access: 'session',
  body: z.object({ serverId: ServerId, accepted: z.boolean() }),
  errors: [...ANSWER_ERRORS, 'PERMISSION_DENIED'],
})

export const setRestartPolicy = defineEndpoint({
  id: 'servers.restart_policy',
  tag: 'Servers',
  summary: 'Say what follows the end of a server that nobody has ordered',
  method: 'PATCH',
  path: '/api/servers/:serverId/restart-policy',
  access: { server: ['server.update'] },
  params,
  body: ServerPatch.pick({ restartPolicy: true, maxCrashCount: true }),
  response: z.object({ restartPolicy: RestartPolicy, maxCrashCount: z.int() }),
  errors: ['SERVER_NOT_FOUND', 'SERVER_SUSPENDED', 'SERVER_INVALID_STATE'],
  audit: { action: 'server.update' },
})

export const resetCrashCount = defineEndpoint({
  id: 'servers.reset_crash_count',
  tag: 'Servers',
  summary: 'Forgive the crashes of a server so far; on a node that is away, as soon as it is back',
  method: 'POST',
  path: '/api/servers/:serverId/reset-crash-count',
  access: { server: ['server.start'] },
  params,
  response: NoData,
  errors: ['SERVER_NOT_FOUND', 'SERVER_SUSPENDED', 'SERVER_INVALID_STATE'],
  audit: { action: 'server.reset_crash_count' },
})

/** A variable of the template with the server's own value; secrets are masked. */
export const ServerVariable = TemplateVariable.extend({ value: z.string() })
export type ServerVariable = z.infer<typeof ServerVariable>

export const listServerVariables = defineEndpoint({
  id: 'servers.variables',
  tag: 'Servers',
  summary: 'List the variables of a server with their values',
  method: 'GET',
  path: '/api/servers/:serverId/variables',
  access: { server: ['server.read'] },
  params,
  response: z.array(ServerVariable),
  errors: ['SERVER_NOT_FOUND'],
})

export const setServerVariables = defineEndpoint({
  id: 'servers.set_variables',
  tag: 'Servers',
  summary: 'Change variables of a server; those that are not named keep their values',
  method: 'PATCH',
  path: '/api/servers/:serverId/variables',
  access: { server: ['server.update'] },
  params,
  body: z.record(
    VariableName,
    z
      .union([z.string().max(4096), z.number(), z.boolean()], 'must be a text of at most 4096 characters')
      .transform(String),
  ),
  response: z.record(z.string(), z.string()),
  errors: ['SERVER_NOT_FOUND', 'SERVER_SUSPENDED', 'SERVER_INVALID_STATE', 'PERMISSION_DENIED'],
  audit: { action: 'server.variables_update' },
})
