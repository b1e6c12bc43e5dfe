import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { z } from 'zod'
import { type Endpoint, FileAnswer, RedirectAnswer } from '../../shared/contract.ts'
import { pagination } from '../../shared/page.ts'
import { compileJson } from './answer-json.ts'
import type { SentAnswer } from './idempotency.ts'
import type { Context, Route } from './route.ts'

/** Text beyond this is made into bytes: V8 takes the pages of a string above 128 KiB from the kernel each time. */
const PIECE = 32 * 1024

/** Runs a route's handler and makes the envelope of its data, in which only what the contract names goes out. */
export function answering({
  endpoint,
  handle,
}: Route): (input: unknown, context: Context) => Promise<Omit<SentAnswer, 'cookies'>> {
  const { response, status } = endpoint
  const write = compileJson(endpoint.paged && response instanceof z.ZodArray ? rowOf(response) : response)
  return async (input, context) => {
    const result: unknown = await handle(input as never, context) // parsed by this very endpoint's schemas
    if (!endpoint.paged) {
      return { status, payload: `{"success":true,"data":${written(endpoint, write, result)}}` }
    }
    const { items, total } = result as { items: readonly unknown[]; total: number } // Answer<E> of a paged endpoint
    const { query } = input as { query: { page: number; limit: number } } // a paged endpoint has pageQuery
    const rows = items.map((item) => written(endpoint, write, item))
    return { status, payload: inPieces(rows, JSON.stringify(pagination(query, total))) }
  }
}

function rowOf(list: z.ZodArray): z.ZodType {
  return list.def.element as z.ZodType // zod types it by its core
}

function inPieces(rows: readonly string[], page: string): Buffer {
  const pieces: Buffer[] = []
  let text = '{"success":true,"data":['
  for (const [at, row] of rows.entries()) {
    text += at === 0 ? row : `,${row}`
    if (text.length < PIECE) continue
    pieces.push(Buffer.from(text))
    text = ''
  }
  pieces.push(Buffer.from(`${text}],"pagination":${page}}`))
  return Buffer.concat(pieces)
}

function written(endpoint: Endpoint, write: (value: unknown) => string, value: unknown): string {
  try {
    return write(value)
  } catch (error) {
    if (!(error instanceof z.ZodError)) throw error
    const issues = error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`)
    throw new Error(`the answer of ${endpoint.id} does not fit its contract: ${issues.join('; ')}`)
  }
}

/** Sends an envelope. */
export function send(reply: FastifyReply, { status, payload }: Pick<SentAnswer, 'status' | 'payload'>): FastifyReply {
  return reply.status(status).header('content-type', 'application/json; charset=utf-8').send(payload)
}

/** Sends a file as it is made, or the way elsewhere: both without the envelope. */
export function sendRaw(reply: FastifyReply, endpoint: Endpoint, result: unknown): FastifyReply {
  if (endpoint.answers === 'redirect') return reply.redirect(RedirectAnswer.parse(result).location, 302)
  const { contentType, fileName, content } = FileAnswer.parse(result)
  return reply
    .header('content-type', contentType)
    .header('content-disposition', `attachment; filename="${fileName.replace(/[^\w.-]/g, '_')}"`)
    .send(Readable.from(content, { objectMode: false }))
}
