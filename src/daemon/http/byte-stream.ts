import type { IncomingMessage } from 'node:http'
import type { FastifyRequest } from 'fastify'
import type { ByteStream } from '../../shared/kernel/contract.ts'
import { PanelError } from '../../shared/kernel/errors.ts'

/** The body of a request as it arrives; throws PAYLOAD_TOO_LARGE when it announces more than may come. */
export function byteStream({ headers, raw }: FastifyRequest, maxBytes: number): ByteStream {
  const announced = headers['content-length']
  const length = announced === undefined ? (headers['transfer-encoding'] === undefined ? 0 : null) : Number(announced)
  if (length !== null && length > maxBytes) throw tooLarge(maxBytes)
  const contentType = headers['content-type'] ?? 'application/octet-stream'
  const content = pieces(raw, { length, maxBytes })
  const cancel = (): void => {
    if (!raw.complete) raw.destroy()
  }
  return { contentType, length, content, cancel }
}

async function* pieces(
  raw: IncomingMessage,
  { length, maxBytes }: { readonly length: number | null; readonly maxBytes: number },
): AsyncGenerator<Uint8Array> {
  let bytes = 0
  // Kept alive when the reader ends early: the answer still has to get out.
  for await (const piece of raw.iterator({ destroyOnReturn: false })) {
    const chunk = piece as Uint8Array // a request without an encoding gives bytes
    bytes += chunk.length
    if (bytes > maxBytes) throw tooLarge(maxBytes)
    yield chunk
  }
  if (raw.complete && (length === null || bytes === length)) return
  throw new PanelError('VALIDATION_ERROR', 'The body ended before all of it had come')
}

function tooLarge(maxBytes: number): PanelError {
  return new PanelError('PAYLOAD_TOO_LARGE', `The body is larger than ${maxBytes} bytes`, { meta: { maxBytes } })
}
