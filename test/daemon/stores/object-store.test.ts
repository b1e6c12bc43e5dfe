import { createHash, randomBytes } from 'node:crypto'
import { request } from 'undici'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { readBytes, storeBytes } from '../../../src/daemon/object-store/bytes-in-store.ts'
import type { ObjectStore } from '../../../src/daemon/object-store/object-store.ts'
import { createS3Store, type S3Place } from '../../../src/daemon/object-store/s3-store.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import { type S3Service, startS3 } from '../../s3-service.ts'

let s3: S3Service
let store: ObjectStore
const opened: ObjectStore[] = []

function open(more: Partial<S3Place> = {}): ObjectStore {
  const { endpoint, bucket, accessKeyId, secretAccessKey } = s3
  const place = {
    endpoint,
    bucket,
    accessKeyId,
    secretAccessKey,
    region: 'us-east-1',
    prefix: 'panel/a',
    pathStyle: true,
  }
  const made = createS3Store({ ...place, ...more }, systemClock, { firstWaitMs: 5, silenceMs: 2000 })
  opened.push(made)
  return made
}

beforeAll(async () => {
  s3 = await startS3()
  store = open()
})
afterEach(() => {
  s3.fault = () => undefined
  s3.seen.length = 0
})
afterAll(async () => {
  await Promise.all(opened.map((one) => one.close()))
  await s3.close()
})

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

async function all(content: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = []
  for await (const piece of content) pieces.push(piece)
  return Buffer.concat(pieces)
}

async function* piecesOf(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let from = 0; from < bytes.length; from += size) yield bytes.subarray(from, from + size)
}

const reason = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error: { code?: string; meta?: { reason?: string }; message: string }) => ({
      code: error.code,
      reason: error.meta?.reason,
      message: error.message,
    }),
  )

describe('objects in a bucket', () => {
  it('are put, read whole and in part, measured, listed page by page, and deleted', async () => {
    const body = randomBytes(5000)
    await store.put('one/object', body)
    expect(await all((await store.get('one/object')).content)).toEqual(body)
    const part = await store.get('one/object', { offset: 4000, length: 500 })
    expect(part.bytes).toBe(500)
    expect(await all(part.content)).toEqual(body.subarray(4000, 4500))
    expect(await store.head('one/object')).toBe(5000)
    expect(await store.head('one/other')).toBeNull()
    for (const name of ['b', 'c', 'd']) await store.put(`one/${name}`, Buffer.from(name))
    const first = await store.list({ prefix: 'one/', limit: 3 })
    expect(first).toEqual({
      objects: ['b', 'c', 'd'].map((name) => ({ key: `one/${name}`, bytes: 1 })),
      next: 'one/d',
    })
    const second = await store.list({ prefix: 'one/', limit: 3, after: first.next })
    expect(second).toEqual({ objects: [{ key: 'one/object', bytes: 5000 }], next: null })
    // Another prefix of the same bucket sees nothing of it.
    expect((await open({ prefix: 'panel' }).list({ prefix: 'one/' })).objects).toEqual([])
    await store.delete(['one/object', 'one/b', 'one/c', 'one/d', 'one/never-there'])
    expect((await store.list({ prefix: 'one/' })).objects).toEqual([])
  })

  it('of more than one part come back as they went, and a cut download goes on where it was', async () => {
    const body = randomBytes(9 * 1024 * 1024)
    const content = piecesOf(body, 700_001)
    const done: number[] = []
    await storeBytes(store, 'large', { bytes: body.length, content }, { progress: (bytes) => done.push(bytes) })
    expect(done).toEqual([8 * 1024 * 1024, body.length])
    let cuts = 0
    s3.fault = ({ method }) => (method === 'GET' && cuts++ < 3 ? { kind: 'cut body', after: 2_000_000 } : undefined)
    expect(sha256(await all(readBytes(store, 'large')))).toBe(sha256(body))
    expect(cuts).toBe(4)
    await store.delete(['large'])
  })

  it('whose storing fails leave neither an object nor an upload', async () => {
    const asked = s3.seen
    async function* breaking(): AsyncGenerator<Uint8Array> {
      yield randomBytes(8 * 1024 * 1024)
      throw new Error('the disk is gone')
    }
    const failed = storeBytes(store, 'broken', { bytes: 20_000_000, content: breaking() })
    await expect(failed).rejects.toThrow('the disk is gone')
    expect(asked.filter(({ method }) => method === 'DELETE')).toHaveLength(1)
    expect(await store.head('broken')).toBeNull()
    expect(await store.unfinished()).toEqual([])
    const uploadId = await store.begin('left/over')
    expect(await store.unfinished('left/')).toEqual([{ key: 'left/over', uploadId, startedAt: null }])
    await store.abort({ key: 'left/over', uploadId })
    await store.abort({ key: 'left/over', uploadId })
    expect(await store.unfinished()).toEqual([])
  })
})

