import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { answerAll } from './processes.ts'

/** What the bench asks of a bare feed: to listen, and to pass on so many lines in a second, some every so many milliseconds. */
export interface BareFeedQuestion {
  readonly linesPerSecond: number
  readonly everyMs: number
}

/** Where viewers find it. */
export interface BareFeedAnswer {
  readonly url: string
}

const SERVER = 'srv_bare0000000000000000000000'

/**
 * The least that a program of Node does for viewers of a console: it makes the frames of lines that it makes up itself, once, and writes them to all. What
 * that takes is a floor for the daemon, which also has to get the lines, keep them, and know how far each viewer is.
 */
answerAll(async (given) => {
  const { linesPerSecond, everyMs } = given as BareFeedQuestion // from the bench, see Helper.ask
  const viewers = new Set<Socket>()
  const server = createServer((request, response) => {
    const { socket } = request
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(': connected\n\n')
    viewers.add(socket)
    socket.on('close', () => viewers.delete(socket))
    socket.on('error', () => socket.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const beganMs = Date.now()
  let said = 0
  const passOn = (): void => {
    let frames = ''
    for (const due = ((Date.now() - beganMs) / 1000) * linesPerSecond; said < due; ) {
      said += 1
      frames += frameOf(said, Math.floor(beganMs + (said / linesPerSecond) * 1000))
    }
    const chunk = Buffer.from(`${Buffer.byteLength(frames).toString(16)}\r\n${frames}\r\n`)
    if (frames !== '') for (const socket of viewers) socket.write(chunk)
  }
  // By the time that has passed since the beginning, so that none is late for the lateness of those before.
  const next = (count: number): void => {
    setTimeout(
      () => {
        passOn()
        next(count + 1)
      },
      beganMs + count * everyMs - Date.now(),
    )
  }
  next(1)
  const answer: BareFeedAnswer = { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
  return answer
})

/** As long as those of the daemon for lines of the talkative server. */
function frameOf(seq: number, ms: number): string {
  const line = `line ${seq} [Server thread/INFO]: something happened in the world`
  const data = { type: 'console', serverId: SERVER, line, stream: 'stdout', seq, timestamp: new Date(ms).toISOString() }
  return `id: 0bare0-${seq}\nevent: console\ndata: ${JSON.stringify(data)}\n\n`
}
