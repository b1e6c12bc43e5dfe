import * as api from '../../../../shared/api/sftp.ts'
import * as agentApi from '../../../../shared/api/sftp-sessions.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { unauthenticated } from '../../../access/operation.ts'
import { operate } from '../../../http/operate.ts'
import { type Context, type Route, route } from '../../../http/route.ts'
import { type TypeDeps, typeCommand } from '../console/operations.ts'
import * as operations from './operations.ts'
import type { SftpSessions } from './sessions.ts'
import type { SftpServerDeps } from './sftp-of-node.ts'

/** What the routes of SFTP work with. */
export type SftpRouteDeps = SftpServerDeps &
  Omit<TypeDeps, 'gateway'> & { readonly gateway: TypeDeps['gateway'] & SftpServerDeps['gateway'] }

/** How people reach files over SSH, and the questions of agents, who ask here who comes in. */
export function sftpRoutes(deps: SftpRouteDeps, sessions: SftpSessions): Route[] {
  return [
    route(api.sftpInfo, (input, context) => operations.connectionInfo(deps, input, context)),
    operate(operations.rotateToken, deps),
    route(api.listSftpTokens, (input, context) => operations.listTokens(deps, input, context)),
    operate(operations.revokeUserTokens, deps),
    operate(operations.revokeTokens, deps),
    route(api.listSftpSessions, (input, context) => operations.listSessions(deps, input, context)),
    operate(operations.endSession, deps),
    route(agentApi.openSftpSession, ({ body }, context) =>
      sessions.open(nodeOf(context), body, context.origin.requestId),
    ),
    route(agentApi.checkSftpSessions, ({ body }, context) => sessions.check(nodeOf(context), body.sessionIds)),
    route(agentApi.reportSftpSession, async ({ params, body }, context) => {
      await sessions.report(nodeOf(context), params.sessionId, body)
      return null
    }),
    route(agentApi.typeInSftpSession, async ({ params, body }, context) => {
      const found = await sessions.find(nodeOf(context), params.sessionId)
      if (found === undefined) return context.fail('SFTP_SESSION_NOT_FOUND', 'The session has ended')
      const { row, now } = found
      if (now.grant?.consoleWrite !== true) {
        const message = now.reason ?? 'You may not type into the console of this server (console.write)'
        throw new PanelError('PERMISSION_DENIED', message, { meta: { missing: ['console.write'] } })
      }
      const origin = { ip: row.ipAddress, userAgent: row.client, requestId: context.origin.requestId }
      const input = { params: { serverId: row.serverId as never }, query: undefined, body: { command: body.command } }
      await typeCommand(deps, unauthenticated(origin, row.userId), input)
      return null
    }),
  ]
}

function nodeOf({ nodeId }: Pick<Context, 'nodeId'>): string {
  if (nodeId === undefined) throw new PanelError('UNAUTHENTICATED', 'This endpoint is for agents of nodes')
  return nodeId
}
