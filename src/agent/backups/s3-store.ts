import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Agent, Dispatcher } from 'undici'
import type { StoreAnswer, StoreOperation } from '../../shared/protocol/backups.ts'
import { AgentFailure } from '../failure.ts'
import { cancelled } from '../files/list.ts'
import type { StoreRequests } from '../link/store-requests.ts'
import { errorText } from '../logger.ts'
import { type ByteRange, noObject, type ObjectStore, type StoredObject } from './store.ts'

const MIB = 1024 * 1024
/** What is larger is sent in parts of this size, each of which can be sent again. Two of them are in memory. */
const PART_BYTES = 8 * MIB
/** A store takes 10,000 parts: an archive that comes near has larger ones from here on. */
const USUAL_PARTS = 8000
const LARGE_PART_BYTES = 64 * MIB
const ATTEMPTS = 6
const FIRST_WAIT_MS = 200
/** Of what a store wants to be left alone for. */
const LONGEST_RETRY_AFTER_S = 30
const REMOVED_AT_ONCE = 100
const REFUSAL_BYTES = 4096
/** Short calls are ended by the daemon's answer or by their attempts alone. */
const NO_SIGNAL = new AbortController().signal

type Answer = Dispatcher.ResponseData

/** Makes the signed requests; connections are kept for the next ones. */
export class SignedRequests {
  #connections: Agent | undefined

  async make(
    { url, headers }: NonNullable<StoreAnswer['answers'][number]['request']>,
    asked: {
      readonly method: 'GET' | 'PUT'
      readonly body?: Buffer
      readonly range?: string
      readonly signal: AbortSignal
    },
  ): Promise<Answer> {
    // Most agents have no object store.
    const { Agent, request } = await import('undici')
    this.#connections ??= new Agent({ connections: 8, connect: { timeout: 10_000 }, headersTimeout: 60_000 })
    const { method, body, range, signal } = asked
    // A bucket that keeps what it has for a time (object lock) insists on the digest.
    const digest = body === undefined ? {} : { 'content-md5': createHash('md5').update(body).digest('base64') }
    return await request(url, {
      method,
      headers: { ...headers, ...digest, ...(range === undefined ? {} : { range }) },
      body: body ?? null,
      dispatcher: this.#connections,
      bodyTimeout: 30_000,
      signal,
    })
  }
}

/**
 * The objects of one server in a store that speaks S3. The daemon signs each request at the ticket of the work, and does itself what needs
 * no bytes; those go between this node and the store.
 */
export class S3Store implements ObjectStore {
  readonly #ticket: string
  readonly #daemon: StoreRequests
  readonly #requests: SignedRequests
  readonly #free: Buffer[] = []

  constructor(ticket: string, daemon: StoreRequests, requests: SignedRequests) {
    this.#ticket = ticket
    this.#daemon = daemon
    this.#requests = requests
  }

  async write(key: string, content: AsyncIterable<Buffer>, signal: AbortSignal): Promise<number> {
    const upload = new Upload(key, signal, {
      ask: (operation) => this.#one(operation, signal),
      send: (operation, body) => this.#send(operation, body, signal),
      clean: (operation) => this.#one(operation, NO_SIGNAL),
      free: this.#free,
    })
    try {
      for await (const piece of content) {
        if (signal.aborted) throw cancelled()
        await upload.write(piece)
      }
      return await upload.end()
    } catch (error) {
      await upload.abandon()
      throw signal.aborted ? cancelled() : error
    }
  }

  async *read(key: string, { offset, length }: ByteRange, signal: AbortSignal): AsyncGenerator<Buffer> {
    const end = length === undefined ? undefined : offset + length
    let at = offset
    for (let attempt = 1; end === undefined || at < end; ) {
      const from = at
      try {
        const answer = await this.#get(key, { from, end }, signal)
        if (answer === undefined) return
        for await (const piece of answer.body as AsyncIterable<Buffer>) {
          at += piece.length
          yield piece
        }
        return
      } catch (error) {
        if (at > from) attempt = 1
        await again(error, attempt++, signal)
      }
    }
  }

  async size(key: string): Promise<number | undefined> {
    const { bytes } = await this.#one({ op: 'head', key }, NO_SIGNAL)
    return bytes ?? undefined
  }

  async *list(prefix: string): AsyncGenerator<StoredObject> {
    for (let after: string | null = null; ; ) {
      const page: StoreAnswer['answers'][number] = await this.#one({ op: 'list', prefix, after }, NO_SIGNAL)
      yield* page.objects ?? []
      after = page.next ?? null
      if (after === null) return
    }
  }

  async remove(keys: readonly string[]): Promise<void> {
    for (let at = 0; at < keys.length; at += REMOVED_AT_ONCE) {
      const operations = keys.slice(at, at + REMOVED_AT_ONCE).map((key) => ({ op: 'delete', key }) as const)
      await this.#daemon.ask(this.#ticket, operations, NO_SIGNAL)
    }
  }

