import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'

/** Answers a call; `body` is what came with it. */
export type Answer = (response: ServerResponse, call: { readonly url: URL; readonly body: string }) => void

const VERSION = { Version: '20.10.24', ApiVersion: '1.41' }
const INFO = { MemoryLimit: true, PidsLimit: true, CPUSet: true, CgroupVersion: '2', SecurityOptions: ['name=seccomp'] }
const IMAGE = { Id: 'sha256:1', Config: {} }

/** An engine that answers what a test says, which no real one would: on a socket of its own. */
export class FakeEngine {
  readonly folder = mkdtempSync(join(tmpdir(), 'panel-fake-engine-'))
  readonly socket = join(this.folder, 'engine.sock')
  /** Every call with its body, as `GET /path`. */
  readonly calls: { readonly call: string; readonly body: string; closed: boolean }[] = []
  /** What is answered, by the beginning of the call; the first that fits. */
  answers: readonly (readonly [call: string, answer: Answer | object])[] = []
  /** What becomes of an attachment. */
  onAttach: (socket: Duplex) => void = (socket) => socket.destroy()
  readonly #server: Server

  private constructor() {
    this.#server = createServer((request, response) => void this.#take(request, response))
    this.#server.on('upgrade', (_request, socket) => {
      socket.on('error', () => undefined)
      socket.write('HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n')
      this.onAttach(socket)
    })
  }

  static async listen(): Promise<FakeEngine> {
    const engine = new FakeEngine()
    await new Promise<void>((resolve) => engine.#server.listen(engine.socket, resolve))
    return engine
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** The calls that begin so. */
  of(call: string) {
    return this.calls.filter((one) => one.call.startsWith(call))
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://engine')
    const call = `${request.method} ${url.pathname}`
    let body = ''
    for await (const chunk of request.setEncoding('utf8')) body += chunk
    const taken = { call, body, closed: false }
    this.calls.push(taken)
    response.on('close', () => {
      taken.closed = true
    })
    const usual = [
      ['GET /version', VERSION],
      ['GET /info', INFO],
      ['GET /images/', IMAGE],
      ['GET /containers/json', []],
    ] as const
    const found = [...this.answers, ...usual].find(([begin]) => call.startsWith(begin))?.[1]
    if (found === undefined) json(404, { message: 'no such thing' })(response, { url, body })
    else if (typeof found === 'function') (found as Answer)(response, { url, body })
    else json(200, found)(response, { url, body })
  }
}

/** An answer of JSON. */
export function json(status: number, value: object): Answer {
  return (response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
  }
}

/** An answer of text as it is. */
export function raw(status: number, text: string, headers: Record<string, string> = {}): Answer {
  return (response) => {
    response.writeHead(status, headers).end(text)
  }
}
