import * as operations from '../../../shared/protocol/file-operations.ts'
import type { Bulk } from '../../link/bulk.ts'
import { onRequest, type RequestHandler } from '../../link/request-handler.ts'
import { type FileWork, numbered } from '../file-work.ts'
import { pullInto } from '../pull.ts'
import { compressTo, extractFrom, freshKey, listArchive, packed, unpackStream } from './archive.ts'

/** The requests of archives: of a server's own, of trees on their way to another server, and of what is fetched from elsewhere. */
export function archiveRequests({
  work,
  bulk,
}: {
  readonly work: FileWork
  readonly bulk: Bulk
}): readonly RequestHandler[] {
  return [
    onRequest(operations.compressFiles, ({ serverId, denied, filePaths, key, ...what }, { signal, progress }) =>
      work.long(serverId, key, () =>
        work.changing(serverId, async (server) => {
          const { paths, to } = what
          const rules = work.rulesFor(serverId, { denied, filePaths, reads: [...numbered(paths), [to, 'to']] })
          const nowMs = server.context.clock.nowMs()
          const options = { rules, nowMs, key: key ?? freshKey(), signal, progress }
          return await server.context.rooms.with(server, {}, (room) =>
            compressTo(server.place.files, { ...what, ...options, ...room }),
          )
        }),
      ),
    ),
    onRequest(operations.extractArchive, ({ serverId, denied, filePaths, key, path, ...what }, { signal, progress }) =>
      work.long(serverId, key, () =>
        work.changing(serverId, async (server) => {
          const rules = work.rulesFor(serverId, {
            denied,
            filePaths,
            reads: [
              [path, 'path'],
              [what.to, 'to'],
            ],
          })
          const monotonicMs = (): number => server.context.clock.monotonicMs()
          const nowMs = server.context.clock.nowMs()
          const options = { rules, monotonicMs, nowMs, key: key ?? freshKey(), signal, progress }
          return await server.context.rooms.with(server, {}, (room) =>
            extractFrom(server.place.files, path, { ...what, ...options, ...room }),
          )
        }),
      ),
    ),
    onRequest(operations.listArchive, ({ serverId, path, skip, limit }, { signal }) =>
      work.long(serverId, undefined, async () => {
        work.rulesFor(serverId, { reads: [[path, 'path']] })
        return await listArchive(work.rootOf(serverId), path, { skip, limit, signal })
      }),
    ),
    onRequest(operations.sendTree, ({ serverId, path, denied, filePaths, ticket }, { signal, progress }) =>
      work.long(serverId, undefined, async () => {
        const rules = work.rulesFor(serverId, { denied, filePaths, reads: [[path, 'path']] })
        const tree = packed(work.rootOf(serverId), path, { rules, signal, progress })
        const sha256 = await bulk.deliver(ticket, tree.content, { signal, progress: () => {} })
        const result = tree.result() ?? { entries: 0, bytes: 0, problems: [], problemCount: 0 }
        return { ...result, sha256 }
      }),
    ),
    onRequest(operations.receiveTree, ({ serverId, denied, filePaths, key, ticket, ...what }, { signal, progress }) =>
      work.long(serverId, key, () =>
        work.changing(serverId, async (server) => {
          const rules = work.rulesFor(serverId, { denied, filePaths, reads: [[what.to, 'to']] })
          const monotonicMs = (): number => server.context.clock.monotonicMs()
          const nowMs = server.context.clock.nowMs()
          const options = { rules, monotonicMs, nowMs, key: key ?? freshKey(), signal, progress }
          return await server.context.rooms.with(server, {}, (room) =>
            bulk.fetch(
              ticket,
              (content) => unpackStream(server.place.files, content, { ...what, ...options, ...room }),
              { signal, progress: () => {} },
            ),
          )
        }),
      ),
    ),
    onRequest(operations.pullFile, ({ serverId, denied, filePaths, key, ...what }, { signal, progress }) =>
      work.long(serverId, key, () =>
        work.changing(serverId, async (server) => {
          const rules = work.rulesFor(serverId, { denied, filePaths, reads: [[what.to, 'to']] })
          const { clock, pull, rooms } = server.context
          const options = { rules, clock, allowed: pull, key: key ?? freshKey(), signal, progress }
          return await rooms.with(server, {}, (room) => pullInto(server.place.files, { ...what, ...options, ...room }))
        }),
      ),
    ),
  ]
}