  async sweep(): Promise<void> {
    try {
      await this.#one({ op: 'sweep' }, NO_SIGNAL)
    } catch (error) {
      // Accounts may do all that backups need and not list uploads: the store's own rule for unfinished ones removes them then.
      if (!(error instanceof AgentFailure) || error.code !== 'STORE_FAILED') throw error
    }
  }

  async freeBytes(): Promise<null> {
    return null
  }

  /** Sends bytes by a signed request until the store has taken them; answers what it calls them. */
  async #send(
    operation: Extract<StoreOperation, { op: 'put' | 'part' }>,
    body: Buffer,
    signal: AbortSignal,
  ): Promise<string> {
    let first: Passing | undefined
    for (let attempt = 1; ; attempt++) {
      try {
        const { request } = await this.#one(operation, signal)
        if (request === undefined) throw new AgentFailure('STORE_FAILED', 'The daemon has signed no request')
        const answer = await this.#requests.make(request, { method: 'PUT', body, signal })
        if (answer.statusCode > 299) throw await refusalOf(answer, 's3:PutObject')
        await answer.body.dump()
        return String(answer.headers['etag'] ?? '')
      } catch (error) {
        if (error instanceof Gone && first !== undefined) throw refused(first, error)
        if (error instanceof Passing) first ??= error
        await again(error, attempt, signal)
      }
    }
  }

  /** `undefined`: nothing lies there any more. */
  async #get(
    key: string,
    { from, end }: { readonly from: number; readonly end: number | undefined },
    signal: AbortSignal,
  ): Promise<Answer | undefined> {
    const { request } = await this.#one({ op: 'get', key }, signal)
    if (request === undefined) throw new AgentFailure('STORE_FAILED', 'The daemon has signed no request')
    const isAll = from === 0 && end === undefined
    const range = `bytes=${from}-${end === undefined ? '' : end - 1}`
    const answer = await this.#requests.make(request, { method: 'GET', signal, ...(isAll ? {} : { range }) })
    if (answer.statusCode === (isAll ? 200 : 206)) return answer
    if (answer.statusCode === 416 || answer.statusCode === 404) {
      await answer.body.dump()
      if (answer.statusCode === 416) return undefined
      throw noObject(key)
    }
    if (answer.statusCode > 299) throw await refusalOf(answer, 's3:GetObject')
    answer.body.destroy()
    throw new AgentFailure('STORE_FAILED', 'The store does not give parts of objects, which backups are read by')
  }

  async #one(operation: StoreOperation, signal: AbortSignal): Promise<StoreAnswer['answers'][number]> {
    const [answer] = await this.#daemon.ask(this.#ticket, [operation], signal)
    return answer ?? {}
  }
}

interface UploadWays {
  ask(operation: StoreOperation): Promise<StoreAnswer['answers'][number]>
  send(operation: Extract<StoreOperation, { op: 'put' | 'part' }>, body: Buffer): Promise<string>
  /** As `ask`, after a failure as well. */
  clean(operation: StoreOperation): Promise<unknown>
  readonly free: Buffer[]
}

/** One object on its way: as a whole when it is small, else in parts, of which one is sent while the next one fills. */
class Upload {
  readonly #key: string
  readonly #signal: AbortSignal
  readonly #ways: UploadWays
  readonly #parts: { readonly number: number; readonly etag: string }[] = []
  #uploadId: string | undefined
  #buffer: Buffer | undefined
  #used = 0
  #number = 0
  #bytes = 0
  #sending: Promise<void> = Promise.resolve()

  constructor(key: string, signal: AbortSignal, ways: UploadWays) {
    this.#key = key
    this.#signal = signal
    this.#ways = ways
  }

