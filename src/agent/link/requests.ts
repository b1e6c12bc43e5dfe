import type { AgentFrame, Operation } from '../../shared/protocol/frames.ts'
import { type BackupRequestDeps, backupRequests } from '../backups/requests.ts'
import { type ConsoleRequestDeps, consoleRequests } from '../console/requests.ts'
import { AgentFailure } from '../failure.ts'
import { type FileRequestDeps, fileRequests } from '../files/requests.ts'
import { type AgentLog, errorText } from '../logger.ts'
import { type MigrationRequestDeps, migrationRequests } from '../migration/requests.ts'
import { type NodeRequestDeps, nodeRequests } from '../node/requests.ts'
import { type ServerRequestDeps, serverRequests } from '../server/requests.ts'
import { type SftpRequestDeps, sftpRequests } from '../sftp/requests.ts'
import type { RequestContext, RequestHandler } from './request-handler.ts'

/** What the answers to requests are made from. */
export type RequestDeps = ConsoleRequestDeps &
  NodeRequestDeps &
  FileRequestDeps &
  ServerRequestDeps &
  BackupRequestDeps &
  MigrationRequestDeps &
  SftpRequestDeps

/** Every request that this agent answers, by the names of their definitions. */
export function requestHandlers(deps: RequestDeps): ReadonlyMap<string, RequestHandler> {
  const handlers = [
    ...consoleRequests(deps),
    ...nodeRequests(deps),
    ...fileRequests(deps),
    ...serverRequests(deps),
    ...backupRequests(deps),
    ...migrationRequests(deps),
    ...sftpRequests(deps),
  ]
  return new Map(handlers.map((handler) => [handler.op, handler]))
}

/** Answers a request; a failure is an answer as well, and so is that this agent does not know it. */
export async function answer(
  handlers: ReadonlyMap<string, RequestHandler>,
  { id, request, log }: { readonly id: string; readonly request: Operation; readonly log: AgentLog },
  context: RequestContext,
): Promise<AgentFrame> {
  const refusal = (error: AgentFailure): AgentFrame => ({ type: 'reply', id, error: error.toFrame(), result: null })
  const handler = handlers.get(request.op)
  if (handler === undefined) {
    return refusal(new AgentFailure('UNSUPPORTED', `This agent does not know the request ${request.op}; update it`))
  }
  try {
    return { type: 'reply', id, error: null, result: (await handler.run(request, context)) ?? null }
  } catch (error) {
    if (error instanceof AgentFailure) return refusal(error)
    log.error({ op: request.op, err: errorText(error) }, 'request failed unexpectedly')
    return refusal(new AgentFailure('INTERNAL', 'The agent could not answer the request'))
  }
}
