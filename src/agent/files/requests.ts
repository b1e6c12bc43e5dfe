import * as operations from '../../shared/protocol/file-operations.ts'
import { receiveFile, sendFile, statFile, uploadOffset } from '../../shared/protocol/files.ts'
import { AgentFailure } from '../failure.ts'
import type { Bulk } from '../link/bulk.ts'
import { onRequest, type RequestHandler } from '../link/request-handler.ts'
import type { ServerTable } from '../server/commands.ts'
import { freshKey } from './archive/archive.ts'
import { archiveRequests } from './archive/requests.ts'
import { makeFolderAt, makeLink, rename } from './change.ts'
import { checksums } from './checksums.ts'
import { copy } from './copy.ts'
import { FileWork, numbered } from './file-work.ts'
import { describe, listPage } from './list.ts'
import { ListedNames } from './listed-names.ts'
import { setModes } from './modes.ts'
import { removeEntries } from './remove.ts'
import { search } from './search.ts'
import { fileFacts, openFile, partSize, readRange, writeFile } from './server-file.ts'
import { folderUsage } from './usage.ts'

/** What the answers to requests of files are made from. */
export interface FileRequestDeps {
  readonly servers: ServerTable
  readonly bulk: Bulk
}

/** The requests of files of servers. */
export function fileRequests({ servers, bulk }: FileRequestDeps): readonly RequestHandler[] {
  const writing = new Set<string>()
  const work = new FileWork(servers)
  const listed = new ListedNames()
  const rootOf = (serverId: string): string => work.rootOf(serverId)
  return [
    onRequest(operations.listFolder, ({ serverId, path, after, limit, filePaths }, { signal }) => {
      const rules = work.rulesFor(serverId, { filePaths, reads: [[path, 'path']] })
      const nowMs = work.server(serverId).context.clock.nowMs()
      return listPage(rootOf(serverId), path, { after, limit, rules, listed, nowMs, signal })
    }),
    onRequest(operations.describeEntry, ({ serverId, path }) => describe(rootOf(serverId), path)),
    onRequest(operations.makeServerFolder, async ({ serverId, path, parents }) => {
      work.rulesFor(serverId, { reads: [[path, 'path']] })
      return { made: await makeFolderAt(rootOf(serverId), path, parents) }
    }),
    onRequest(operations.renameEntry, ({ serverId, denied, filePaths, ...names }) => {
      const rules = work.rulesFor(serverId, {
        denied,
        filePaths,
        changes: [[names.from, 'from']],
        reads: [[names.to, 'to']],
      })
      return rename(rootOf(serverId), { ...names, rules })
    }),
    onRequest(operations.linkEntry, ({ serverId, ...link }) => {
      work.rulesFor(serverId, { reads: [[link.path, 'path']] })
      return makeLink(rootOf(serverId), link)
    }),
    onRequest(operations.copyEntry, ({ serverId, denied, filePaths, key, ...names }, { signal, progress }) =>
      work.long(serverId, key, () =>
        work.changing(serverId, async (server) => {
          const rules = work.rulesFor(serverId, {
            denied,
            filePaths,
            reads: [
              [names.from, 'from'],
              [names.to, 'to'],
            ],
          })
          const nowMs = server.context.clock.nowMs()
          const options = { ...names, key: key ?? freshKey(), rules, nowMs, signal, progress }
          return await server.context.rooms.with(server, {}, (room) =>
            copy(server.place.files, { ...options, ...room }),
          )
        }),
      ),
    ),
    onRequest(operations.deleteEntries, ({ serverId, paths, denied, filePaths }, { signal, progress }) =>
      work.long(serverId, undefined, () =>
        work.changing(serverId, async ({ place }) => {
          const rules = work.rulesFor(serverId, { denied, filePaths, changes: numbered(paths) })
          return await removeEntries(place.files, paths, { rules, signal, progress })
        }),
      ),
    ),
    onRequest(operations.setModes, ({ serverId, paths, denied, filePaths, ...modes }, { signal, progress }) =>
      work.long(serverId, undefined, async () => {
        const rules = work.rulesFor(serverId, { denied, filePaths, reads: numbered(paths) })
        return await setModes(rootOf(serverId), paths, { ...modes, rules, signal, progress })
      }),
    ),
    onRequest(operations.sumFiles, ({ serverId, paths, denied, filePaths }, { signal, progress }) =>
      work.long(serverId, undefined, async () => {
        const rules = work.rulesFor(serverId, { denied, filePaths, reads: numbered(paths) })
        return await checksums(rootOf(serverId), paths, { rules, signal, progress })
      }),
    ),
    onRequest(operations.measureFolders, ({ serverId, path, filePaths, ...which }, { signal, progress }) =>
      work.long(serverId, undefined, async () => {
        const rules = work.rulesFor(serverId, { filePaths, reads: [[path, 'path']] })
        return await folderUsage(rootOf(serverId), path, { ...which, rules, signal, progress })
      }),
    ),
    onRequest(operations.searchFiles, ({ serverId, path, denied, filePaths, ...what }, { signal, progress }) =>
      work.long(serverId, undefined, async () => {
        const { place, context } = work.server(serverId)
        const rules = work.rulesFor(serverId, { denied, filePaths, reads: [[path, 'path']] })
        return await search(place.files, path, { ...what, rules, clock: context.clock, signal, progress })
      }),
    ),
    onRequest(statFile, async ({ serverId, path }) => {
      work.rulesFor(serverId, { reads: [[path, 'path']] })
      const facts = await fileFacts(rootOf(serverId), path)
      if (facts === undefined) throw new AgentFailure('NOT_FOUND', `There is no file ${path.slice(0, 300)}`)
      return facts
    }),
    onRequest(uploadOffset, async ({ serverId, path, sha256 }) => ({
      offset: await partSize(rootOf(serverId), path, sha256),
    })),
    onRequest(sendFile, async ({ serverId, path, etag, offset, length, ticket, count = false }, watch) => {
      work.rulesFor(serverId, { reads: [[path, 'path']] })
      const file = await openFile(rootOf(serverId), path)
      try {
        if (file.facts.etag !== etag) throw new AgentFailure('ETAG_MISMATCH', 'The file has changed; read it again')
        const content = readRange(file, { offset, length })
        if (count) return { bytes: Number(await bulk.deliver(ticket, content, watch, 'bytes')) }
        return { sha256: await bulk.deliver(ticket, content, watch) }
      } finally {
        await file.handle.close()
      }
    }),
    onRequest(receiveFile, async ({ serverId, ticket, ...upload }, watch) => {
      const server = work.server(serverId)
      work.rulesFor(serverId, { reads: [[upload.path, 'path']] })
      const freedBytes = (await fileFacts(server.place.files, upload.path))?.size ?? 0
      const { clock, disk, rooms } = server.context
      const comingBytes = Math.max(0, (upload.size ?? 0) - upload.offset)
      try {
        return await rooms.with(server, { comingBytes, freedBytes, keeps: upload.sha256 !== null }, (room) => {
          const options = { ...upload, ...room, writing, nowMs: clock.nowMs() }
          return bulk.fetch(ticket, (content) => writeFile(server.place.files, options, content), watch)
        })
      } finally {
        disk.expire(server.id)
      }
    }),
    ...archiveRequests({ work, bulk }),
  ]
}
