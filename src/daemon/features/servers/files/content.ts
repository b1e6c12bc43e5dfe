import type { WrittenFile } from '../../../../shared/api/files.ts'
import type { ByteStream, StreamAnswer } from '../../../../shared/kernel/contract.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { isoTime } from '../../../../shared/kernel/time.ts'
import { receiveFile, sendConsoleLog, sendFile, statFile, uploadOffset } from '../../../../shared/protocol/files.ts'
import type { Holder } from '../../../access/permit.ts'
import type { Context } from '../../../http/route.ts'
import { askAgent, type FileDeps, serverOf, withField } from './agent.ts'
import { reach } from './reach.ts'

const MIB = 1024 * 1024

/** A file of a server, or how much of an interrupted upload of it is there. */
export async function readServerFile(
  deps: FileDeps,
  serverId: string,
  {
    path,
    upload,
    signal,
    caller,
  }: {
    readonly path: string
    readonly upload?: string | undefined
    readonly signal: AbortSignal
    readonly caller: Holder
  },
): Promise<StreamAnswer> {
  const { gateway, transfers } = deps
  const { nodeId } = await reach(deps, serverId, { caller, files: [path] })
  if (upload !== undefined) {
    const { offset } = await askAgent(deps, uploadOffset, {
      nodeId,
      input: { serverId, path, sha256: upload },
      part: 'query',
      signal,
    })
    return { ...none(path), headers: { 'upload-offset': String(offset) } }
  }
  const { size, etag, modifiedMs } = await askAgent(deps, statFile, {
    nodeId,
    input: { serverId, path },
    part: 'query',
    signal,
  })
  return {
    contentType: 'application/octet-stream',
    fileName: nameOf(path),
    size,
    etag,
    modifiedMs,
    read: (range) => {
      const { offset, length } = range ?? { offset: 0, length: size }
      const count = gateway.can(nodeId, 'files-bytes@1')
      const check = count ? 'bytes' : 'sha256'
      return transfers.from(nodeId, { length, signal, check }, (ticket, options) =>
        gateway.request(nodeId, sendFile, { serverId, path, etag, offset, length, ticket, count }, options),
      )
    },
  }
}

/** A server's console log as text. */
export async function logOf(deps: FileDeps, serverId: string, signal: AbortSignal): Promise<StreamAnswer> {
  const { gateway, transfers } = deps
  const { nodeId, name } = await serverOf(deps, serverId)
  return {
    contentType: 'text/plain; charset=utf-8',
    fileName: `${name}.log`,
    size: null,
    etag: null,
    read: () =>
      transfers.from(nodeId, { length: null, signal }, (ticket, options) =>
        gateway.request(nodeId, sendConsoleLog, { serverId, ticket }, options),
      ),
  }
}

/** What is to be written, and where in the request its path stands. */
export interface Write {
  readonly serverId: string
  readonly path: string
  readonly sha256?: string | undefined
  readonly offset?: number | undefined
  readonly body: ByteStream
  readonly ifMatch: string | null
  readonly ifNone: boolean
  readonly caller: Holder
  readonly part: 'query' | 'body'
}

/** A file that was written. */
export type Written = WrittenFile

/** Writes a file of a server; what it replaces stays until all of it has arrived. Its audit row is for the caller to write. */
export async function writeContent(
  deps: FileDeps,
  { serverId, path, sha256: given, offset = 0, body, ifMatch, ifNone, part, caller }: Write,
  { signal }: Pick<Context, 'signal'>,
): Promise<Written> {
  const { settings, gateway, transfers } = deps
  const { nodeId } = await reach(deps, serverId, { caller, files: [path] })
  const sha256 = given ?? null
  if (offset > 0 && sha256 === null) throw fieldError('query.sha256', 'is required with an offset')
  const maxBytes = settings.get('files.maxFileMb') * MIB
  const size = body.length === null ? null : offset + body.length
  if (size !== null && size > maxBytes) throw tooLarge(maxBytes)
  const content = bounded(body.content, maxBytes - offset, maxBytes)
  const input = { serverId, path, offset, size, sha256, ifMatch, ifNone }
  const written = await transfers
    .to(nodeId, { source: { ...body, content }, signal }, (ticket, options) =>
      gateway.request(nodeId, receiveFile, { ...input, ticket }, options),
    )
    .catch((error: unknown) => {
      throw withField(error, part)
    })
  const { modifiedMs, ...facts } = written
  return { path, ...facts, modifiedAt: isoTime(modifiedMs) }
}

async function* bounded(
  content: AsyncIterable<Uint8Array>,
  leftBytes: number,
  maxBytes: number,
): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for await (const piece of content) {
    bytes += piece.length
    if (bytes > leftBytes) throw tooLarge(maxBytes)
    yield piece
  }
}

function tooLarge(maxBytes: number): PanelError {
  const message = `The file is larger than the ${maxBytes / MIB} MiB that files of servers may have (setting files.maxFileMb)`
  return new PanelError('PAYLOAD_TOO_LARGE', message, { meta: { maxBytes } })
}

function nameOf(path: string): string {
  return path.split('/').findLast((name) => name !== '') ?? 'file'
}

function none(path: string): StreamAnswer {
  const read = async (): Promise<AsyncIterable<Uint8Array>> => {
    throw new Error('an answer of no bytes is not read')
  }
  return { contentType: 'application/octet-stream', fileName: nameOf(path), size: 0, etag: null, read }
}
