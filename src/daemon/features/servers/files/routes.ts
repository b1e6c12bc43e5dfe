import * as api from '../../../../shared/api/files.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { type Context, callerOf, type Route, route } from '../../../http/route.ts'
import * as archives from './archives.ts'
import * as changes from './changes.ts'
import { logOf, readServerFile, writeContent } from './content.ts'
import { type FileJobDeps, startFileJob } from './file-job.ts'
import { keepWhileReached } from './reach.ts'
import * as reads from './reads.ts'

/** Files of servers and what is done with them, whole console logs, and the way of their bytes between nodes and the daemon. */
export function fileRoutes(deps: FileJobDeps): Route[] {
  const { transfers } = deps
  return [
    route(api.readFile, ({ params, query }, context) => {
      keepWhileReached(deps, params.serverId, { context, path: query.path })
      return readServerFile(deps, params.serverId, { ...query, signal: context.signal, caller: callerOf(context) })
    }),
    route(api.downloadFile, ({ params, query }, context) => {
      keepWhileReached(deps, params.serverId, { context, path: query.path })
      return readServerFile(deps, params.serverId, { ...query, signal: context.signal, caller: callerOf(context) })
    }),
    route(api.writeFile, async ({ params: { serverId }, query, body }, context) => {
      const conditions = context.writes()
      keepWhileReached(deps, serverId, { context, path: query.path })
      const written = await writeContent(
        deps,
        { serverId, ...query, body, ...conditions, part: 'query', caller: callerOf(context) },
        context,
      )
      return await changes.noteWritten(deps, { endpoint: api.writeFile, serverId, asking: context }, written)
    }),
    route(api.listFiles, (input, context) => reads.listFolder(deps, input, context)),
    route(api.statFile, (input, context) => reads.statEntry(deps, input, context)),
    route(api.sumFiles, (input, context) => reads.checksumsOf(deps, input, context)),
    route(api.measureFiles, (input, context) => reads.usageOf(deps, input, context)),
    route(api.searchFiles, (input, context) => reads.searchIn(deps, input, context)),
    route(api.createFile, (input, context) => changes.createEntry(deps, input, context)),
    route(api.writeText, (input, context) => changes.writeTextFile(deps, input, context)),
    route(api.uploadFile, (input, context) => changes.uploadForm(deps, input, context)),
    route(api.renameFile, (input, context) => changes.renameEntry(deps, input, context)),
    route(api.linkFile, (input, context) => changes.linkEntry(deps, input, context)),
    route(api.copyFile, (input, context) => changes.copyEntry(deps, input, context)),
    route(api.setFilePermissions, (input, context) => changes.setPermissions(deps, input, context)),
    route(api.deleteFile, (input, context) => changes.deleteEntry(deps, input, context)),
    route(api.deleteFiles, (input, context) => changes.deleteEntries(deps, input, context)),
    route(api.compressFiles, (input, context) => archives.compress(deps, input, context)),
    route(api.decompressFile, (input, context) => archives.decompress(deps, input, context)),
    route(api.listArchive, (input, context) => archives.contents(deps, input, context)),
    route(api.pullFile, (input, context) => archives.pull(deps, input, context)),
    route(api.startFileJob, (input, context) => startFileJob(deps, input, context)),
    route(api.downloadLogs, ({ params }, { signal }) => logOf(deps, params.serverId, signal)),
    route(api.deliverBulk, async ({ params, body }, context) => {
      await transfers.deliver(nodeOf(context), params.ticket, body)
      return null
    }),
    route(api.fetchBulk, async ({ params }, context) => {
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
