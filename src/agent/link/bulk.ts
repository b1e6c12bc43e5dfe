import { createHash } from 'node:crypto'
import { type ClientRequest, type IncomingMessage, type RequestOptions, request as requestPlain } from 'node:http'
import { request as requestSecure } from 'node:https'
import type { Socket } from 'node:net'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { BULK_PATH, TRANSFER_LIMITS } from '../../shared/protocol/files.ts'
import { NODE_ID_HEADER, NODE_KEY_HEADER } from '../../shared/protocol/frames.ts'
import { AgentFailure } from '../failure.ts'
import { errorText } from '../logger.ts'
import type { ConnectTarget } from './connect.ts'
import { connectPlain } from './daemon-connection.ts'
import { httpUrl } from './daemon-url.ts'

/** What a transfer is watched by. */
export interface TransferWatch {
  readonly signal: AbortSignal
  progress(report: { readonly bytes: number }): void
}

/** The way of bytes between this node and its daemon: over HTTP, at tickets that the daemon has given. */
export interface Bulk {
  /** Delivers bytes; resolves with their SHA-256 when the daemon has taken all of them. */
  deliver(ticket: string, content: AsyncIterable<Uint8Array>, watch: TransferWatch): Promise<{ sha256: string }>
  /** Fetches bytes, and resolves when `take` has taken all of them. */
  fetch<T>(ticket: string, take: (content: AsyncIterable<Uint8Array>) => Promise<T>, watch: TransferWatch): Promise<T>
}

/** Transfers with the node's own credentials. Nothing is ever whole in memory; what moves nothing for 30 s is given up. */
export function createBulk(target: ConnectTarget): Bulk {
  return {
    deliver: async (ticket, content, watch) => {
      const hash = createHash('sha256')
      const counted = counting(watch, (piece) => hash.update(piece))
      const request = open(target, 'PUT', ticket, watch.signal)
      const answer = answerOf(request)
      answer.catch(() => {}) // awaited below, and when the sending fails it says why
      try {
        await pipeline(content, counted, request)
      } catch (error) {
        request.destroy()
        throw await failureOf(error, answer, watch)
      }
      await finished(await failing(answer, watch))
      return { sha256: hash.digest('hex') }
    },
    fetch: async (ticket, take, watch) => {
      const request = open(target, 'GET', ticket, watch.signal)
      request.end()
      const answer = await failing(answerOf(request), watch)
      if (answer.statusCode !== 200) await finished(answer)
      const counted = counting(watch, () => {})
      try {
        // Both end together; why the bytes were not taken says more than that they were not.
        const taking = take(counted).catch((error: unknown) => {
          counted.destroy() // nobody reads it any more
          throw error
        })
        const [taken] = await Promise.allSettled([taking, pipeline(answer, counted)])
        if (taken.status === 'fulfilled') return taken.value
        throw taken.reason instanceof AgentFailure ? taken.reason : broken(taken.reason, watch)
      } finally {
        answer.destroy()
      }
    },
  }
}

function open(target: ConnectTarget, method: string, ticket: string, signal: AbortSignal): ClientRequest {
  const url = httpUrl(target.url, `${BULK_PATH}/${ticket}`)
  const headers = { [NODE_ID_HEADER]: target.nodeId, [NODE_KEY_HEADER]: target.nodeKey }
  const body = method === 'PUT' ? { 'content-type': 'application/octet-stream' } : {}
  const options: RequestOptions = { method, headers: { ...headers, ...body }, signal, agent: false }
  const { createConnection } = target
  // `http` uses nothing of a Socket that a Duplex has not, and takes a connection that comes later by the second argument.
  if (createConnection !== undefined) options.createConnection = () => createConnection() as Socket
  else if (url.protocol === 'http:') {
    options.createConnection = (_, done) => {
      connectPlain(url, target).then(
        (socket) => done(null, socket),
        (error: Error) => done(error, undefined as never), // as `http` itself calls it
      )
      return undefined
    }
  }
  const secure = createConnection === undefined && url.protocol === 'https:'
  const request = secure
    ? requestSecure(url, { ...options, ...(target.ca === undefined ? {} : { ca: target.ca }) })
    : requestPlain(url, options)
  request.setTimeout(TRANSFER_LIMITS.stallMs, () => request.destroy(new Error('Nothing moved for 30 s')))
  return request
}

function answerOf(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once('response', resolve)
    request.once('error', reject)
    request.on('error', () => {}) // what follows the first one says nothing more
  })
}

/** Reads the answer to its end; one that is no success is the daemon's refusal. */
async function finished(answer: IncomingMessage): Promise<void> {
  let text = ''
  for await (const piece of answer.setEncoding('utf8')) if (text.length < 4096) text += String(piece)
  if (answer.statusCode === 200) return
  throw new AgentFailure(
    'CANCELLED',
    `The daemon has refused the transfer (${answer.statusCode}): ${text.slice(0, 200)}`,
  )
}

/** Counts what passes, reports it, and lets no more come than the reader takes. */
function counting({ progress }: TransferWatch, see: (piece: Uint8Array) => void): Transform {
  let bytes = 0
  return new Transform({
    transform: (piece: Uint8Array, _encoding, done) => {
      see(piece)
      bytes += piece.length
      progress({ bytes })
      done(null, piece)
    },
  })
}

async function failing<T>(work: Promise<T>, watch: TransferWatch): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw broken(error, watch)
  }
}

/** Why sending failed: the file's own failure, the daemon's refusal, or the connection. */
async function failureOf(error: unknown, answer: Promise<IncomingMessage>, watch: TransferWatch): Promise<unknown> {
  if (error instanceof AgentFailure || watch.signal.aborted) return broken(error, watch)
  try {
    await finished(await answer)
  } catch (refusal) {
    if (refusal instanceof AgentFailure) return refusal
  }
  return broken(error, watch)
}

function broken(error: unknown, { signal }: TransferWatch): AgentFailure {
  if (error instanceof AgentFailure) return error
  if (signal.aborted) return new AgentFailure('CANCELLED', 'The transfer was cancelled', { cause: error })
  return new AgentFailure('CANCELLED', `The transfer was cut off: ${errorText(error)}`, { cause: error })
}