describe('a store that has a bad moment', () => {
  const SLOW_DOWN = '<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Reduce your rate</Message></Error>'

  it.each([
    ['answers 503 SlowDown', { kind: 'answer', status: 503, body: SLOW_DOWN }],
    ['answers 500 without a word', { kind: 'answer', status: 500 }],
    ['cuts before it has heard', { kind: 'cut', when: 'before' }],
    ['cuts when it has done it', { kind: 'cut', when: 'after' }],
    ['is slow', { kind: 'slow', bytes: 400, pauseMs: 20 }],
  ] as const)('is asked again: %s', async (_, fault) => {
    let left = 2
    s3.fault = () => (left-- > 0 ? fault : undefined)
    const body = randomBytes(2000)
    await store.put('moody', body)
    left = 2
    expect(await all((await store.get('moody')).content)).toEqual(body)
    left = 2
    await store.delete(['moody'])
    expect(await store.head('moody')).toBeNull()
  })

  it('has completed an upload although its answer was lost, which is no failure', async () => {
    const upload = { key: 'lost-answer', uploadId: await store.begin('lost-answer') }
    const part = await store.part({ ...upload, number: 1 }, Buffer.from('text'))
    let cut = false
    s3.fault = ({ method, url }) => {
      if (method !== 'POST' || !url.includes('uploadId=') || cut) return undefined
      cut = true
      return { kind: 'cut', when: 'after' }
    }
    await store.complete(upload, [part])
    expect(cut).toBe(true)
    expect(await store.head('lost-answer')).toBe(4)
    await store.delete(['lost-answer'])
  })

  it('is given up when that lasts, and when whoever asked goes away', async () => {
    s3.fault = () => ({ kind: 'answer', status: 503, body: SLOW_DOWN })
    expect(await reason(store.head('any'))).toMatchObject({ reason: 'busy' })
    expect(s3.seen).toHaveLength(5)
    const leaving = new AbortController()
    s3.fault = () => {
      leaving.abort(new Error('gone'))
      return { kind: 'answer', status: 503, body: SLOW_DOWN }
    }
    await expect(store.head('any', leaving.signal)).rejects.toThrow('gone')
  })

  it('is silent, and the time-out says so', async () => {
    const impatient = createS3Store({ ...s3, region: 'us-east-1', prefix: '', pathStyle: true }, systemClock, {
      attempts: 1,
      silenceMs: 100,
    })
    opened.push(impatient)
    s3.fault = () => ({ kind: 'slow', bytes: 10_000, pauseMs: 3000 })
    expect(await reason(impatient.list({}))).toMatchObject({ reason: 'timeout' })
  })
})

