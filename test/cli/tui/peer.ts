import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { LineStream } from '../../../src/shared/protocol/console.ts'
import { serverAnswer } from './server-answer.ts'

/** A line of the peer's log; its number is its place. */
interface PeerLine {
  readonly text: string
  readonly stream: LineStream
  readonly timestamp: string
}

/** A daemon of the tests: speaks the console part of the API over real HTTP, from a log that the test writes. */
export interface Peer {
  readonly baseUrl: string
  /** Commands received, in order. */
  readonly commands: readonly { readonly text: string; readonly atMs: number }[]
  readonly orders: readonly string[]
  /** How many console streams are open. */
  readonly viewers: number
  /** The header Last-Event-ID of every console stream so far. */
  readonly resumes: readonly (string | undefined)[]
  print(...texts: string[]): void
  printAs(stream: LineStream, text: string): void
  /** Lines up to this number are forgotten: a viewer that resumes before them is told so. */
  trim(upTo: number): void
  /** Sends a line's number but not the line to the open streams, so that only the log has it. */
  printUnseen(...texts: string[]): void
  event(name: string, data: unknown): void
  consoleEvent(name: string, data: unknown): void
  /** Cuts every stream. */
  cut(): void
  /** From now on every request is answered so. */
  refuse(refusal: { readonly status: number; readonly code: string } | undefined): void
  /** The same for event streams only. */
  refuseStreams(refusal: { readonly status: number; readonly code: string } | undefined): void
  refuseCommands(refusal: { readonly status: number; readonly code: string } | undefined): void
  /** Cuts every stream and listens no more, as when the daemon has died. */
  goAway(): Promise<void>
  /** Listens again, where it was; nothing when it does. */
  comeBack(): Promise<void>
  close(): Promise<void>
}

/** The server that every peer has. */
export const SERVER_ID = `srv_${'0'.repeat(26)}`

const EPOCH = 'e1'

