import type { Server } from 'node:http'

/** Listens on the loopback address; port 0: on a free one. */
export async function listen(server: Server, port = 0): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
}

/** The port of a server that listens, or 0. */
export function portOf(server: Server): number {
  const address = server.address()
  return typeof address === 'object' && address !== null ? address.port : 0
}

export function addressOf(server: Server, scheme: 'http' | 'https'): string {
  return `${scheme}://127.0.0.1:${portOf(server)}`
}

/** Ends a server and all of its connections. */
export async function closeServer(server: Server): Promise<void> {
  if (!server.listening) return
  const closed = new Promise((resolve) => server.close(resolve))
  server.closeAllConnections()
  await closed
}
