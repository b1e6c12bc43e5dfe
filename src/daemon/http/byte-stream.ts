import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { FastifyRequest } from 'fastify'
import type { ByteStream } from '../../shared/kernel/contract.ts'
import { fieldError, PanelError } from '../../shared/kernel/errors.ts'

/**
 * The body of a request as it arrives; throws PAYLOAD_TOO_LARGE when it announces more than may come, and VALIDATION_ERROR when
 * it says that its bytes are a part or an encoding of what is meant.
 */
export function byteStream({ headers, raw }: FastifyRequest, maxBytes: number): ByteStream {
  refuseOther(headers)
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

/**
 * After an answer that has come before the end of its body: the rest is dropped, so that a client which sends everything before it
 * reads finds the answer. A daemon that stops waits for none.
 */
export async function dropRest(raw: IncomingMessage, stopping: AbortSignal): Promise<void> {
  if (raw.complete || raw.destroyed) return
  raw.resume()
  await new Promise<void>((done) => {
    const over = (): void => {
      stopping.removeEventListener('abort', over)
      done()
    }
    raw.once('close', over)
    if (stopping.aborted) over()
    else stopping.addEventListener('abort', over)
  })
  if (!raw.complete) raw.destroy()
}

/** Bytes are kept as they come: a part would replace the whole, and compressed bytes what they stand for. */
function refuseOther(headers: IncomingHttpHeaders): void {
  if (headers['content-range'] !== undefined) {
    throw fieldError('headers.content-range', 'is not taken; send the whole, or the rest of an upload by its offset')
  }
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') {
    throw fieldError('headers.content-encoding', 'must be identity; send the bytes as they are to be kept')
  }
  if ((headers['transfer-encoding'] ?? 'chunked').toLowerCase() !== 'chunked') {
    throw fieldError('headers.transfer-encoding', 'must be chunked; send the bytes as they are to be kept')
  }
}

async function* pieces(
  raw: IncomingMessage,
  { length, maxBytes }: { readonly length: number | null; readonly maxBytes: number },
): AsyncGenerator<Uint8Array> {
  let bytes = 0
  // Kept alive when the reader ends early: the answer still has to get out.
  try {
    for await (const piece of raw.iterator({ destroyOnReturn: false })) {
      const chunk = piece as Uint8Array // a request without an encoding gives bytes
      bytes += chunk.length
      if (bytes > maxBytes) throw tooLarge(maxBytes)
      yield chunk
    }
  } catch (error) {
    throw error instanceof PanelError ? error : cutShort(error)
  }
  if (!raw.complete || (length !== null && bytes !== length)) throw cutShort()
}

function cutShort(cause?: unknown): PanelError {
  return new PanelError('VALIDATION_ERROR', 'The body ended before all of it had come', { cause })
}

function tooLarge(maxBytes: number): PanelError {
  return new PanelError('PAYLOAD_TOO_LARGE', `The body is larger than ${maxBytes} bytes`, { meta: { maxBytes } })
}
