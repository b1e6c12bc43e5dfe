import { createHash, randomInt } from 'node:crypto'
import { AwsV4Signer } from 'aws4fetch'
import type { Agent, Dispatcher } from 'undici'
import type { Clock } from '../../shared/kernel/time.ts'
import type {
  ObjectPage,
  ObjectStore,
  SignedFor,
  SignedRequest,
  StoredObject,
  UnfinishedUpload,
  UploadedPart,
} from './object-store.ts'
import { readXml, type XmlAnswer, xmlText } from './s3-xml.ts'
import { connectionFailure, refusal, StoreFailure } from './store-failure.ts'

/** A bucket of an S3-compatible store, and who asks. */
export interface S3Place {
  /** `https://host[:port]`, without a path. */
  readonly endpoint: string
  readonly region: string
  readonly bucket: string
  /** Before every key, without slashes at its ends; '' for none. */
  readonly prefix: string
  /** The bucket in the path, as most stores of one's own want it, instead of in the host name. */
  readonly pathStyle: boolean
  readonly accessKeyId: string
  readonly secretAccessKey: string
}

/** How patient the client is; the defaults are for the internet. */
export interface S3Patience {
  /** Attempts of one request, the first one included. */
  readonly attempts: number
  /** Before the second attempt; doubled for each one after it, up to five seconds. */
  readonly firstWaitMs: number
  readonly connectMs: number
  /** Until an answer begins, and between its bytes. */
  readonly silenceMs: number
}

const PATIENCE: S3Patience = { attempts: 5, firstWaitMs: 250, connectMs: 10_000, silenceMs: 30_000 }
const LONGEST_WAIT_MS = 5_000
/** Of what a store says of itself. */
const LONGEST_RETRY_AFTER_MS = 30_000
/** A list of 1,000 keys of 1,024 bytes, each byte of them escaped, stays below. */
const ANSWER_BYTES = 8 * 1024 * 1024
const SIGNED_SECONDS = 900
const EMPTY_SHA256 = createHash('sha256').digest('hex')
const DELETE_AT_ONCE = 1000

interface Asked {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE'
  /** Relative to the prefix; `null`: the bucket itself. */
  readonly key: string | null
  readonly query?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Uint8Array
}

type Answer = Dispatcher.ResponseData

