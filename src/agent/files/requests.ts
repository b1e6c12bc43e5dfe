import { receiveFile, sendFile, statFile, uploadOffset } from '../../shared/protocol/files.ts'
import { diskRoom } from '../disk/disk-room.ts'
import { AgentFailure } from '../failure.ts'
import type { Bulk } from '../link/bulk.ts'
import { onRequest, type RequestHandler } from '../link/request-handler.ts'
import type { ServerTable } from '../server/commands.ts'
import { knownServer } from '../server/known-server.ts'
import { fileFacts, openFile, partSize, readRange, writeFile } from './server-file.ts'

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
  return [
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
