import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import {
  STORE_PATH,
  StoreAnswer,
  type StoreAnswer as StoreAnswers,
  type StoreOperation,
} from '../../shared/protocol/backups.ts'
import { AgentFailure } from '../failure.ts'
import { errorText } from '../logger.ts'
import type { ConnectTarget } from './connect.ts'
import { answerOf, openRequest } from './daemon-request.ts'

/** What of an object store is asked for at the daemon, which alone has the credentials. */
export interface StoreRequests {
  /**
   * Asks at the ticket of a backup; answers come in the order of the operations. Asked again when the daemon is restarted or the
   * connection is cut. Fails as STORE_FAILED with what the store or the daemon has said, or as CANCELLED.
   */
  ask(ticket: string, operations: readonly StoreOperation[], signal: AbortSignal): Promise<StoreAnswers['answers']>
}

/** The longest answer: signed requests for as many operations as one request may have, or a page of a list. */
const ANSWER_BYTES = 4 * 1024 * 1024
const ATTEMPTS = 5
const FIRST_WAIT_MS = 300

const Envelope = z.object({ data: StoreAnswer })
const Refusal = z.object({ code: z.string(), error: z.string() })

/** Asks with the node's own credentials. */
export function createStoreRequests(target: ConnectTarget): StoreRequests {
  return {
    ask: async (ticket, operations, signal) => {
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await askOnce(target, { ticket, operations, signal })
        } catch (error) {
          if (signal.aborted)
            throw new AgentFailure('CANCELLED', 'The work with the store was cancelled', { cause: error })
          if (error instanceof AgentFailure) throw error
          if (attempt >= ATTEMPTS) {
            const what = `The daemon did not answer what was asked of the store: ${errorText(error)}`
            throw new AgentFailure('STORE_FAILED', what, { cause: error })
          }
          // Cut off, or the daemon starts again: what is asked for is the same when it is asked twice.
          await sleep(FIRST_WAIT_MS * 2 ** (attempt - 1), undefined, { signal }).catch(() => undefined)
        }
      }
    },
  }
}

interface Asked {
  readonly ticket: string
  readonly operations: readonly StoreOperation[]
  readonly signal: AbortSignal
}

async function askOnce(target: ConnectTarget, { ticket, operations, signal }: Asked): Promise<StoreAnswers['answers']> {
  const body = Buffer.from(JSON.stringify({ operations }))
  const headers = { 'content-type': 'application/json', 'content-length': String(body.length) }
  const request = openRequest(target, { method: 'POST', path: `${STORE_PATH}/${ticket}`, headers, signal })
  request.end(body)
  const answer = await answerOf(request)
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of answer as AsyncIterable<Buffer>) {
    bytes += piece.length
    if (bytes > ANSWER_BYTES) {
      answer.destroy()
      throw new AgentFailure('STORE_FAILED', 'The daemon has answered more than was asked of the store')
    }
    pieces.push(piece)
  }
  const text = Buffer.concat(pieces).toString('utf8')
  const status = answer.statusCode ?? 0
  if (status === 200) return read(text, operations.length)
  const { code, message } = refusalOf(text)
  // Busy or stopping, not refused.
  if (status === 429 || (status >= 502 && code !== 'BACKUP_STORE_FAILED') || code === 'SHUTTING_DOWN') {
    throw new Error(`${status} ${message}`)
  }
  throw new AgentFailure('STORE_FAILED', message === '' ? `The daemon has refused it (${status})` : message)
}

function read(text: string, count: number): StoreAnswers['answers'] {
  const parsed = Envelope.safeParse(parsedJson(text))
  if (parsed.success && parsed.data.data.answers.length === count) return parsed.data.data.answers
  throw new AgentFailure('STORE_FAILED', 'The daemon has answered something else than was asked of the store')
}

function refusalOf(text: string): { code: string; message: string } {
  const parsed = Refusal.safeParse(parsedJson(text))
  return parsed.success ? { code: parsed.data.code, message: parsed.data.error } : { code: '', message: '' }
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // an answer of something in between
  }
}