/** The store behind this place. Connects when it is first asked. */
export function createS3Store(place: S3Place, clock: Clock, patience: Partial<S3Patience> = {}): ObjectStore {
  const { attempts, firstWaitMs, connectMs, silenceMs } = { ...PATIENCE, ...patience }
  const base = place.prefix === '' ? '' : `${place.prefix}/`
  const keys = new Map<string, ArrayBuffer>()
  let connections: Agent | undefined

  function urlOf({ key, query = {} }: Pick<Asked, 'key' | 'query'>): URL {
    const url = new URL(place.endpoint)
    const path = key === null ? '' : `${base}${key}`.split('/').map(encodeURIComponent).join('/')
    if (place.pathStyle) url.pathname = `/${place.bucket}${key === null ? '' : `/${path}`}`
    else {
      url.hostname = `${place.bucket}.${url.hostname}`
      url.pathname = `/${path}`
    }
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
    return url
  }

  function signer(url: URL, rest: Partial<ConstructorParameters<typeof AwsV4Signer>[0]>): AwsV4Signer {
    const { accessKeyId, secretAccessKey, region } = place
    const datetime = new Date(clock.nowMs()).toISOString().replace(/[:-]|\.\d{3}/g, '')
    return new AwsV4Signer({
      ...{ accessKeyId, secretAccessKey, region, datetime, service: 's3', cache: keys, url: url.href },
      ...rest,
    })
  }

  /** One attempt; the answer's body is still to be read. */
  async function send({ method, key, query, headers, body }: Asked, signal: AbortSignal | undefined): Promise<Answer> {
    const { Agent, request } = await import('undici')
    connections ??= new Agent({
      connect: { timeout: connectMs },
      headersTimeout: silenceMs,
      bodyTimeout: silenceMs,
      keepAliveTimeout: 10_000,
      connections: 16,
    })
    const sha256 = body === undefined ? EMPTY_SHA256 : createHash('sha256').update(body).digest('hex')
    // A bucket that keeps what it has for a time (object lock) insists on this digest, although the signature covers the body already.
    const digest = body === undefined ? {} : { 'content-md5': createHash('md5').update(body).digest('base64') }
    const all = { ...headers, ...digest, 'x-amz-content-sha256': sha256 }
    const signed = await signer(urlOf({ key, ...(query === undefined ? {} : { query }) }), {
      method,
      headers: all,
    }).sign()
    try {
      return await request(signed.url, {
        method,
        headers: Object.fromEntries(signed.headers),
        body: body ?? null,
        dispatcher: connections,
        signal: signal ?? null,
      })
    } catch (error) {
      signal?.throwIfAborted()
      throw connectionFailure(error, place)
    }
  }

  async function failureOf(answer: Answer, asked: Asked): Promise<StoreFailure> {
    const text = await bounded(answer.body, 64 * 1024).catch(() => '') // the status alone says enough
    const xml = await readXml(text)
    const isError = xml?.name === 'Error'
    const code = isError ? oneLine(xml.text('Code'), 100) : ''
    const message = isError ? oneLine(xml.text('Message'), 300) : ''
    const there = Date.parse(String(answer.headers['date'] ?? ''))
    const times = Number.isNaN(there) ? undefined : { there: secondsOf(there), here: secondsOf(clock.nowMs()) }
    const retryAfterMs = retryAfterOf(answer, clock.nowMs())
    const permission = permissionFor(asked)
    return refusal({ status: answer.statusCode, code, message, permission, times, retryAfterMs }, place)
  }

  /** Asks until it succeeds, fails for good, or has failed too often. `take` reads the answer, and is called again with another one. */
  async function ask<T>(
    asked: Asked,
    take: (answer: Answer, attempt: number) => Promise<T>,
    signal?: AbortSignal,
    onFailure?: (failure: StoreFailure, attempt: number) => Promise<{ readonly value: T } | undefined>,
  ): Promise<T> {
    let first: StoreFailure | undefined
    for (let attempt = 1; ; attempt += 1) {
      try {
        const answer = await send(asked, signal)
        if (answer.statusCode < 200 || answer.statusCode > 299) throw await failureOf(answer, asked)
        return await take(answer, attempt)
      } catch (error) {
        signal?.throwIfAborted()
        const failure = connectionFailure(error, place)
        const settled = await onFailure?.(failure, attempt)
        if (settled !== undefined) return settled.value
        first ??= failure
        // What has gone since then is not why it has failed.
        if (!failure.passes || attempt >= attempts) throw failure.reason === 'missing' ? first : failure
        const wait = Math.min(LONGEST_WAIT_MS, firstWaitMs * 2 ** (attempt - 1))
        await clock.sleep(Math.max((wait * randomInt(800, 1201)) / 1000, failure.retryAfterMs), signal)
        signal?.throwIfAborted()
      }
    }
  }

  async function askXml(asked: Asked, root: string, signal?: AbortSignal): Promise<XmlAnswer> {
    return ask(asked, (answer) => xmlOf(answer, root, asked), signal)
  }

  async function xmlOf(answer: Answer, root: string, asked: Asked): Promise<XmlAnswer> {
    const xml = await readXml(await bounded(answer.body, ANSWER_BYTES))
    // S3 begins some answers before it knows how they end, and then says so in the body.
    if (xml?.name === 'Error') {
      const [code, message] = [oneLine(xml.text('Code'), 100), oneLine(xml.text('Message'), 300)]
      throw refusal({ status: 200, code, message, permission: permissionFor(asked) }, place)
    }
    if (xml?.name === root) return xml
    throw new StoreFailure('rejected', `${place.endpoint} does not answer as S3 does; check the endpoint`)
  }

  async function store(asked: Asked, signal?: AbortSignal): Promise<string> {
    return ask(
      asked,
      async (answer) => {
        await answer.body.dump()
        const etag = answer.headers['etag']
        if (typeof etag === 'string' && etag !== '') return etag
        throw new StoreFailure('rejected', `${place.endpoint} does not name what it has stored; check the endpoint`)
      },
      signal,
    )
  }

  async function head(key: string, signal?: AbortSignal): Promise<number | null> {
    return ask<number | null>(
      { method: 'HEAD', key },
      async ({ headers, body }) => {
        await body.dump()
        const length = headers['content-length']
        if (typeof length === 'string' && length !== '') return Number(length)
        throw new StoreFailure('rejected', `${place.endpoint} does not say how large ${key} is; check the endpoint`)
      },
      signal,
      // A HEAD has no body that says more than its status.
      async (failure) => (failure.s3Code === 'HTTP 404' ? { value: null } : undefined),
    )
  }

  const listsWrongly = (): StoreFailure =>
    new StoreFailure('rejected', `${place.endpoint} does not go on with a list where it was; check that it speaks S3`)

  /** Relative to the prefix; what lies elsewhere was not asked for. */
  function relative(key: string): string | undefined {
    return key.startsWith(base) ? key.slice(base.length) : undefined
  }

  return {
    put: async (key, body, signal) => ({ etag: await store({ method: 'PUT', key, body }, signal) }),
    get: (key, range, signal) => {
      const { offset, length } = range ?? { offset: 0, length: null }
      const headers = offset === 0 && length === null ? {} : { range: rangeOf(offset, length) }
      return ask(
        { method: 'GET', key, headers },
        async (answer) => {
          if ('range' in headers && answer.statusCode !== 206) {
            answer.body.destroy()
            throw new StoreFailure('rejected', `${place.endpoint} answers no ranges`)
          }
          return { bytes: Number(answer.headers['content-length'] ?? 0), content: answer.body }
        },
        signal,
      )
    },
    head,
    list: async ({ prefix = '', after = null, limit = 1000 }, signal): Promise<ObjectPage> => {
      const query = {
        'list-type': '2',
        prefix: base + prefix,
        'max-keys': String(limit),
        ...(after === null ? {} : { 'start-after': base + after }),
      }
      const xml = await askXml({ method: 'GET', key: null, query }, 'ListBucketResult', signal)
      const objects = xml.all('Contents').flatMap((row): StoredObject[] => {
        const key = relative(row.text('Key'))
        return key === undefined ? [] : [{ key, bytes: Number(row.text('Size')) }]
      })
      if (xml.text('IsTruncated') !== 'true') return { objects, next: null }
      const last = objects.at(-1)
      // What is taken for the end here is taken for gone by whoever asks, and what goes on forever never ends.
      if (last === undefined || (after !== null && Buffer.compare(Buffer.from(last.key), Buffer.from(after)) <= 0)) {
        throw listsWrongly()
      }
      return { objects, next: last.key }
    },
    delete: async (names, signal) => {
      for (let from = 0; from < names.length; from += DELETE_AT_ONCE) {
        const some = names.slice(from, from + DELETE_AT_ONCE)
        const rows = some.map((key) => `<Object><Key>${xmlText(base + key)}</Key></Object>`).join('')
        const body = Buffer.from(`<?xml version="1.0" encoding="UTF-8"?><Delete><Quiet>true</Quiet>${rows}</Delete>`)
        const headers = { 'content-type': 'application/xml' }
        const asked: Asked = { method: 'POST', key: null, query: { delete: '' }, headers, body }
        const xml = await askXml(asked, 'DeleteResult', signal)
        const failed = xml.all('Error').find((row) => row.text('Code') !== 'NoSuchKey')
        if (failed === undefined) continue
        const [code, message] = [oneLine(failed.text('Code'), 100), oneLine(failed.text('Message'), 300)]
        throw refusal({ status: 400, code, message, permission: permissionFor(asked) }, place)
      }
    },
    begin: async (key, signal) => {
      const xml = await askXml({ method: 'POST', key, query: { uploads: '' } }, 'InitiateMultipartUploadResult', signal)
      const uploadId = xml.text('UploadId')
      if (uploadId !== '') return uploadId
      throw new StoreFailure('rejected', `${place.endpoint} begins no upload in parts; check the endpoint`)
    },
    part: async ({ key, uploadId, number }, body, signal): Promise<UploadedPart> => {
      const query = { partNumber: String(number), uploadId }
      return { number, etag: await store({ method: 'PUT', key, query, body }, signal) }
    },
    complete: async ({ key, uploadId }, parts, signal) => {
      const rows = parts.map(
        ({ number, etag }) => `<Part><PartNumber>${number}</PartNumber><ETag>${xmlText(etag)}</ETag></Part>`,
      )
      const body = Buffer.from(`<CompleteMultipartUpload>${rows.join('')}</CompleteMultipartUpload>`)
      const asked: Asked = {
        ...{ method: 'POST', key, query: { uploadId }, body },
        headers: { 'content-type': 'application/xml' },
      }
      await ask(
        asked,
        async (answer) => void (await xmlOf(answer, 'CompleteMultipartUploadResult', asked)),
        signal,
        async (failure, attempt) => {
          // An earlier attempt may have done it although its answer was lost: then the upload is gone and the object there.
          if (attempt === 1 || failure.s3Code !== 'NoSuchUpload') return undefined
          return (await head(key, signal)) === null ? undefined : { value: undefined }
        },
      )
    },
    abort: async ({ key, uploadId }, signal) => {
      await ask<void>(
        { method: 'DELETE', key, query: { uploadId } },
        ({ body }) => body.dump(),
        signal,
        async (failure) => (failure.reason === 'missing' ? { value: undefined } : undefined),
      )
    },
    unfinished: async (prefix = '', signal) => {
      const found: UnfinishedUpload[] = []
      let marker: Record<string, string> = {}
      for (;;) {
        const query = { uploads: '', prefix: base + prefix, 'max-uploads': '1000', ...marker }
        const xml = await askXml({ method: 'GET', key: null, query }, 'ListMultipartUploadsResult', signal)
        for (const row of xml.all('Upload')) {
          const key = relative(row.text('Key'))
          if (key === undefined || !key.startsWith(prefix)) continue
          found.push({ key, uploadId: row.text('UploadId'), startedAt: row.text('Initiated') || null })
        }
        const next = [xml.text('NextKeyMarker'), xml.text('NextUploadIdMarker')] as const
        if (xml.text('IsTruncated') !== 'true' || next[0] === '' || found.length >= 10_000) return found
        if (next[0] === marker['key-marker'] && next[1] === marker['upload-id-marker']) throw listsWrongly()
        marker = { 'key-marker': next[0], 'upload-id-marker': next[1] }
      }
    },
    sign: async (wanted): Promise<SignedRequest> => {
      const url = urlOf({ key: wanted.key, query: { 'X-Amz-Expires': String(SIGNED_SECONDS), ...partOf(wanted) } })
      const method = wanted.op === 'get' ? 'GET' : 'PUT'
      // The length is signed too, so that nobody stores more than was asked for.
      const headers = wanted.op === 'get' ? {} : { 'content-length': String(wanted.bytes) }
      const signed = await signer(url, { method, headers, signQuery: true, allHeaders: true }).sign()
      return { url: signed.url.href, headers }
    },
    close: async () => connections?.destroy(),
  }
}

