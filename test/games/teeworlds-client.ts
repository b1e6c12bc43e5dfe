import { randomBytes } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import type { GameAddress } from './probe.ts'

/** Connects to Teeworlds 0.7 as a client does before it gets the map: from then on it counts. Call what it resolves with to leave. */
export async function joinTeeworlds({ host, port }: GameAddress): Promise<() => Promise<void>> {
  const socket = createSocket('udp4')
  socket.connect(port, host)
  await once(socket, 'connect')
  const own = randomBytes(4)
  const long = (...parts: readonly Uint8Array[]): Buffer => Buffer.concat(parts, 520)
  const answer = async (packet: Buffer, kind: number): Promise<Buffer> => {
    const again = setInterval(() => socket.send(packet), 300)
    socket.send(packet)
    try {
      for (;;) {
        const [message] = await once(socket, 'message', { signal: AbortSignal.timeout(5000) })
        if (Buffer.isBuffer(message) && message[7] === kind) return message
      }
    } finally {
      clearInterval(again)
    }
  }
  const token = (await answer(long(Buffer.from('040000ffffffff05', 'hex'), own), 5)).subarray(8, 12)
  const head = Buffer.concat([Buffer.from('040000', 'hex'), token])
  await answer(long(head, Buffer.from([1]), own), 2)
  // The game drops who is silent for ten seconds.
  const alive = setInterval(() => socket.send(Buffer.concat([head, Buffer.from([0])])), 1000)
  return async () => {
    clearInterval(alive)
    await new Promise((resolve) => socket.send(Buffer.concat([head, Buffer.from([4])]), resolve))
    socket.close()
  }
}
