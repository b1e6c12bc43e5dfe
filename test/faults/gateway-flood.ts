import { connect, type Socket } from 'node:net'
import { GATEWAY_PATH } from '../../src/shared/protocol/frames.ts'

const WRONG_KEY = `pnk_${'0'.repeat(26)}_${'A'.repeat(43)}`

/** How a stranger knocks at the gateway. `from`: the loopback address that it comes from. */
export interface Knock {
  readonly url: string
  readonly from: string
  readonly nodeId: string
}

/** One upgrade request with a wrong key; resolves with the status of the refusal, 0 when the connection was just closed. */
export function knock({ url, from, nodeId }: Knock, padding = 0): Promise<number> {
  return new Promise((resolve) => {
    const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', localAddress: from })
    let text = ''
    socket.on('data', (part) => {
      text += part.toString('latin1')
    })
    socket.on('error', () => socket.destroy())
    socket.on('close', () => resolve(Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1] ?? 0)))
    socket.write(`${head(nodeId)}X-Node-Api-Key: ${WRONG_KEY}\r\n`)
    if (padding > 0) socket.write(`X-Padding: ${'p'.repeat(padding)}\r\n`)
    socket.write('\r\n')
  })
}

export interface SlowHandshakes {
  /** All are connected, and each has sent several bytes. */
  readonly dripped: Promise<void>
  leave(): void
}

/** So many knocks, `width` at a time; answers how often each status came. */
export async function flood(about: Knock, count: number, width: number): Promise<Map<number, number>> {
  const statuses = new Map<number, number>()
  let left = count
  const worker = async (): Promise<void> => {
    while (left-- > 0) {
      const status = await knock({ ...about, nodeId: left % 2 === 0 ? about.nodeId : `node_guess${left}` })
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
  }
  await Promise.all(Array.from({ length: width }, worker))
  return statuses
}

const DRIP_MS = 200
const DRIPS = 10

/** Connections that begin a handshake and then send a byte now and then, until they are told to leave. */
export function slowHandshakes({ url, from, nodeId }: Knock, count: number): SlowHandshakes {
  const sockets: Socket[] = []
  for (let i = 0; i < count; i++) {
    const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', localAddress: from })
    socket.on('error', () => socket.destroy())
    socket.write(head(nodeId))
    sockets.push(socket)
  }
  const gone = new AbortController()
  const dripped = new Promise<void>((resolve) => {
    const drip = (round: number): void => {
      if (gone.signal.aborted) return
      for (const socket of sockets) if (socket.writable) socket.write('X')
      if (round === DRIPS) resolve()
      setTimeout(() => drip(round + 1), DRIP_MS)
    }
    for (const socket of sockets) socket.once('connect', () => connected())
    let waiting = count
    const connected = (): void => {
      waiting -= 1
      if (waiting === 0) drip(1)
    }
  })
  const leave = (): void => {
    gone.abort()
    for (const socket of sockets) socket.destroy()
  }
  return { dripped, leave }
}

function head(nodeId: string): string {
  return (
    `GET ${GATEWAY_PATH} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
    'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n' +
    `Sec-WebSocket-Protocol: panel-agent.v1\r\nX-Node-Id: ${nodeId}\r\n`
  )
}
