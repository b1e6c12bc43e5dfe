import { isUtf8 } from 'node:buffer'
import type { FastifyInstance } from 'fastify'
import { PanelError } from '../../shared/kernel/errors.ts'
import { isDeeperThan, MOST_BODY_DEPTH } from '../../shared/kernel/json-depth.ts'

/** JSON is UTF-8; ASCII is as well. */
const CHARSETS = ['utf-8', 'utf8', 'us-ascii', 'ascii']

/** Takes bodies of JSON. An empty one counts as none, whatever its content type says; other encodings are refused, as guessing would keep wrong texts. */
export function readJsonBodies(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeContentTypeParser(['application/json', 'text/plain'])
  app.addContentTypeParser<Buffer>('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    if (body.length === 0) return done(null, undefined)
    const charset = charsetOf(request.headers['content-type'] ?? '')
    if (charset !== undefined && !CHARSETS.includes(charset)) return done(notUtf8(`, not ${charset.slice(0, 40)}`))
    if (!isUtf8(body)) return done(notUtf8(''))
    const text = body.toString('utf8')
    if (isDeeperThan(text, MOST_BODY_DEPTH)) return done(tooDeep())
    void parse(request, text, done) // it answers by the callback
  })
}

function charsetOf(contentType: string): string | undefined {
  for (const parameter of contentType.split(';').slice(1)) {
    const [name = '', value = ''] = parameter.split('=')
    if (name.trim().toLowerCase() === 'charset') return value.replaceAll('"', '').trim().toLowerCase()
  }
  return undefined
}

function notUtf8(instead: string): PanelError {
  const message = `must be UTF-8${instead}`
  return new PanelError('VALIDATION_ERROR', `The request is not valid: body ${message}`, {
    details: [{ field: 'body', message }],
  })
}

/** One place for all routes: whatever walks through a body may call itself. */
function tooDeep(): PanelError {
  const message = `must not be nested deeper than ${MOST_BODY_DEPTH} levels`
  return new PanelError('VALIDATION_ERROR', `The request is not valid: body ${message}`, {
    details: [{ field: 'body', message }],
  })
}
