import type { IncomingMessage, ServerResponse } from 'node:http'
import { item, type View } from './view.ts'

/** What a route answers. `null`: nothing but its status. */
export interface Answer {
  readonly status: number
  readonly body: View | null
  /** In place of a body: what stands in a file. */
  readonly bytes?: Buffer
}

/** A refusal, in the words of the framework that the source is made with. */
export class Refusal extends Error {
  readonly status: number
  readonly code: string
  /** When to come again. */
  readonly retryAtMs: number | undefined
  readonly meta: View | undefined

  constructor(status: number, code: string, detail: string, more: { retryAtMs?: number; meta?: View } = {}) {
    super(detail)
    this.status = status
    this.code = code
    this.retryAtMs = more.retryAtMs
    this.meta = more.meta
  }

  get body(): View {
    const { code, status, message, meta } = this
    return {
      errors: [{ code, status: String(status), detail: message, ...(meta === undefined ? {} : { meta }) }],
    }
  }
}

export const ok = (body: View): Answer => ({ status: 200, body })
export const DONE: Answer = { status: 204, body: null }
export const signedUrl = (url: string): Answer => ok(item('signed_url', { url }))

export const notFound = (detail = 'The requested resource could not be found on the server.'): Refusal =>
  new Refusal(404, 'NotFoundHttpException', detail)
export const invalid = (field: string, rule: string): Refusal =>
  new Refusal(422, 'ValidationException', `The ${field} field is ${rule}.`, { meta: { source_field: field, rule } })

/** The body of a request; what is not JSON counts as nothing. */
export async function readBody(request: IncomingMessage): Promise<Record<string, unknown>> {
  const pieces: Buffer[] = []
  for await (const piece of request) {
    pieces.push(piece as Buffer)
    if (pieces.reduce((all, one) => all + one.length, 0) > 1_000_000) throw new Refusal(413, 'Large', 'too large')
  }
  if (pieces.length === 0) return {}
  try {
    const value: unknown = JSON.parse(Buffer.concat(pieces).toString())
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

/** Sends an answer. `isCut`: half of it, and then nothing more. */
export function send(response: ServerResponse, { status, body, bytes }: Answer, { isCut = false } = {}): void {
  response.statusCode = status
  if (body === null && bytes === undefined) {
    response.end()
    return
  }
  const whole = bytes ?? Buffer.from(JSON.stringify(body))
  response.setHeader('content-type', bytes === undefined ? 'application/json' : 'text/plain')
  response.setHeader('content-length', whole.length)
  if (isCut) response.write(whole.subarray(0, whole.length / 2), () => response.socket?.resetAndDestroy())
  else response.end(whole)
}
