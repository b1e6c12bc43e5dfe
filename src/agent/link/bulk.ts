import type { ClientRequest, IncomingMessage } from 'node:http'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { collectPassed } from '../../shared/platform/collect.ts'
import { type CheckName, startCheck } from '../../shared/platform/transfer-check.ts'
import { BULK_PATH } from '../../shared/protocol/files.ts'
import { AgentFailure } from '../failure.ts'
import { errorText } from '../logger.ts'
import type { ConnectTarget } from './connect.ts'
import { answerOf, openRequest } from './daemon-request.ts'

/** What a transfer is watched by. */
export interface TransferWatch {
  readonly signal: AbortSignal
  progress(report: { readonly bytes: number }): void
}

/** The way of bytes between this node and its daemon: over HTTP, at tickets that the daemon has given. */
export interface Bulk {
  /** Delivers bytes; resolves with their check, SHA-256 where none is named, when the daemon has taken all of them. */
  deliver(ticket: string, content: AsyncIterable<Uint8Array>, watch: TransferWatch, check?: CheckName): Promise<string>
  /** Fetches bytes, and resolves when `take` has taken all of them. */
  fetch<T>(ticket: string, take: (content: AsyncIterable<Uint8Array>) => Promise<T>, watch: TransferWatch): Promise<T>
}

/** Transfers with the node's own credentials. Nothing is ever whole in memory; what moves nothing for 30 s is given up. */
export function createBulk(target: ConnectTarget): Bulk {
  return {
    deliver: async (ticket, content, watch, check = 'sha256') => {
      const running = startCheck(check)
      const counted = counting(watch, (piece) => running.add(piece))
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
      return running.text()
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

function open(target: ConnectTarget, method: 'GET' | 'PUT', ticket: string, signal: AbortSignal): ClientRequest {
  const headers = method === 'PUT' ? { 'content-type': 'application/octet-stream' } : {}
  return openRequest(target, { method, path: `${BULK_PATH}/${ticket}`, headers, signal })
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
      collectPassed(piece.length)
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
