import { deliverBulk, downloadLogs, fetchBulk, readFile, writeFile } from '../../../../shared/api/files.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { type Context, callerOf, type Route, route } from '../../../http/route.ts'
import { type FileDeps, logOf, readServerFile, writeServerFile } from './content.ts'

/** Files of servers, whole console logs, and the way of their bytes between nodes and the daemon. */
export function fileRoutes(deps: FileDeps): Route[] {
  const { transfers } = deps
  return [
    route(readFile, ({ params, query }, context) =>
      readServerFile(deps, params.serverId, { ...query, signal: context.signal, caller: callerOf(context) }),
    ),
    route(writeFile, ({ params, query, body }, context) =>
      writeServerFile(
        deps,
        { serverId: params.serverId, ...query, body, ...context.writes(), caller: callerOf(context) },
        context,
      ),
    ),
    route(downloadLogs, ({ params }, { signal }) => logOf(deps, params.serverId, signal)),
    route(deliverBulk, async ({ params, body }, context) => {
      await transfers.deliver(nodeOf(context), params.ticket, body)
      return null
    }),
    route(fetchBulk, async ({ params }, context) => {
      const nodeId = nodeOf(context)
      return {
        contentType: 'application/octet-stream',
        fileName: 'transfer',
        size: transfers.announced(nodeId, params.ticket),
        etag: null,
        read: async () => transfers.fetch(nodeId, params.ticket),
      }
    }),
  ]
}

function nodeOf({ nodeId }: Pick<Context, 'nodeId'>): string {
  if (nodeId === undefined) throw new PanelError('UNAUTHENTICATED', 'This endpoint is for agents of nodes')
  return nodeId
}
