import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ByteRange, StreamAnswer } from '../../shared/kernel/contract.ts'
import { PanelError } from '../../shared/kernel/errors.ts'

/**
 * Answers bytes by the rules of HTTP: 304 and 412 by the conditions of the request, 206 for one range, 416 for one behind the
 * end, all of it for anything else (several ranges among it). HEAD gets the headers of the whole and reads nothing.
 */
export async function sendStream(
  request: FastifyRequest,
  reply: FastifyReply,
  answer: StreamAnswer,
): Promise<FastifyReply> {
  const { contentType, fileName, size, etag, modifiedMs, headers } = answer
  if (etag !== null) reply.header('etag', `"${etag}"`)
  if (modifiedMs !== undefined) reply.header('last-modified', new Date(modifiedMs).toUTCString())
  if (size !== null) reply.header('accept-ranges', 'bytes')
  reply.headers(headers ?? {})
  if (etag !== null && !isMatched(request.headers['if-match'] ?? '*', etag)) {
    throw new PanelError('ETAG_MISMATCH', 'The file has another etag than If-Match names; read it again')
  }
  if (etag !== null && isKnownTo(request, etag)) return reply.status(304).send()
  const range = rangeOf(request, answer)
  reply
    .header('content-type', contentType)
    .header('content-disposition', `attachment; filename="${fileName.replace(/[^\w.-]/g, '_')}"`)
  if (range !== null) {
    reply.status(206).header('content-range', `bytes ${range.offset}-${range.offset + range.length - 1}/${size}`)
  }
  const length = range?.length ?? size
  if (length !== null) reply.header('content-length', String(length))
  if (request.method === 'HEAD' || length === 0) return reply.send(Readable.from([]))
  const content = await answer.read(range)
  return reply.send(content instanceof Readable ? content : Readable.from(content, { objectMode: false }))
}

/** Whether whoever asks has the bytes with this etag already. */
export function isKnownTo({ headers }: Pick<FastifyRequest, 'headers'>, etag: string): boolean {
  const known = headers['if-none-match']
  return known !== undefined && isMatched(weak(known), etag)
}

/** What a write is meant to replace: the file of that etag (`*`: any), or none. Throws a VALIDATION_ERROR for anything else. */
export function writeConditions({ headers }: Pick<FastifyRequest, 'headers'>): {
  readonly ifMatch: string | null
  readonly ifNone: boolean
} {
  const [match, none] = [headers['if-match'], headers['if-none-match']]
  if (none !== undefined && none !== '*') throw unfit('if-none-match', 'must be * for a write')
  if (match === undefined || match === '*') return { ifMatch: match ?? null, ifNone: none === '*' }
  const etag = /^"([^"]{1,100})"$/.exec(match)?.[1]
  if (etag === undefined) throw unfit('if-match', 'must be * or one etag in quotes')
  return { ifMatch: etag, ifNone: none === '*' }
}

function unfit(header: string, message: string): PanelError {
  return new PanelError('VALIDATION_ERROR', `The request is not valid: headers.${header} ${message}`, {
    details: [{ field: `headers.${header}`, message }],
  })
}

/** If-None-Match takes a weak etag for the strong one of the same text: proxies that compress make ours weak. */
function weak(list: string): string {
  return list.replaceAll('W/"', '"')
}

/** Whether a list of etags names this one. A weak one is none of ours. */
function isMatched(list: string, etag: string): boolean {
  return list
    .split(',')
    .map((one) => one.trim())
    .some((one) => one === '*' || one === `"${etag}"`)
}

function rangeOf(request: FastifyRequest, { size, etag }: StreamAnswer): ByteRange | null {
  if (request.method !== 'GET') return null
  const { range } = request.headers
  const ifRange = request.headers['if-range']
  if (range === undefined || size === null || (typeof ifRange === 'string' && ifRange !== `"${etag}"`)) return null
  const [, first = '', last = ''] = /^bytes=(\d{0,16})-(\d{0,16})$/i.exec(range) ?? []
  if (first === '' && last === '') return null
  const offset = first === '' ? Math.max(0, size - Number(last)) : Number(first)
  const end = first === '' || last === '' ? size - 1 : Math.min(Number(last), size - 1)
  if (first !== '' && last !== '' && Number(last) < Number(first)) return null
  if (offset <= end) return { offset, length: end - offset + 1 }
  throw new PanelError('RANGE_NOT_SATISFIABLE', `The file has ${size} bytes`, { meta: { size } })
}
