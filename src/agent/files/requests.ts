import * as operations from '../../shared/protocol/file-operations.ts'
import { receiveFile, sendFile, statFile, uploadOffset } from '../../shared/protocol/files.ts'
import { diskRoom } from '../disk/disk-room.ts'
import { AgentFailure } from '../failure.ts'
import type { Bulk } from '../link/bulk.ts'
import { onRequest, type RequestHandler } from '../link/request-handler.ts'
import type { ServerTable } from '../server/commands.ts'
import { knownServer } from '../server/known-server.ts'
import type { GameServer } from '../server/server.ts'
import { makeFolderAt, makeLink, rename } from './change.ts'
import { checksums } from './checksums.ts'
import { copy } from './copy.ts'
import { describe, listPage } from './list.ts'
import { setModes } from './modes.ts'
import { removeEntries } from './remove.ts'
import { search } from './search.ts'
import { fileFacts, openFile, partSize, readRange, writeFile } from './server-file.ts'
import { folderUsage } from './usage.ts'

const MIB = 1024 * 1024

/** What the answers to requests of files are made from. */
export interface FileRequestDeps {
  readonly servers: ServerTable
  readonly bulk: Bulk
}

/** The requests of files of servers. */
export function fileRequests({ servers, bulk }: FileRequestDeps): readonly RequestHandler[] {
  const writing = new Set<string>()
  const rootOf = (serverId: string): string => knownServer(servers, serverId).place.files
  const long = longOperations()
  /** What changes how much a server has on its disk. */
  const changing = async <T>(serverId: string, work: (server: GameServer) => Promise<T>): Promise<T> => {
    const server = knownServer(servers, serverId)
    try {
      return await work(server)
    } finally {
      server.context.disk.expire(server.id)
    }
  }
  return [
    onRequest(operations.listFolder, ({ serverId, path, after, limit }, { signal }) =>
      listPage(rootOf(serverId), path, { after, limit, signal }),
    ),
    onRequest(operations.describeEntry, ({ serverId, path }) => describe(rootOf(serverId), path)),
    onRequest(operations.makeServerFolder, async ({ serverId, path, parents }) => ({
      made: await makeFolderAt(rootOf(serverId), path, parents),
    })),
    onRequest(operations.renameEntry, ({ serverId, ...names }) => rename(rootOf(serverId), names)),
    onRequest(operations.linkEntry, ({ serverId, ...link }) => makeLink(rootOf(serverId), link)),
    onRequest(operations.copyEntry, ({ serverId, ...names }, { signal, progress }) =>
      long(serverId, () =>
        changing(serverId, async (server) => {
          const roomBytes = await diskRoom(server, signal)
          const nowMs = server.context.clock.nowMs()
          return await copy(server.place.files, { ...names, roomBytes, nowMs, signal, progress })
        }),
      ),
    ),
    onRequest(operations.deleteEntries, ({ serverId, paths }, { signal, progress }) =>
      long(serverId, () => changing(serverId, ({ place }) => removeEntries(place.files, paths, { signal, progress }))),
    ),
    onRequest(operations.setModes, ({ serverId, paths, ...modes }, { signal, progress }) =>
      long(serverId, () => setModes(rootOf(serverId), paths, { ...modes, signal, progress })),
    ),
    onRequest(operations.sumFiles, ({ serverId, paths }, { signal, progress }) =>
      long(serverId, () => checksums(rootOf(serverId), paths, { signal, progress })),
    ),
    onRequest(operations.measureFolders, ({ serverId, path, ...which }, { signal, progress }) =>
      long(serverId, () => folderUsage(rootOf(serverId), path, { ...which, signal, progress })),
    ),
    onRequest(operations.searchFiles, ({ serverId, path, ...what }, { signal, progress }) =>
      long(serverId, () => {
        const { place, context } = knownServer(servers, serverId)
        return search(place.files, path, { ...what, clock: context.clock, signal, progress })
      }),
    ),
    onRequest(statFile, async ({ serverId, path }) => {
      const facts = await fileFacts(rootOf(serverId), path)
      if (facts === undefined) throw new AgentFailure('NOT_FOUND', `There is no file ${path.slice(0, 300)}`)
      return facts
    }),
    onRequest(uploadOffset, async ({ serverId, path, sha256 }) => ({
      offset: await partSize(rootOf(serverId), path, sha256),
    })),
    onRequest(sendFile, async ({ serverId, path, etag, offset, length, ticket }, watch) => {
      const file = await openFile(rootOf(serverId), path)
      try {
        if (file.facts.etag !== etag) throw new AgentFailure('ETAG_MISMATCH', 'The file has changed; read it again')
        return await bulk.deliver(ticket, readRange(file, { offset, length }), watch)
      } finally {
        await file.handle.close()
      }
    }),
    onRequest(receiveFile, async ({ serverId, ticket, ...upload }, watch) => {
      const server = knownServer(servers, serverId)
      const there = (await fileFacts(server.place.files, upload.path))?.size ?? 0
      const roomBytes = Math.max(0, (await diskRoom(server, watch.signal)) + there)
      if (upload.size !== null && upload.size - upload.offset > roomBytes) {
        throw new AgentFailure('NO_SPACE', `The disk limit of the server leaves ${Math.floor(roomBytes / MIB)} MiB`)
      }
      try {
        return await bulk.fetch(
          ticket,
          (content) =>
            writeFile(
              server.place.files,
              { ...upload, roomBytes, writing, nowMs: server.context.clock.nowMs() },
              content,
            ),
          watch,
        )
      } finally {
        server.context.disk.expire(server.id)
      }
    }),
  ]
}

/** Lets a server have so many long operations at a time; one more is refused. */
function longOperations(): <T>(serverId: string, work: () => Promise<T>) => Promise<T> {
  const running = new Map<string, number>()
  return async (serverId, work) => {
    const there = running.get(serverId) ?? 0
    if (there >= operations.FILE_LIMITS.atOnce) {
      const message = `${there} operations on files of this server are under way; try again when one has ended`
      throw new AgentFailure('CONFLICT_STATE', message)
    }
    running.set(serverId, there + 1)
    try {
      return await work()
    } finally {
      const left = (running.get(serverId) ?? 1) - 1
      if (left > 0) running.set(serverId, left)
      else running.delete(serverId)
    }
  }
}