  async write(piece: Buffer): Promise<void> {
    for (let at = 0; at < piece.length; ) {
      this.#buffer ??= this.#fresh()
      const buffer = this.#buffer
      if (this.#used === buffer.length) {
        await this.#part()
        continue
      }
      const count = piece.copy(buffer, this.#used, at)
      this.#used += count
      this.#bytes += count
      at += count
    }
  }

  /** Resolves when the store has all of it, with its size. */
  async end(): Promise<number> {
    const key = this.#key
    if (this.#uploadId === undefined) {
      const body = this.#buffer?.subarray(0, this.#used) ?? Buffer.alloc(0)
      await this.#ways.send({ op: 'put', key, bytes: body.length }, body)
      this.#giveBack(this.#buffer)
      return this.#bytes
    }
    if (this.#used > 0) await this.#part()
    await this.#sending
    try {
      await this.#ways.ask({ op: 'complete', key, uploadId: this.#uploadId, parts: this.#parts })
    } catch (error) {
      // Completed, and the answer was lost: the second time there is no such upload any more.
      const { bytes } = await this.#ways.ask({ op: 'head', key }).catch(() => ({ bytes: null })) // the first error says why
      if (bytes !== this.#bytes) throw error
    }
    return this.#bytes
  }

  /** Leaves nothing in the store, as far as that can be reached. */
  async abandon(): Promise<void> {
    await this.#sending.catch(() => {}) // it is why this is abandoned, or cancelled as well
    const uploadId = this.#uploadId
    if (uploadId === undefined) return
    await this.#ways.clean({ op: 'abort', key: this.#key, uploadId }).catch(() => {}) // swept by the next attempt
  }

  async #part(): Promise<void> {
    const [key, buffer] = [this.#key, this.#buffer]
    if (buffer === undefined) return
    const body = buffer.subarray(0, this.#used)
    const number = ++this.#number
    this.#buffer = undefined
    this.#used = 0
    await this.#sending
    if (this.#signal.aborted) throw cancelled()
    this.#uploadId ??= (await this.#ways.ask({ op: 'begin', key })).uploadId
    const uploadId = this.#uploadId
    if (uploadId === undefined) throw new AgentFailure('STORE_FAILED', 'The store has begun no upload')
    this.#sending = this.#ways.send({ op: 'part', key, uploadId, number, bytes: body.length }, body).then((etag) => {
      this.#parts.push({ number, etag })
      this.#giveBack(buffer)
    })
    this.#sending.catch(() => {}) // awaited before the next one
  }

  #fresh(): Buffer {
    if (this.#number >= USUAL_PARTS) return Buffer.allocUnsafeSlow(LARGE_PART_BYTES)
    return this.#ways.free.pop() ?? Buffer.allocUnsafeSlow(PART_BYTES)
  }

  #giveBack(buffer: Buffer | undefined): void {
    if (buffer?.length === PART_BYTES && this.#ways.free.length < 2) this.#ways.free.push(buffer)
  }
}

/** A refusal that may pass: the store is busy, or the signature became too old while the request waited. */
class Passing extends Error {
  override readonly name = 'Passing'
  readonly retryAfterMs: number

  constructor(message: string, retryAfterMs: number) {
    super(message)
    this.retryAfterMs = retryAfterMs
  }
}

/** The upload that a part is for is no longer there: somebody has taken it away, after whatever has gone wrong before. */
class Gone extends AgentFailure {}

async function refusalOf(answer: Answer, permission: string): Promise<Error> {
  const { statusCode } = answer
  const parts: Buffer[] = []
  let bytes = 0
  try {
    for await (const part of answer.body as AsyncIterable<Buffer>) {
      bytes += part.length
      if (bytes > REFUSAL_BYTES) break
      parts.push(part)
    }
  } catch {
    // the status says enough
  }
  const code = Buffer.concat(parts).toString('utf8').split('<Code>')[1]?.split('</Code>')[0]?.slice(0, 100)
  const message = `The store has refused it (${statusCode}${code === undefined ? '' : ` ${code}`})${nextStep(statusCode, code, permission)}`
  if (code === 'NoSuchUpload') return new Gone('STORE_FAILED', message)
  const passes = statusCode >= 500 || [403, 408, 425, 429].includes(statusCode)
  const seconds = Number(answer.headers['retry-after'] ?? 0)
  const retryAfterMs = Number.isNaN(seconds) ? 0 : Math.max(0, Math.min(seconds, LONGEST_RETRY_AFTER_S)) * 1000
  return passes ? new Passing(message, retryAfterMs) : new AgentFailure('STORE_FAILED', message)
}

/** What whoever runs the store, or its key, can do about it. */
function nextStep(status: number, code: string | undefined, permission: string): string {
  switch (code) {
    case 'AccessDenied':
      return `: give the access key of the store ${permission} in its bucket, and look at the policy of that and at the region`
    case 'InvalidAccessKeyId':
      return ': it does not know the access key of the store; check that'
    case 'SignatureDoesNotMatch':
      return ': check the secret access key of the store, and its region'
    case 'RequestTimeTooSkewed':
      return ": the clocks of the store and of the panel's machine differ too much; set that machine's by NTP"
    case 'NoSuchBucket':
      return ': its bucket is not there; make it, or name another one'
    default:
      return status === 401 || status === 403
        ? `: check the access key of the store, and that it has ${permission} in its bucket`
        : ''
  }
}

function refused(first: Passing, cause: unknown): AgentFailure {
  return new AgentFailure('STORE_FAILED', first.message, { cause })
}

/** Waits before the next attempt; throws what is for good, or came too often. */
async function again(error: unknown, attempt: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) throw cancelled()
  if (error instanceof AgentFailure) throw error
  if (attempt >= ATTEMPTS) {
    const why =
      error instanceof Passing ? error.message : `The store cannot be reached from this node: ${errorText(error)}`
    throw new AgentFailure('STORE_FAILED', `${why}; it was tried ${ATTEMPTS} times`, { cause: error })
  }
  const wantedMs = error instanceof Passing ? error.retryAfterMs : 0
  await sleep(Math.max(FIRST_WAIT_MS * 2 ** (attempt - 1), wantedMs), undefined, { signal }).catch(() => undefined)
  if (signal.aborted) throw cancelled()
}
