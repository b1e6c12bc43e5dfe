import type { MultipartFile } from '@fastify/multipart'
import type { FastifyRequest } from 'fastify'
import type { Upload } from '../../shared/kernel/contract.ts'
import { PanelError } from '../../shared/kernel/errors.ts'

const FIELDS = 10

/**
 * Reads the file of a multipart form as it arrives, hands it to `work`, and drops what `work` has left unread. Fails with
 * VALIDATION_ERROR when the body is no form with one file in the field `file`.
 */
export async function withUpload<T>(
  request: FastifyRequest,
  maxBytes: number,
  work: (upload: Upload) => Promise<T>,
): Promise<T> {
  if (!request.isMultipart()) throw noFile()
  const part = await firstFile(request, maxBytes)
  if (part === undefined) throw noFile()
  try {
    if (part.fieldname !== 'file') throw noFile()
    const { filename: fileName, mimetype: contentType } = part
    return await work({ fileName, contentType, content: pieces(part, maxBytes), fields: textsOf(part) })
  } finally {
    part.file.resume()
  }
}

async function firstFile(request: FastifyRequest, maxBytes: number): Promise<MultipartFile | undefined> {
  try {
    return await request.file({
      limits: { fileSize: maxBytes, files: 1, fields: FIELDS, parts: FIELDS + 1 },
      throwFileSizeLimit: false, // it would be thrown past the reader
    })
  } catch (error) {
    throw noFile(error)
  }
}

/** What came before the file; of a field that came twice the last one. */
function textsOf({ fields }: MultipartFile): Record<string, string> {
  const texts: Record<string, string> = {}
  for (const [name, given] of Object.entries(fields)) {
    const last = Array.isArray(given) ? given.at(-1) : given
    if (last?.type === 'field' && typeof last.value === 'string') texts[name] = last.value
  }
  return texts
}

async function* pieces({ file }: MultipartFile, maxBytes: number): AsyncGenerator<Uint8Array> {
  try {
    for await (const piece of file) yield piece
  } catch (error) {
    throw noFile(error)
  }
  if (!file.truncated) return
  throw new PanelError('PAYLOAD_TOO_LARGE', `The file is larger than ${maxBytes} bytes`, { meta: { maxBytes } })
}

function noFile(cause?: unknown): PanelError {
  const message = 'must be one file in the field "file" of a multipart form'
  return new PanelError('VALIDATION_ERROR', `The request is not valid: body ${message}`, {
    details: [{ field: 'body', message }],
    cause,
  })
}
