import { type IncomingMessage, type RequestOptions, request } from 'node:http'
import type { Duplex } from 'node:stream'

/** An answer of the engine to anything but a stream is read as far as this. */
const MOST_ANSWER_BYTES = 4 * 1024 * 1024
const ANSWER_MS = 60_000
const MOST_MESSAGE = 500

/** The engine has refused a call. `status`: of HTTP; 404 for what is not there, 409 for a state that does not fit. */
export class EngineRefusal extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** The engine cannot be reached, or has gone away in the middle of an answer. */
export class EngineAway extends Error {}

/** A call of the engine. */
export interface EngineCall {
  readonly method: 'GET' | 'POST' | 'DELETE' | 'HEAD'
  /** Below the version, with its query. */
  readonly path: string
  readonly body?: object
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

/** A connection that has become a stream in both directions; `early` are the bytes that came with the answer. */
export interface Attached {
  readonly socket: Duplex
  readonly early: Buffer
}

/**
 * A container engine by the API of Docker on its unix socket, as Docker and Podman serve it. Holders use it as well, so it
 * needs nothing but Node.
 */
export class Engine {
  readonly socketPath: string

  constructor(socketPath: string) {
    this.socketPath = socketPath
  }

  /** The answer as JSON, `undefined` for an empty one. Rejects with {@link EngineRefusal} or {@link EngineAway}. */
  async json(call: EngineCall): Promise<unknown> {
    const answer = await this.stream({ ...call, signal: limited(call.signal) })
    const text = await readAll(answer)
    if (text === '') return undefined
    try {
      return JSON.parse(text)
    } catch {
      throw new EngineAway('The container engine has answered with what is no JSON')
    }
  }

  /** The answer as it comes; a refusal is read and thrown. */
  async stream(call: EngineCall): Promise<IncomingMessage> {
    const answer = await this.#send(call)
    const status = answer.statusCode ?? 0
    // 304: it is so already. A redirect leads elsewhere than asked.
    if ((status >= 200 && status < 300) || status === 304) return answer
    throw new EngineRefusal(status, messageOf(await readAll(answer)) || `status ${status}`)
  }

  /** A call whose connection becomes a stream, as for `attach`. */
  attach(path: string): Promise<Attached> {
    return new Promise((resolve, reject) => {
      const headers = { connection: 'Upgrade', upgrade: 'tcp' }
      const sent = request(this.#options({ method: 'POST', path, headers }))
      const timer = setTimeout(() => sent.destroy(new EngineAway('The container engine does not answer')), ANSWER_MS)
      sent.once('upgrade', (_answer, socket, early) => {
        clearTimeout(timer)
        resolve({ socket, early })
      })
      sent.once('response', (answer) => {
        clearTimeout(timer)
        readAll(answer).then(
          (text) => reject(new EngineRefusal(answer.statusCode ?? 0, messageOf(text))),
          (error: unknown) => reject(error),
        )
      })
      sent.once('error', (error) => {
        clearTimeout(timer)
        reject(away(error))
      })
      sent.end()
    })
  }

  #send(call: EngineCall): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const sent = request(this.#options(call), resolve)
      sent.once('error', (error) => reject(away(error)))
      sent.end(call.body === undefined ? undefined : JSON.stringify(call.body))
    })
  }

  #options({ method, path, body, headers, signal }: EngineCall): RequestOptions {
    return {
      socketPath: this.socketPath,
      method,
      path,
      headers: {
        host: 'engine',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      agent: false,
      ...(signal === undefined ? {} : { signal }),
    }
  }
}

/** Whether an error says that the thing is not there. */
export function isMissing(error: unknown): boolean {
  return error instanceof EngineRefusal && error.status === 404
}

function limited(signal: AbortSignal | undefined): AbortSignal {
  const limit = AbortSignal.timeout(ANSWER_MS)
  return signal === undefined ? limit : AbortSignal.any([signal, limit])
}

function away(error: Error): Error {
  return new EngineAway(`The container engine cannot be reached: ${error.message}`, { cause: error })
}

async function readAll(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes > MOST_ANSWER_BYTES) throw new Error('its answer is too long')
    }
  } catch (error) {
    throw new EngineAway(
      `The container engine has gone away: ${error instanceof Error ? error.message : String(error)}`,
    )
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** The engine's reason as one line of plain text. */
function messageOf(text: string): string {
  let said = text
  try {
    const answer: unknown = JSON.parse(text)
    if (typeof answer === 'object' && answer !== null && 'message' in answer) said = String(answer.message)
  } catch {
    // some refusals are plain text
  }
  return reasonOf(said)
}

/** Why the engine could not do something, as one line for people; of a full disk, with whose disk that is. */
export function reasonOf(said: string): string {
  const reason = plainText(said)
  if (!reason.includes('no space left on device')) return reason
  return `the disk of the container engine is full; \`docker system df\` shows what it holds (${reason})`
}

/** What an engine says, as one line of text for people. */
export function plainText(said: string): string {
  return said
    .slice(0, 4 * MOST_MESSAGE)
    .replace(/\p{Cc}+/gu, ' ')
    .trim()
    .slice(0, MOST_MESSAGE)
}