describe('a store that answers wrongly', () => {
  const page = (keys: readonly string[]): string => {
    const rows = keys.map((key) => `<Contents><Key>${key}</Key><Size>1</Size></Contents>`).join('')
    return `<ListBucketResult>${rows}<IsTruncated>true</IsTruncated></ListBucketResult>`
  }

  it.each([
    ['the same page again and again', ['panel/a/k/a', 'panel/a/k/b']],
    ['a page of other prefixes', ['other/a']],
    ['nothing, and that there is more', []],
  ])('with %s is given up, and is no list that has ended', async (_, keys) => {
    s3.fault = () => ({ kind: 'answer', status: 200, body: page(keys) })
    const walked = (async () => {
      for (let after: string | null = null; ; ) {
        const { next } = await store.list({ prefix: 'k/', after })
        if (next === null) return
        after = next
      }
    })()
    expect(await reason(walked)).toMatchObject({ reason: 'rejected', message: expect.stringContaining('list') })
    expect(s3.seen.length).toBeLessThan(3)
  })

  it('with uploads without end is given up', async () => {
    const more = '<NextKeyMarker>x</NextKeyMarker><NextUploadIdMarker>1</NextUploadIdMarker>'
    const body = `<ListMultipartUploadsResult><IsTruncated>true</IsTruncated>${more}</ListMultipartUploadsResult>`
    s3.fault = () => ({ kind: 'answer', status: 200, body })
    const gone = AbortSignal.timeout(5000)
    expect(await reason(store.unfinished('k/', gone))).toMatchObject({ reason: 'rejected' })
    expect(s3.seen).toHaveLength(2)
  })

  it('without the size of an object is not taken for one of nothing', async () => {
    s3.fault = () => ({ kind: 'answer', status: 200, headers: { 'transfer-encoding': 'chunked' } })
    expect(await reason(store.head('sizeless'))).toMatchObject({ reason: 'rejected' })
    expect(await reason(all(readBytes(store, 'sizeless')))).toMatchObject({ reason: 'rejected' })
  })

  it.each([
    ['elements in elements', `${'<a>'.repeat(500_000)}${'</a>'.repeat(500_000)}`],
    ['more elements than any page has', '<a></a>'.repeat(500_000)],
    ['elements whose tags have no end', '<a</'.repeat(1_500_000)],
  ])('with %s is not read', async (_, within) => {
    const body = `<ListBucketResult><Contents><Key>k</Key></Contents>${within}</ListBucketResult>`
    s3.fault = () => ({ kind: 'answer', status: 200, body })
    expect(await reason(store.list({}))).toMatchObject({ code: 'BACKUP_STORE_FAILED', reason: 'rejected' })
  })

  it('and says when to come again is not asked before', async () => {
    const waits: number[] = []
    const clock = { ...systemClock, sleep: async (ms: number) => void waits.push(ms) }
    const patient = createS3Store({ ...s3, region: 'us-east-1', prefix: '', pathStyle: true }, clock)
    opened.push(patient)
    const asked = ['7', '100000', 'soon', new Date(systemClock.nowMs() + 20_000).toUTCString()]
    s3.fault = () => {
      const after = asked.shift()
      return after === undefined ? undefined : { kind: 'answer', status: 503, headers: { 'retry-after': after } }
    }
    expect(await patient.head('later')).toBeNull()
    expect(waits.slice(0, 2)).toEqual([7000, 30_000])
    expect(waits[2]).toBeLessThan(5000)
    expect(waits[3]).toBeGreaterThan(15_000)
  })
})

describe('a bucket that keeps what it has for a time', () => {
  it('gets the digest of what is stored, which it insists on', async () => {
    const body = randomBytes(100)
    const digest = createHash('md5').update(body).digest('base64')
    await store.put('locked', body)
    await store.part({ key: 'locked', uploadId: await store.begin('locked'), number: 1 }, body)
    const puts = s3.seen.filter(({ method }) => method === 'PUT')
    expect(puts.map(({ headers }) => headers['content-md5'])).toEqual([digest, digest])
    for (const { key, uploadId } of await store.unfinished()) await store.abort({ key, uploadId })
    await store.delete(['locked'])
  })
})