function partOf(wanted: SignedFor): Record<string, string> {
  return wanted.op === 'part' ? { partNumber: String(wanted.number), uploadId: wanted.uploadId } : {}
}

/** What S3 calls the right to do that. */
function permissionFor({ method, key, query = {} }: Asked): string {
  if (key === null) {
    if (method === 'POST') return 's3:DeleteObject'
    return 'uploads' in query ? 's3:ListBucketMultipartUploads' : 's3:ListBucket'
  }
  if (method === 'GET') return 's3:GetObject'
  // Without the second one an object that is not there is denied instead of missing.
  if (method === 'HEAD') return 's3:GetObject and s3:ListBucket'
  return method === 'DELETE' ? 's3:AbortMultipartUpload' : 's3:PutObject'
}

/** Seconds, or a date; 0 where nothing is said that can be read. */
function retryAfterOf({ headers }: Answer, nowMs: number): number {
  const said = String(headers['retry-after'] ?? '')
  const ms = said === '' ? 0 : Number.isNaN(Number(said)) ? Date.parse(said) - nowMs : Number(said) * 1000
  return Number.isNaN(ms) ? 0 : Math.max(0, Math.min(ms, LONGEST_RETRY_AFTER_MS))
}

function secondsOf(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`
}

function rangeOf(offset: number, length: number | null): string {
  return `bytes=${offset}-${length === null ? '' : offset + length - 1}`
}

/** The text of a body of at most so many bytes. */
async function bounded(body: Answer['body'], most: number): Promise<string> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of body as AsyncIterable<Buffer>) {
    bytes += piece.length
    if (bytes > most) {
      body.destroy()
      throw new StoreFailure('rejected', 'the store answers more than it was asked for')
    }
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString('utf8')
}

/** What comes from outside, for one line of a message. */
function oneLine(text: string, most: number): string {
  return text
    .replace(/[\p{Cc}\p{Cf}\s]+/gu, ' ')
    .trim()
    .slice(0, most)
}