/** Starts a peer on a free port of the loopback. */
export async function startPeer(): Promise<Peer> {
  const log: PeerLine[] = []
  const consoles = new Set<ServerResponse>()
  const events = new Set<ServerResponse>()
  const commands: { text: string; atMs: number }[] = []
  const orders: string[] = []
  const resumes: (string | undefined)[] = []
  let first = 1
  let refusal: { status: number; code: string } | undefined
  let streamRefusal: { status: number; code: string } | undefined
  let commandRefusal: { status: number; code: string } | undefined

  const now = (): string => new Date().toISOString()
  const sendEvent = (to: Iterable<ServerResponse>, name: string, data: unknown, id?: string): void => {
    const text = `${id === undefined ? '' : `id: ${id}\n`}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`
    for (const response of to) response.write(text)
  }
  const lineText = (seq: number): string => {
    const line = log[seq - 1]
    const data = {
      type: 'console',
      serverId: SERVER_ID,
      line: line?.text,
      stream: line?.stream,
      seq,
      timestamp: line?.timestamp,
    }
    return `id: ${EPOCH}-${seq}\nevent: console\ndata: ${JSON.stringify(data)}\n\n`
  }
  const add = (stream: LineStream, texts: readonly string[], seen: boolean): void => {
    let out = ''
    for (const text of texts) {
      log.push({ text, stream, timestamp: now() })
      if (seen) out += lineText(log.length)
    }
    if (out !== '') for (const response of consoles) response.write(out)
  }
  const answer = (response: ServerResponse, status: number, data: unknown): void => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ success: true, data }))
  }
  const refuse = (response: ServerResponse, { status, code }: { status: number; code: string }): void => {
    const body = { success: false, error: `refused with ${code}`, code }
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }
  const openStream = (response: ServerResponse, set: Set<ServerResponse>): void => {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
    response.write(': connected\nretry: 1000\n\n')
    sendEvent([response], 'connected', {
      type: 'connected',
      serverId: SERVER_ID,
      timestamp: now(),
      lastSeq: log.length,
    })
    set.add(response)
    response.on('close', () => set.delete(response))
  }
  const streamLines = (request: IncomingMessage, response: ServerResponse, url: URL): void => {
    const last = request.headers['last-event-id']
    resumes.push(typeof last === 'string' ? last : undefined)
    openStream(response, consoles)
    let from = Math.max(first, log.length - Number(url.searchParams.get('lines') ?? 200) + 1)
    if (typeof last === 'string') {
      const seen = Number(last.split('-')[1])
      const missed = Math.max(0, first - 1 - seen)
      from = Math.max(first, seen + 1)
      const frame = {
        type: 'resume_console',
        serverId: SERVER_ID,
        from: seen + 1,
        to: from - 1,
        missed,
        reason: missed > 0 ? 'trimmed' : null,
        timestamp: now(),
      }
      sendEvent([response], 'resume_console', frame, `${EPOCH}-${from - 1}`)
    }
    let out = ''
    for (let seq = from; seq <= log.length; seq += 1) out += lineText(seq)
    if (out !== '') response.write(out)
  }
  const page = (response: ServerResponse, url: URL): void => {
    const lines = Number(url.searchParams.get('lines') ?? 100)
    const seqOf = (name: string): number | undefined => {
      const text = url.searchParams.get(name)
      return text === null ? undefined : Number(text.split('-')[1])
    }
    const after = seqOf('after')
    const before = seqOf('before') ?? log.length + 1
    const start = after === undefined ? Math.max(first, before - lines) : Math.max(first, after + 1)
    const end = after === undefined ? before : Math.min(before, start + lines)
    const logs = []
    for (let seq = start; seq < end; seq += 1) {
      const line = log[seq - 1]
      if (line !== undefined)
        logs.push({ id: `${EPOCH}-${seq}`, seq, stream: line.stream, data: line.text, timestamp: line.timestamp })
    }
    answer(response, 200, {
      logs,
      count: logs.length,
      requestedLines: lines,
      epoch: EPOCH,
      firstSeq: first,
      lastSeq: log.length,
    })
  }
  const post = async (request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> => {
    let body = ''
    for await (const chunk of request) body += String(chunk)
    const sent: unknown = JSON.parse(body)
    if (url.pathname.endsWith('/console/command')) {
      if (commandRefusal !== undefined) return refuse(response, commandRefusal)
      const text = textOf(sent, 'command')
      commands.push({ text, atMs: performance.now() })
      add('stdin', [text], true)
      return answer(response, 202, { sent: true, timestamp: now() })
    }
    orders.push(textOf(sent, 'action'))
    answer(response, 202, {
      action: textOf(sent, 'action'),
      status: 'running',
      desired: 'running',
      generation: 2,
      commandId: `cmd_${'0'.repeat(26)}`,
    })
  }

  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://peer')
    if (request.headers.authorization !== 'Bearer test-token')
      return refuse(response, { status: 401, code: 'UNAUTHENTICATED' })
    if (refusal !== undefined) return refuse(response, refusal)
    const stream = url.pathname.endsWith('/console/stream') || url.pathname.endsWith('/events')
    if (stream && streamRefusal !== undefined) return refuse(response, streamRefusal)
    if (url.pathname.endsWith('/console/stream')) return streamLines(request, response, url)
    if (url.pathname.endsWith('/events')) return openStream(response, events)
    if (url.pathname.endsWith('/logs')) return page(response, url)
    if (request.method === 'POST') return void post(request, response, url)
    answer(response, 200, serverAnswer('running'))
  })
  const listen = (port: number): Promise<void> =>
    new Promise((resolve) => server.listen(port, '127.0.0.1', () => resolve()))
  const goAway = async (): Promise<void> => {
    if (!server.listening) return
    const closed = new Promise((resolve) => server.close(resolve))
    server.closeAllConnections()
    await closed
  }
  await listen(0)
  const { port } = server.address() as AddressInfo // a TCP server that listens has such an address
  return {
    baseUrl: `http://127.0.0.1:${port}`,
    commands,
    orders,
    resumes,
    get viewers() {
      return consoles.size
    },
    print: (...texts) => add('stdout', texts, true),
    printAs: (stream, text) => add(stream, [text], true),
    printUnseen: (...texts) => add('stdout', texts, false),
    trim: (upTo) => {
      first = upTo + 1
    },
    event: (name, data) => sendEvent(events, name, data),
    consoleEvent: (name, data) => sendEvent(consoles, name, data),
    cut: () => {
      for (const response of [...consoles, ...events]) response.destroy()
    },
    refuse: (next) => {
      refusal = next
    },
    refuseStreams: (next) => {
      streamRefusal = next
    },
    refuseCommands: (next) => {
      commandRefusal = next
    },
    goAway,
    comeBack: () => (server.listening ? Promise.resolve() : listen(port)),
    close: goAway,
  }
}

function textOf(body: unknown, name: string): string {
  const value: unknown = typeof body === 'object' && body !== null ? Reflect.get(body, name) : undefined
  return typeof value === 'string' ? value : ''
}
