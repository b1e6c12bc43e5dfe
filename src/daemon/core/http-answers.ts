import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { type Endpoint, FileAnswer, RedirectAnswer } from '../../shared/contract.ts'
import { pagination } from '../../shared/page.ts'
import type { SentAnswer } from './idempotency.ts'
import type { Context, Handler } from './route.ts'

/** Runs the handler and makes the envelope of its data, in which only what the contract names goes out. */
export async function answer(
  endpoint: Endpoint,
  handle: Handler<Endpoint>,
  input: unknown,
  context: Context,
): Promise<Omit<SentAnswer, 'cookies'>> {
  const result: unknown = await handle(input as never, context) // parsed by this very endpoint's schemas
  const paged = endpoint.paged ? (result as { items: unknown; total: number }) : undefined // Answer<E> of a paged endpoint
  const data = endpoint.response.safeParse(paged === undefined ? result : paged.items)
  if (!data.success) {
    const issues = data.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`)
    throw new Error(`the answer of ${endpoint.id} does not fit its contract: ${issues.join('; ')}`)
  }
  const query = (input as { query?: { page: number; limit: number } }).query // a paged endpoint has pageQuery
  const page = paged === undefined || query === undefined ? {} : { pagination: pagination(query, paged.total) }
  return { status: endpoint.status, payload: JSON.stringify({ success: true, data: data.data, ...page }) }
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
