import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { z } from 'zod'
import { type Endpoint, FileAnswer, RedirectAnswer } from '../../shared/kernel/contract.ts'
import { pagination } from '../../shared/kernel/page.ts'
import { compileJson } from './answer-json.ts'
import type { SentAnswer } from './idempotency.ts'
import { JsonBytes } from './json-bytes.ts'

/** Answers are put together in one place, each in one go. */
const out = new JsonBytes()

/** Makes the envelope of what the handlers of an endpoint return, in which only what the contract names goes out. */
export function enveloping(endpoint: Endpoint): (result: unknown, input: unknown) => Buffer {
  const write = compileJson(endpoint.response)
  return (result, input) => {
    if (!endpoint.paged) return envelope(endpoint, () => write(result, out), '')
    const { items, total } = result as { items: unknown; total: number } // Answer<E> of a paged endpoint, or a WrittenPage
    const { query } = input as { query: { page: number; limit: number } } // a paged endpoint has pageQuery
    const page = `,"pagination":${JSON.stringify(pagination(query, total))}`
    return envelope(endpoint, () => write(items, out), page)
  }
}

function envelope(endpoint: Endpoint, write: () => void, more: string): Buffer {
  out.back(0)
  out.json('{"success":true,"data":')
  try {
    write()
  } catch (error) {
    if (!(error instanceof z.ZodError)) throw error
    const issues = error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`)
    throw new Error(`the answer of ${endpoint.id} does not fit its contract: ${issues.join('; ')}`)
  }
  out.json(`${more}}`)
  return out.take()
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
