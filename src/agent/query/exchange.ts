import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { connect, isIPv6 } from 'node:net'
import type { Clock } from '../../shared/kernel/time.ts'

/** Where a game is asked, and until when. */
export interface QueryTarget {
  readonly host: string
  readonly port: number
  readonly clock: Clock
  /** Aborts when the answer is of no use any more: the exchange then rejects. */
  readonly signal: AbortSignal
}

/** Packets of UDP get lost: a question is sent again after this time. */
const AGAIN_MS = 500
/** More than any answer that is asked for has; a Minecraft server sends its picture along. */
const MOST_TCP_BYTES = 256 * 1024
const FIRST_TCP_BYTES = 2048
/** A game that answers in smaller pieces than any network makes is read no further. */
const MOST_PIECES = 1000
const MOST_DATAGRAMS = 64
const LATE = 'no answer in time'

/** A game that is asked by UDP: nobody but the game is heard. */
export interface UdpTalk {
  /** Sends until `read` takes an answer; it answers `undefined` for one that is none, and may throw. */
  ask<T>(question: Buffer, read: (answer: Buffer) => T | undefined): Promise<T>
}

/** Lets `talk` speak with a game by UDP. */
export async function overUdp<T>(target: QueryTarget, talk: (udp: UdpTalk) => Promise<T>): Promise<T> {
  const { host, port } = target
  const socket = createSocket(isIPv6(host) ? 'udp6' : 'udp4')
  // A port that nobody has open makes an error, and is no more than a lost packet.
  socket.on('error', () => undefined)
  try {
    await new Promise<void>((resolve) => socket.connect(port, host, resolve))
    const budget = { datagrams: MOST_DATAGRAMS }
    return await talk({ ask: (question, read) => askUdp(socket, target, { question, read, budget }) })
  } finally {
    socket.close()
  }
}

interface UdpQuestion<T> {
  readonly question: Buffer
  readonly read: (answer: Buffer) => T | undefined
  /** What the whole talk may still receive. */
  readonly budget: { datagrams: number }
}

async function askUdp<T>(
  socket: UdpSocket,
  { clock, signal }: QueryTarget,
  { question, read, budget }: UdpQuestion<T>,
): Promise<T> {
  const over = new AbortController()
  const answered = new Promise<T>((resolve, reject) => {
    socket.on('message', (answer) => {
      budget.datagrams -= 1
      if (budget.datagrams < 0) return reject(new Error('too many datagrams'))
      try {
        const taken = read(answer)
        if (taken !== undefined) resolve(taken)
      } catch (error) {
        reject(error)
      }
    })
  })
  try {
    return await Promise.race([answered, sendAgain()])
  } finally {
    over.abort()
    socket.removeAllListeners('message')
  }

  async function sendAgain(): Promise<never> {
    const ended = AbortSignal.any([signal, over.signal])
    while (!ended.aborted) {
      socket.send(question)
      await clock.sleep(AGAIN_MS, ended)
    }
    throw new Error(LATE)
  }
}

/** Sends a question by TCP. `read` gets all bytes so far, and answers `undefined` to hear more. */
export function askTcp<T>(
  { host, port, signal }: QueryTarget,
  question: Buffer,
  read: (bytes: Buffer) => T | undefined,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const socket = connect({ host, port })
    let heard = Buffer.alloc(FIRST_TCP_BYTES)
    let size = 0
    let pieces = 0
    const end = (settle: () => void): void => {
      signal.removeEventListener('abort', late)
      socket.destroy()
      settle()
    }
    const fail = (message: string): void => end(() => reject(new Error(message)))
    const late = (): void => fail(LATE)
    const take = (piece: Buffer): void => {
      pieces += 1
      if (size + piece.length > heard.length) {
        heard = Buffer.concat([heard.subarray(0, size)], Math.min(MOST_TCP_BYTES, 2 * (size + piece.length)))
      }
      piece.copy(heard, size)
      size += piece.length
      try {
        const taken = read(heard.subarray(0, size))
        if (taken !== undefined) end(() => resolve(taken))
      } catch (error) {
        end(() => reject(error))
      }
    }
    socket.on('data', (piece) => {
      if (size + piece.length > MOST_TCP_BYTES || pieces === MOST_PIECES) fail('the answer is too long')
      else take(piece)
    })
    socket.on('error', (error) => end(() => reject(error)))
    socket.on('close', () => fail('the connection was closed without an answer'))
    socket.on('connect', () => socket.write(question))
    signal.addEventListener('abort', late)
    if (signal.aborted) late()
  })
}
