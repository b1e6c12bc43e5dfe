import { createSocket } from 'node:dgram'
import { createServer, isIPv6 } from 'node:net'

export type Protocol = 'tcp' | 'udp'

/** An address with its port. */
export interface Address {
  readonly ip: string
  readonly port: number
}

/** Binds an address for a moment; resolves with the reason of the kernel when that is refused, as in `EADDRINUSE`. */
export function bindFailure(address: Address, protocol: Protocol): Promise<string | undefined> {
  return protocol === 'tcp' ? bindTcp(address) : bindUdp(address)
}

function bindTcp({ ip, port }: Address): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', (error) => resolve(errnoOf(error)))
    // A player who tries again and again may get in here; what is left of a connection would hold the port.
    server.on('connection', (socket) => socket.resetAndDestroy())
    server.listen({ host: ip, port, exclusive: true }, () => server.close(() => resolve(undefined)))
  })
}

function bindUdp({ ip, port }: Address): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = createSocket({ type: isIPv6(ip) ? 'udp6' : 'udp4' })
    socket.once('error', (error) => {
      socket.close()
      resolve(errnoOf(error))
    })
    socket.bind({ address: ip, port, exclusive: true }, () => socket.close(() => resolve(undefined)))
  })
}

function errnoOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : error.message
}