describe('what is wrong with a store is said in a sentence', () => {
  it.each([
    ['credentials', { secretAccessKey: 'wrong' }, 'check the secret'],
    ['credentials', { accessKeyId: 'nobody' }, 'does not know the access key'],
    ['bucket', { bucket: 'nowhere' }, 'there is no bucket nowhere'],
    ['refused', { endpoint: 'http://127.0.0.1:1' }, 'nothing listens'],
    ['dns', { endpoint: 'http://store.invalid' }, 'is not known'],
  ] as const)('%s', async (why, place, sentence) => {
    const failed = await reason(createS3StoreOnce(place).put('any', Buffer.from('x')))
    expect(failed).toMatchObject({
      code: 'BACKUP_STORE_FAILED',
      reason: why,
      message: expect.stringContaining(sentence),
    })
    expect(JSON.stringify(failed)).not.toContain('wrong')
  })

  it.each([
    ['AccessDenied', 'give the access key s3:ListBucket there'],
    ['SignatureDoesNotMatch', 'check the secret access key'],
    ['RequestTimeTooSkewed', '1970-01-01T00:00:00Z there, 20'],
    ['', 'check the access key, and that it has s3:ListBucket there'],
  ])('a denial (%s) with the next step', async (code, step) => {
    const body = code === '' ? '' : `<Error><Code>${code}</Code></Error>`
    s3.fault = () => ({ kind: 'answer', status: 403, body, headers: { date: new Date(0).toUTCString() } })
    expect(await reason(store.list({}))).toMatchObject({ message: expect.stringContaining(step) })
  })

  it.each([
    ['a page of something else', 200, '<html><body>Welcome</body></html>'],
    ['what is cut off', 200, '<ListBucketResult><Contents>'],
    ['entities', 200, '<!DOCTYPE x [<!ENTITY a "aaaa">]><ListBucketResult>&a;</ListBucketResult>'],
    ['an error within a success', 200, '<Error><Code>AccessDenied</Code></Error>'],
    ['a way elsewhere', 301, '<Error><Code>PermanentRedirect</Code></Error>'],
  ])('an answer that is %s', async (_, status, body) => {
    s3.fault = () => ({ kind: 'answer', status, body })
    expect(await reason(store.list({}))).toMatchObject({ reason: expect.stringMatching(/^(rejected|denied|region)$/) })
  })

  function createS3StoreOnce(place: Partial<S3Place>): ObjectStore {
    const { endpoint, bucket, accessKeyId, secretAccessKey } = s3
    const whole = { endpoint, bucket, accessKeyId, secretAccessKey, region: 'us-east-1', prefix: '', pathStyle: true }
    const made = createS3Store({ ...whole, ...place }, systemClock, { attempts: 1, connectMs: 2000 })
    opened.push(made)
    return made
  }
})

describe('a signed request', () => {
  it('reads and writes without credentials, one object, and of the length that was asked for', async () => {
    const body = Buffer.from('of an agent')
    const put = await store.sign({ op: 'put', key: 'signed', bytes: body.length })
    const write = (url: string, bytes: Uint8Array, headers: Readonly<Record<string, string>>) =>
      request(url, { method: 'PUT', headers, body: bytes })
    expect((await write(put.url, body, put.headers)).statusCode).toBe(200)
    const get = await store.sign({ op: 'get', key: 'signed' })
    expect(await (await request(get.url, { headers: { range: 'bytes=3-4' } })).body.text()).toBe('an')
    const longer = Buffer.concat([body, body])
    expect((await write(put.url, longer, { 'content-length': String(longer.length) })).statusCode).toBe(403)
    const other = new URL(get.url)
    other.pathname = other.pathname.replace('signed', 'other')
    expect((await request(other)).statusCode).toBe(403)
    const upload = { key: 'signed', uploadId: await store.begin('signed') }
    const part = await store.sign({ op: 'part', ...upload, number: 1, bytes: body.length })
    const { headers } = await write(part.url, body, part.headers)
    await store.complete(upload, [{ number: 1, etag: String(headers['etag']) }])
    expect(await store.head('signed')).toBe(body.length)
    await store.delete(['signed'])
  })
})
