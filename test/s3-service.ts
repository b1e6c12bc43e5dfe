import { createHash, createHmac } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { type ClientRequest, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The parts that are used of a server that speaks S3 and keeps objects in a folder; its package has no types. */
type S3rver = new (options: {
  address: string
  port: number
  silent: boolean
  directory: string
  configureBuckets: readonly { readonly name: string }[]
}) => { run(): Promise<{ port: number }>; close(): Promise<void> }

const S3rver: S3rver = createRequire(import.meta.url)('s3rver')

/** What a proxy does with one request; `undefined`: passes it on as it is. */
export type Fault =
  /** Answers it itself, without asking the store. */
  | {
      readonly kind: 'answer'
      readonly status: number
      readonly body?: string
      readonly headers?: Readonly<Record<string, string>>
    }
  /** Cuts the connection: before the store hears of it, or when it has done what was asked. */
  | { readonly kind: 'cut'; readonly when: 'before' | 'after' }
  /** Cuts the answer after so many bytes of its body. */
  | { readonly kind: 'cut body'; readonly after: number }
  /** Passes the answer on in pieces of so many bytes, with a pause before each. */
  | { readonly kind: 'slow'; readonly bytes: number; readonly pauseMs: number }

/** A request as the proxy sees it. */
export interface Seen {
  readonly method: string
  /** Path and query. */
  readonly url: string
  readonly headers: IncomingMessage['headers']
}

/**
 * A real store that speaks S3, behind a proxy that can break what passes. The proxy does what the store leaves out: it checks signatures,
 * and knows the uploads that are not finished.
 */
export interface S3Service {
  /** Of the proxy: what tests give as the endpoint. */
  readonly endpoint: string
  readonly bucket: string
  readonly accessKeyId: string
  readonly secretAccessKey: string
  /** Everything that was asked, in its order. */
  readonly seen: Seen[]
  /** Uploads that were begun and are neither completed nor aborted, by their ids. */
  readonly unfinished: Map<string, string>
  /** Asked for each request; takes effect from the next one on. */
  fault: (seen: Seen) => Fault | undefined
  close(): Promise<void>
}

/** Starts the store and its proxy on loopback. */
export async function startS3(bucket = 'backups'): Promise<S3Service> {
  const directory = await mkdtemp(join(tmpdir(), 'panel-s3-'))
  const store = new S3rver({
    ...{ address: '127.0.0.1', port: 0, silent: true, directory },
    configureBuckets: [{ name: bucket }],
  })
  const { port } = await store.run()
  const asking = new Set<ClientRequest>()
  const service: S3Service = {
    endpoint: '',
    bucket,
    accessKeyId: 'S3RVER',
    secretAccessKey: 'S3RVER',
    seen: [],
    unfinished: new Map(),
    fault: () => undefined,
    close: async () => {
      proxy.closeAllConnections()
      proxy.close()
      // The store waits for the end of each request, and whoever made one may have gone in the middle of it.
      for (const asked of asking) asked.destroy()
      await store.close()
      await rm(directory, { recursive: true, force: true })
    },
  }
  const proxy = createServer((incoming, answer) => {
    const seen = { method: incoming.method ?? '', url: incoming.url ?? '', headers: incoming.headers }
    service.seen.push(seen)
    pass(port, { incoming, answer, fault: service.fault(seen), service, asking }).catch(() => answer.destroy())
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  return Object.assign(service, { endpoint: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` })
}

interface Passing {
  readonly incoming: IncomingMessage
  readonly answer: ServerResponse
  readonly fault: Fault | undefined
  readonly service: S3Service
  /** What the store is being asked at the moment. */
  readonly asking: Set<ClientRequest>
}

async function pass(port: number, { incoming, answer, fault, service, asking }: Passing): Promise<void> {
  if (fault?.kind === 'cut' && fault.when === 'before') return void incoming.socket.destroy()
  const own = fault?.kind === 'answer' ? fault : (refusal(incoming, service) ?? uploads(incoming, service))
  if (own !== undefined) {
    incoming.resume()
    await once(incoming, 'end')
    answer.writeHead(own.status, { 'content-type': 'application/xml', ...own.headers }).end(own.body ?? '')
    return
  }
  const { method, headers } = incoming
  // The host stays that of the proxy: it is signed.
  const asked = request({ host: '127.0.0.1', port, method, path: asFirstVersion(incoming), headers, agent: false })
  asking.add(asked)
  asked.on('error', () => answer.destroy())
  asked.on('close', () => asking.delete(asked))
  incoming.pipe(asked)
  const [got] = (await once(asked, 'response')) as [IncomingMessage]
  const noted = note(incoming, got, service)
  if (fault?.kind === 'cut') {
    got.resume()
    await once(got, 'end')
    await noted
    return void incoming.socket.destroy()
  }
  answer.writeHead(got.statusCode ?? 500, got.headers)
  let sent = 0
  for await (const piece of got as AsyncIterable<Buffer>) {
    if (fault?.kind === 'cut body' && sent + piece.length > fault.after) {
      answer.write(piece.subarray(0, fault.after - sent), () => incoming.socket.destroy())
      return
    }
    sent += piece.length
    if (fault?.kind !== 'slow') {
      if (!answer.write(piece)) await once(answer, 'drain')
      continue
    }
    for (let from = 0; from < piece.length; from += fault.bytes) {
      await new Promise((resolve) => setTimeout(resolve, fault.pauseMs))
      answer.write(piece.subarray(from, from + fault.bytes))
    }
  }
  await noted
  answer.end()
}

/** The store makes its continuation tokens with a cipher that OpenSSL has dropped; the first version of lists needs none. */
function asFirstVersion({ url = '' }: IncomingMessage): string {
  return url.replace('list-type=2&', '').replace('start-after=', 'marker=')
}

const queryOf = ({ url = '' }: IncomingMessage): URLSearchParams => new URL(url, 'http://any').searchParams
const keyOf = ({ url = '' }: IncomingMessage): string =>
  decodeURIComponent(new URL(url, 'http://any').pathname.split('/').slice(2).join('/'))

async function note(incoming: IncomingMessage, got: IncomingMessage, { unfinished }: S3Service): Promise<void> {
  const query = queryOf(incoming)
  if ((got.statusCode ?? 500) > 299) return
  const id = query.get('uploadId')
  if (id !== null && incoming.method === 'POST') unfinished.delete(id)
  if (incoming.method !== 'POST' || !query.has('uploads')) return
  const pieces: Buffer[] = []
  got.on('data', (piece: Buffer) => pieces.push(piece))
  await once(got, 'end')
  const made = /<UploadId>([^<]+)</.exec(Buffer.concat(pieces).toString())?.[1]
  if (made !== undefined) unfinished.set(made, keyOf(incoming))
}

function uploads(incoming: IncomingMessage, { unfinished }: S3Service): Answered | undefined {
  const query = queryOf(incoming)
  const id = query.get('uploadId')
  if (id !== null && !unfinished.has(id)) return error(404, 'NoSuchUpload')
  if (id !== null && incoming.method === 'DELETE') {
    unfinished.delete(id)
    return { status: 204 }
  }
  if (incoming.method !== 'GET' || !query.has('uploads')) return undefined
  const rows = [...unfinished].filter(([, key]) => key.startsWith(query.get('prefix') ?? ''))
  const body = rows.map(([id, key]) => `<Upload><Key>${key}</Key><UploadId>${id}</UploadId></Upload>`).join('')
  return { status: 200, body: `<ListMultipartUploadsResult>${body}</ListMultipartUploadsResult>` }
}

interface Answered {
  readonly status: number
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** What a store answers to a request whose signature (AWS Signature Version 4) is not right. */
function refusal(incoming: IncomingMessage, { accessKeyId, secretAccessKey }: S3Service): Answered | undefined {
  const query = queryOf(incoming)
  const header = /Credential=([^,]+), SignedHeaders=([^,]+), Signature=(\w+)/.exec(incoming.headers.authorization ?? '')
  const [credential = '', signedHeaders = '', given = ''] =
    header?.slice(1) ??
    ['X-Amz-Credential', 'X-Amz-SignedHeaders', 'X-Amz-Signature'].map((name) => query.get(name) ?? '')
  const [key, ...scope] = credential.split('/')
  if (key === '') return error(403, 'AccessDenied')
  if (key !== accessKeyId) return error(403, 'InvalidAccessKeyId')
  const stamp = String(incoming.headers['x-amz-date'] ?? query.get('X-Amz-Date'))
  if (query.has('X-Amz-Expires')) {
    const [, y, mo, d, h, mi, s] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(stamp) ?? []
    const madeMs = Date.parse(`${y}-${mo}-${d}T${h}:${mi}:${s}Z`)
    if (Date.now() > madeMs + Number(query.get('X-Amz-Expires')) * 1000) return error(403, 'AccessDenied')
  }
  const names = signedHeaders.split(';')
  const pairs = [...query].filter(([name]) => name !== 'X-Amz-Signature')
  const canonical = [
    incoming.method,
    new URL(incoming.url ?? '', 'http://any').pathname,
    pairs
      .map(([name, value]) => `${encode(name)}=${encode(value)}`)
      .sort()
      .join('&'),
    ...names.map((name) => `${name}:${String(incoming.headers[name] ?? '').trim()}`),
    '',
    signedHeaders,
    header === null ? 'UNSIGNED-PAYLOAD' : incoming.headers['x-amz-content-sha256'],
  ].join('\n')
  const text = ['AWS4-HMAC-SHA256', stamp, scope.join('/'), createHash('sha256').update(canonical).digest('hex')].join(
    '\n',
  )
  let hmac = Buffer.from(`AWS4${secretAccessKey}`)
  for (const part of [...scope, text]) hmac = createHmac('sha256', hmac).update(part).digest()
  return hmac.toString('hex') === given ? undefined : error(403, 'SignatureDoesNotMatch')
}

const error = (status: number, code: string): Answered => ({ status, body: `<Error><Code>${code}</Code></Error>` })
const encode = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
