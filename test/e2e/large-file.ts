import { createHash, randomBytes } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { pause } from './wait.ts'

export const MIB = 1024 * 1024

/** Writes a file of which no two MiB are the same; answers its SHA-256. */
export async function fill(path: string, bytes: number): Promise<string> {
  const hash = createHash('sha256')
  const file = createWriteStream(path)
  const block = randomBytes(MIB)
  for (let at = 0; at < bytes; at += MIB) {
    block.writeUInt32BE(at / MIB)
    hash.update(block)
    if (!file.write(Buffer.from(block))) await new Promise<void>((resolve) => file.once('drain', () => resolve()))
  }
  await new Promise<void>((resolve) => file.end(() => resolve()))
  return hash.digest('hex')
}

/** The SHA-256 of a file. */
export async function hashOf(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const piece of createReadStream(path, { highWaterMark: MIB })) hash.update(piece)
  return hash.digest('hex')
}

/** By how many MiB the resident memory of each process has grown at most while `work` ran. */
export async function growth(pids: readonly number[], work: () => Promise<void>): Promise<number[]> {
  const rss = (): Promise<number[]> => Promise.all(pids.map(rssMib))
  const before = await rss()
  let most = before
  let isOver = false
  const watch = async (): Promise<void> => {
    while (!isOver) {
      const now = await rss()
      most = most.map((value, index) => Math.max(value, now[index] ?? 0))
      await pause(100)
    }
  }
  const watching = watch()
  try {
    await work()
  } finally {
    isOver = true
    await watching
  }
  return most.map((value, index) => value - (before[index] ?? 0))
}

/** How many MiB processes have had resident at most, of those that it was told of while they ran; for `onStart`. */
export class Peaks {
  mostMib = 0

  watch = (pid: number): void => void this.#watch(pid)

  async #watch(pid: number): Promise<void> {
    for (;;) {
      const now = await rssMib(pid).catch(() => Number.NaN) // it has ended
      if (Number.isNaN(now)) return
      this.mostMib = Math.max(this.mostMib, now)
      await pause(100)
    }
  }
}

async function rssMib(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1024
}

/** A way to a panel that breaks each time so many bytes, or at random up to twice as many, have gone over it. */
export class CuttingWay {
  cuts = 0
  readonly #sockets = new Set<Socket>()
  readonly #server = createServer((socket) => this.#carry(socket))
  readonly #target: URL
  readonly #averageBytes: number
  #left: number

  static async open(target: string, averageBytes: number): Promise<CuttingWay> {
    const way = new CuttingWay(target, averageBytes)
    await new Promise<void>((resolve) => way.#server.listen(0, '127.0.0.1', resolve))
    return way
  }

  private constructor(target: string, averageBytes: number) {
    this.#target = new URL(target)
    this.#averageBytes = averageBytes
    this.#left = this.#next()
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}` // it listens on TCP
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #next(): number {
    return Math.ceil(Math.random() * 2 * this.#averageBytes)
  }

  #carry(client: Socket): void {
    const panel = connect(Number(this.#target.port), this.#target.hostname)
    const cut = (): void => {
      for (const socket of [client, panel]) socket.destroy()
    }
    for (const [from, to] of [
      [client, panel],
      [panel, client],
    ] as const) {
      this.#sockets.add(from)
      from.on('error', cut).on('close', () => {
        this.#sockets.delete(from)
        cut()
      })
      from.on('data', (piece) => {
        this.#left -= piece.length
        if (this.#left < 0) {
          this.#left = this.#next()
          this.cuts++
          return cut()
        }
        if (to.write(piece)) return
        from.pause()
        to.once('drain', () => from.resume())
      })
    }
  }
}
