import { connect, type Socket } from 'node:net'
import { ConsoleReader, KnownFrames, type Seen } from './console-reader.ts'
import { answerAll } from './processes.ts'

/** What the bench asks of a process of viewers. */
export type ViewerQuestion =
  | {
      readonly ask: 'open'
      readonly url: string
      readonly path: string
      readonly token: string
      readonly count: number
    }
  | { readonly ask: 'begin' }
  | { readonly ask: 'end' }

/** What all viewers of the process have seen since `begin`. */
export interface ViewersSeen extends Seen {
  /** Viewers whose stream has ended. */
  readonly ended: number
}

const AT_A_TIME = 32
/** All viewers read into the same memory, one after the other, so that it stays in the processor's cache. */
const BUFFER = Buffer.alloc(64 * 1024)
const readers: { reader: ConsoleReader; socket: Socket }[] = []
let delays: Float64Array = new Float64Array(0)

answerAll(async (given) => {
  const question = given as ViewerQuestion // from the bench, see Helper.ask
  if (question.ask === 'open') return openAll(question)
  if (question.ask === 'begin') {
    delays.fill(0)
    for (const { reader } of readers) reader.begin()
    return null
  }
  return seen()
})

async function openAll(question: Extract<ViewerQuestion, { ask: 'open' }>): Promise<null> {
  delays = ConsoleReader.delayCounts()
  const known = new KnownFrames()
  let left = question.count
  await Promise.all(
    Array.from({ length: Math.min(AT_A_TIME, left) }, async () => {
      while (left-- > 0) readers.push(await open(question, new ConsoleReader(delays, known)))
    }),
  )
  return null
}

/** Resolves when the first line has come. */
function open(
  { url, path, token }: { url: string; path: string; token: string },
  reader: ConsoleReader,
): Promise<{ reader: ConsoleReader; socket: Socket }> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    const took = (length: number): boolean => {
      if (reader.take(BUFFER.subarray(0, length), Date.now())) resolve({ reader, socket })
      return true
    }
    const socket = connect({ port: Number(port), host: hostname, onread: { buffer: BUFFER, callback: took } }, () => {
      socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\n\r\n`)
    })
    socket.on('error', reject)
    socket.on('close', () => reject(new Error('a stream ended before its first line')))
  })
}

function seen(): ViewersSeen {
  const each = readers.map(({ reader }) => reader.seen)
  const sum = (of: (one: (typeof each)[number]) => number): number => each.reduce((total, one) => total + of(one), 0)
  return {
    lines: sum((one) => one.lines),
    lost: sum((one) => one.lost),
    disordered: sum((one) => one.disordered),
    delays: [...delays],
    ended: readers.filter(({ socket }) => socket.closed).length,
  }
}
