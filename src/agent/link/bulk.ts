import type { ClientRequest, IncomingMessage } from 'node:http'
import { collectPassed } from '../../shared/platform/collect.ts'
import { type CheckName, type RunningCheck, startCheck } from '../../shared/platform/transfer-check.ts'
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
  /**
   * Delivers bytes; resolves with their check, SHA-256 where none is named, when the daemon has taken all of them. A piece may be used again
   * by who makes it when the next but one is asked for.
   */
  deliver(ticket: string, content: AsyncIterable<Uint8Array>, watch: TransferWatch, check?: CheckName): Promise<string>
  /** Fetches bytes, and resolves when `take` has taken all of them. */
  fetch<T>(ticket: string, take: (content: AsyncIterable<Uint8Array>) => Promise<T>, watch: TransferWatch): Promise<T>
}

/** Transfers with the node's own credentials. Nothing is ever whole in memory; what moves nothing for 30 s is given up. */
export function createBulk(target: ConnectTarget): Bulk {
  return {
    deliver: async (ticket, content, watch, check = 'sha256') => {
      const running = startCheck(check)
      const request = open(target, 'PUT', ticket, watch.signal)
      const answer = answerOf(request)
      answer.catch(() => {}) // awaited below, and when the sending fails it says why
      try {
        await send(request, counted(content, watch), running)
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
      try {
        return await take(passing(counted(answer, watch)))
      } catch (error) {
        throw broken(error, watch)
      } finally {
        answer.destroy()
      }
    },
  }
}

/** Sends all of the content, and ends the request. One piece is on its way while the next is made, never two. */
async function send(request: ClientRequest, content: AsyncIterable<Uint8Array>, running: RunningCheck): Promise<void> {
  let fail = (_: Error): void => {}
  // Writes that wait when the connection goes do not all get an error.
  request.once('close', () => fail(new Error('the connection was closed')))
  let sent = Promise.resolve()
  for await (const piece of content) {
    running.add(piece)
    await sent
    sent = new Promise((resolve, reject) => {
      fail = reject
      request.write(piece, (error) => (error ? reject(error) : resolve()))
    })
    sent.catch(() => {}) // awaited above or below, unless the content fails first
  }
  await sent
  request.end()
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

/** Counts what passes, and reports it. */
async function* counted(
  content: AsyncIterable<Uint8Array>,
  { progress }: TransferWatch,
): AsyncGenerator<Uint8Array, void, undefined> {
  let bytes = 0
  for await (const piece of content) {
    bytes += piece.length
    progress({ bytes })
    yield piece
  }
}

/** Each piece of a connection is memory of its own, which nobody needs any more when the next is asked for. */
async function* passing(content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const piece of content) {
    yield piece
    collectPassed(piece.length)
  }
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
