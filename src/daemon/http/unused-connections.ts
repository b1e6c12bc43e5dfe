import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'

/**
 * Ends connections on which nothing was ever asked when the server closes: browsers and pools open them ahead, and Node
 * closes only those that were used, so that each would hold up the stop.
 */
export function endUnusedConnections(app: FastifyInstance, opened: 'connection' | 'secureConnection'): void {
  const unused = new Set<Socket>()
  const used = ({ socket }: { socket: Socket }): boolean => unused.delete(socket)
  app.server
    .on(opened, (socket: Socket) => {
      unused.add(socket)
      socket.once('close', () => unused.delete(socket))
    })
    .on('request', used)
    .on('upgrade', used)
  app.addHook('preClose', (done) => {
    for (const socket of unused) socket.destroy()
    done()
  })
}
