import { chmod, rm } from 'node:fs/promises'
import { createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { Server as TlsServer } from 'node:tls'
import { connectPrivately, PrivateFolder } from '../../shared/platform/private-folder.ts'

const NAME = 'panel.sock'

/** The HTTP server at a unix socket as well, for the owner of the data folder. */
export interface LocalSocket {
  /** Where it is found. */
  readonly path: string
  /** Takes no more connections; those that stand are the HTTP server's to end. */
  close(): void
}

/**
 * Serves `http` at a unix socket in a folder that nobody else can enter: no other program can take its place, as it could
 * with a port. The data folder is locked, so that a socket that lies there is a dead one's.
 */
export async function serveLocally(http: Server, dataDir: string): Promise<LocalSocket> {
  const folder = PrivateFolder.make(join(dataDir, 'run'))
  // Behind TLS: the folder proves who is who, and plain HTTP is spoken within it.
  const event = http instanceof TlsServer ? 'secureConnection' : 'connection'
  const server = createServer((socket) => http.emit(event, named(socket)))
  try {
    await rm(folder.inside(NAME), { force: true })
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(folder.socketPath(NAME), resolve)
    })
    await chmod(folder.inside(NAME), 0o600)
  } catch (error) {
    server.close()
    folder.close()
    throw error
  }
  // Node removes the socket, by a path that may lead through the folder's handle.
  server.once('close', () => folder.close())
  return { path: join(folder.path, NAME), close: () => void server.close() }
}

/** The socket that a panel of this data folder serves now; `undefined` where it is none of `panel up`. */
export async function findLocalSocket(dataDir: string): Promise<string | undefined> {
  const path = join(dataDir, 'run', NAME)
  const socket = await connectPrivately(path).catch(() => undefined) // a daemon without a socket, or not one's own
  socket?.destroy()
  return socket === undefined ? undefined : path
}

/** Who comes this way has no address; limits and records count it as this machine. */
function named(socket: Socket): Socket {
  return Object.defineProperty(socket, 'remoteAddress', { value: '127.0.0.1' })
}
