import { randomBytes } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { inflateSync } from 'node:zlib'

/**
 * Questions in the games' own protocols, asked like a player's program would. Each resolves with what the game says of
 * itself and rejects when there is no right answer: proof that a game serves, which its ready line is not.
 */
export interface GameAddress {
  readonly host: string
  readonly port: number
}

/** What the demo game answers to `QUERY`. */
export interface DemoStatus {
  readonly name: string
  readonly players: number
  readonly max: number
  readonly round: number
  readonly uptime: number
}

/** Asks the demo game for its state (TCP). Who is slow to ask is greeted like a person before the answer. */
export async function queryDemo(address: GameAddress): Promise<DemoStatus> {
  const line = await askTcp(address, Buffer.from('QUERY\n'), (bytes) => /^(\{.*)\n/m.exec(bytes.toString('utf8'))?.[1])
  return demoStatus(JSON.parse(line))
}

/** Asks OpenTTD over UDP whether it is there; resolves when it says so. */
export async function probeOpenttdUdp(address: GameAddress): Promise<void> {
  const yes = Buffer.from('030001', 'hex')
  await askUdp(address, Buffer.from('030000', 'hex'), (answer) => (answer.equals(yes) ? answer : undefined))
}

/** Asks OpenTTD for its game info (TCP); resolves with the texts of the answer: server name and version among them. */
export async function probeOpenttdTcp(address: GameAddress): Promise<{ readonly texts: readonly string[] }> {
  return await askTcp(address, Buffer.from('030007', 'hex'), (bytes) => {
    if (bytes.length < 3 || bytes.length < bytes.readUInt16LE(0)) return undefined
    if (bytes[2] !== 6) throw new Error(`OpenTTD answered with packet type ${bytes[2]}, not 6`)
    const texts = bytes.toString('utf8', 3, bytes.readUInt16LE(0)).match(/[\x20-\x7e]{3,}/g)
    return { texts: texts ?? [] }
  })
}

/** Connects to Luanti as a new peer (UDP) and hangs up; resolves with the peer id that it gave. */
export async function probeMinetest(address: GameAddress): Promise<number> {
  const peerId = await askUdp(address, Buffer.from('4f45740300000001', 'hex'), (answer) => {
    const right = answer.length === 14 && answer.toString('hex', 0, 4) === '4f457403' && answer.readUInt16BE(10) === 1
    return right ? answer.readUInt16BE(12) : undefined
  })
  const disconnect = Buffer.from('4f4574030000000003', 'hex')
  disconnect.writeUInt16BE(peerId, 4)
  await sendUdp(address, disconnect)
  return peerId
}

/** What a Teeworlds server says of itself. */
export interface TeeworldsInfo {
  readonly version: string
  readonly name: string
  readonly map: string
  readonly gameType: string
}

/** Shakes hands with Teeworlds 0.7 by tokens and asks for the server's info (UDP). */
export async function probeTeeworlds(address: GameAddress): Promise<TeeworldsInfo> {
  const own = randomBytes(4)
  const hello = Buffer.concat([Buffer.from('040000ffffffff05', 'hex'), own, Buffer.alloc(508)])
  const token = await askUdp(address, hello, (answer) => {
    const right = answer.length >= 12 && answer.subarray(3, 7).equals(own) && answer[7] === 5
    return right ? answer.subarray(8, 12) : undefined
  })
  const marker = Buffer.from('ffffffff696e6633', 'hex')
  const question = Buffer.concat([Buffer.from([0x21]), token, own, Buffer.from('ffffffff6769653307', 'hex')])
  return await askUdp(address, question, (answer) => {
    const at = answer.indexOf(marker)
    if (answer[0] !== 0x21 || !answer.subarray(1, 5).equals(own) || at === -1) return undefined
    const [version = '', name = '', , map = '', gameType = ''] = answer.toString('utf8', at + 9).split('\0')
    return { version, name, map, gameType }
  })
}

/** Asks Freeciv 3.0 to let a player join (TCP); resolves with its answer. */
export async function probeFreeciv(
  address: GameAddress,
): Promise<{ readonly mayJoin: boolean; readonly message: string }> {
  const body = Buffer.concat([Buffer.from('probe\0+Freeciv-3.0-network\0\0'), Buffer.alloc(12)])
  body.writeUInt32BE(3, body.length - 12)
  body.writeUInt32BE(6, body.length - 4)
  const header = Buffer.from([0, 0, 4])
  header.writeUInt16BE(header.length + body.length)
  return await askTcp(address, Buffer.concat([header, body]), (bytes) => {
    const reply = freecivPackets(bytes).find((packet) => packet[2] === 5)
    if (reply === undefined) return undefined
    return { mayJoin: reply[3] === 1, message: reply.toString('utf8', 4, reply.indexOf(0, 4)) }
  })
}

/** The whole packets so far, with their headers; long ones and zlib blocks as Freeciv frames them. */
function freecivPackets(bytes: Buffer): Buffer[] {
  const packets: Buffer[] = []
  let rest = bytes
  while (rest.length >= 2) {
    const short = rest.readUInt16BE(0)
    if (short === 0xffff && rest.length < 6) break
    const size = short === 0xffff ? rest.readUInt32BE(2) : short > 16_384 ? short - 16_385 : short
    if (size < 2) throw new Error(`Freeciv sent a packet of ${size} bytes`)
    if (rest.length < size) break
    if (short > 16_384) packets.push(...freecivPackets(inflateSync(rest.subarray(short === 0xffff ? 6 : 2, size))))
    else packets.push(rest.subarray(0, size))
    rest = rest.subarray(size)
  }
  return packets
}

function demoStatus(value: unknown): DemoStatus {
  if (typeof value === 'object' && value !== null && 'name' in value && 'players' in value && 'max' in value) {
    const { name, players, max } = value
    const round = 'round' in value ? value.round : undefined
    const uptime = 'uptime' in value ? value.uptime : undefined
    if (typeof name === 'string' && isNumber(players) && isNumber(max) && isNumber(round) && isNumber(uptime)) {
      return { name, players, max, round, uptime }
    }
  }
  throw new Error(`not the demo game's answer: ${JSON.stringify(value)}`)
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number'
}

/**
 * Sends until `accept` takes an answer: UDP may lose packets, and some games open their socket only after the ready
 * line (Luanti) or once more (OpenTTD), so that a closed port is no more than a lost packet.
 */
async function askUdp<T>(
  { host, port }: GameAddress,
  packet: Buffer,
  accept: (answer: Buffer) => T | undefined,
): Promise<T> {
  const socket = createSocket('udp4')
  const over = new AbortController()
  let cause: Error | undefined
  try {
    return await new Promise<T>((resolve, reject) => {
      socket.on('error', (error) => {
        cause = error
      })
      socket.on('message', (answer) => {
        const taken = answer.length < 3 ? undefined : accept(answer)
        if (taken !== undefined) resolve(taken)
      })
      // A connected socket hears nobody but the game.
      socket.connect(port, host, () => {
        sendRepeatedly(socket, packet, over.signal).then(
          () => reject(new Error(`no answer from ${host}:${port} over UDP`, { cause })),
          reject,
        )
      })
    })
  } finally {
    over.abort()
    socket.close()
  }
}

async function sendRepeatedly(socket: ReturnType<typeof createSocket>, packet: Buffer, signal: AbortSignal) {
  for (let tries = 0; tries < 5 && !signal.aborted; tries += 1) {
    socket.send(packet)
    await sleep(800, undefined, { signal }).catch(() => undefined) // only the abort rejects; the loop ends by it
  }
}

async function sendUdp({ host, port }: GameAddress, packet: Buffer): Promise<void> {
  const socket = createSocket('udp4')
  await new Promise<void>((resolve, reject) => {
    socket.send(packet, port, host, (error) => (error === null ? resolve() : reject(error)))
  })
  socket.close()
}

/** Sends a question and collects bytes until `accept` takes them, for at most 5 s. */
async function askTcp<T>(
  { host, port }: GameAddress,
  question: Buffer,
  accept: (bytes: Buffer) => T | undefined,
): Promise<T> {
  const socket = connect({ host, port, timeout: 5000 })
  socket.on('timeout', () => socket.destroy(new Error(`no answer from ${host}:${port} over TCP`)))
  try {
    await once(socket, 'connect')
    socket.write(question)
    let bytes = Buffer.alloc(0)
    for await (const chunk of socket) {
      bytes = Buffer.concat([bytes, Buffer.from(chunk)])
      const taken = accept(bytes)
      if (taken !== undefined) return taken
    }
    throw new Error(`${host}:${port} closed the connection without the right answer`)
  } finally {
    socket.destroy()
  }
}
