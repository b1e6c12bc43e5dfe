import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer, type Server as TcpServer } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { reportOf } from '../../src/cli/kit/report.ts'
import { type ConnectionOptions, connect } from '../../src/cli/net/http.ts'
import { createRequests } from '../../src/cli/net/requests.ts'
import { createSocketOpener } from '../../src/cli/net/socket-opener.ts'
import { systemClock } from '../../src/shared/kernel/time.ts'
import { type Certificate, makeCertificate } from '../daemon/mail/mail-server.ts'

const open: TcpServer[] = []
let certificate: Certificate

beforeAll(async () => {
  certificate = await makeCertificate()
})
afterAll(() => certificate.remove())
afterEach(async () => {
  for (const server of open.splice(0)) {
    if ('closeAllConnections' in server) (server as Server).closeAllConnections() // only HTTP servers have it
    server.close()
    await once(server, 'close')
  }
})

async function listening(server: TcpServer, scheme = 'http'): Promise<string> {
  open.push(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // it listens on TCP
  return `${scheme}://127.0.0.1:${port}`
}

const openerOf = (url: string) =>
  createSocketOpener({
    ...{ url, socket: undefined, listenerUid: undefined, insecureHttp: false, insecure: false },
    timeoutMs: 50,
  })
const serve = (answer: RequestListener) => listening(createServer(answer))
const serveTls = (answer: RequestListener) =>
  listening(createSecureServer({ cert: certificate.cert, key: certificate.key }, answer), 'https')

/** Requests, streams, and files. */
type Way = 'fetch' | 'streamFetch' | 'fileFetch'
const WAYS: readonly Way[] = ['fetch', 'streamFetch', 'fileFetch']

/** What a request comes to over a connection of its own: the answer's text, or the report of its failure. */
async function asked(
  url: string,
  options: Partial<ConnectionOptions> = {},
  init: { method?: string; body?: string; way?: Way } = {},
) {
  const { method = 'GET', body, way = 'fetch' } = init
  const signal = new AbortController().signal
  const reach = { url, caFile: undefined, socket: undefined, listenerUid: undefined, insecureHttp: false }
  const parts = { ...reach, token: 'pak_x', insecure: false, userAgent: 'test', trace: undefined }
  const limits = { requestTimeoutMs: 10_000, retries: 0, clock: systemClock, signal }
  try {
    const connection = await connect({ ...parts, ...limits, ...options })
    try {
      const headers = { authorization: 'Bearer pak_x' }
      const answer = await connection[way](url, { method, headers, signal, ...(body === undefined ? {} : { body }) })
      return { status: answer.status, text: await answer.text() }
    } finally {
      await connection.close()
    }
  } catch (error) {
    const { code, exit, message, hint } = reportOf(error)
    return { code, exit, message, hint }
  }
}

describe.each(WAYS)('over TLS (%s)', (way) => {
  const hello: RequestListener = (_, response) => response.end('hello')

  it('refuses a certificate that nobody trusted has signed, and names the panel and the flag', async () => {
    const url = await serveTls(hello)
    expect(await asked(url, {}, { way })).toEqual({
      code: 'UNREACHABLE',
      exit: 13,
      message: `${url} cannot be reached: the certificate is not accepted: self-signed certificate (DEPTH_ZERO_SELF_SIGNED_CERT)`,
      hint: '--ca-file <pem>',
    })
  })

  it('accepts what --ca-file has signed, and with --insecure-skip-tls-verify everything', async () => {
    const url = await serveTls(hello)
    expect(await asked(url, { caFile: certificate.file }, { way })).toEqual({ status: 200, text: 'hello' })
    expect(await asked(url, { insecure: true }, { way })).toEqual({ status: 200, text: 'hello' })
  })

  it('refuses a --ca-file without a certificate before anything is sent', async () => {
    const file = join(certificate.folder, 'nonsense.pem')
    await writeFile(file, 'not a certificate\n')
    for (const caFile of [file, join(certificate.folder, 'absent.pem')]) {
      expect(await asked('https://127.0.0.1:1', { caFile }, { way })).toMatchObject({
        code: 'FILE_UNREADABLE',
        exit: 2,
        message: expect.stringContaining(caFile),
      })
    }
  })
})

describe.each(WAYS)('redirections (%s)', (way) => {
  it('are followed on the same origin, with the credential', async () => {
    const url = await serve((request, response) => {
      if (request.url === '/new') response.end(request.headers.authorization)
      else response.writeHead(308, { location: '/new' }).end()
    })
    expect(await asked(`${url}/old`, {}, { way })).toEqual({ status: 200, text: 'Bearer pak_x' })
  })

  it('to another origin are refused and named; nothing is sent there', async () => {
    let reached = 0
    const other = await serve((_, response) => {
      reached += 1
      response.end()
    })
    const url = await serve((_, response) => response.writeHead(302, { location: `${other}/api` }).end())
    expect(await asked(url, {}, { way })).toEqual({
      code: 'UNREACHABLE',
      exit: 13,
      message: `${url} does not answer as a panel: it redirects to ${other}`,
      hint: `panel login ${other}, or --url ${other}`,
    })
    expect(reached).toBe(0)
  })

  it('in a circle end', async () => {
    const url = await serve((_, response) => response.writeHead(307, { location: '/' }).end())
    expect(await asked(url, {}, { way })).toMatchObject({ exit: 13, message: expect.stringContaining('5 times') })
  })
})

describe('writes', () => {
  it('go on to where a 308 sends them with their body, and are never turned into a read', async () => {
    const seen: string[] = []
    const url = await serve(async (request, response) => {
      seen.push(`${request.method} ${request.url} ${await text(request)}`)
      if (request.url === '/new') response.end('done')
      else response.writeHead(request.url === '/moved' ? 308 : 301, { location: '/new' }).end()
    })
    const write = { method: 'POST', body: '{}' }
    expect(await asked(`${url}/moved`, {}, write)).toEqual({ status: 200, text: 'done' })
    expect(await asked(`${url}/old`, {}, write)).toMatchObject({
      exit: 13,
      message: expect.stringMatching(/POST .*nothing was done/),
    })
    expect(seen).toEqual(['POST /moved {}', 'POST /new {}', 'POST /old {}'])
  })
})

describe('time-outs', () => {
  it('end a request that is not answered, and one whose answer stops in the middle', async () => {
    const url = await serve((request, response) => {
      if (request.url === '/half') response.writeHead(200, { 'content-length': '10' }).write('half')
    })
    for (const path of ['/never', '/half']) {
      expect(await asked(url + path, { requestTimeoutMs: 100 })).toMatchObject({
        code: 'UNREACHABLE',
        exit: 13,
        message: `${new URL(url).host} did not answer within 0.1 s`,
      })
    }
  })

  it('end a connection that does not get ready', async () => {
    // It takes connections and never begins TLS.
    const url = await listening(
      createTcpServer((socket) => socket.resume()),
      'https',
    )
    const requests = createRequests({ timeout: 50 }, openerOf(url), { answerMs: 10_000, silenceMs: 10_000 })
    const failed = await requests.fetch(url, { method: 'GET', headers: {} }).catch((error: unknown) => error)
    requests.close()
    expect(failed).toMatchObject({ message: 'fetch failed', cause: { code: 'ETIMEDOUT' } })
  })

  it('end a stream whose answer does not begin, and one that has fallen silent', async () => {
    const url = await serve((request, response) => {
      if (request.url === '/silent') response.writeHead(200).write('x')
    })
    const requests = (times: { answerMs: number; silenceMs: number }) =>
      createRequests({ timeout: 5000 }, openerOf(url), times)
    const patient = requests({ answerMs: 30_000, silenceMs: 50 })
    const silent = await patient.stream(`${url}/silent`, { method: 'GET', headers: {} })
    await expect(silent.text()).rejects.toThrow('nothing came for 0.05 s')
    patient.close()
    const hasty = requests({ answerMs: 50, silenceMs: 30_000 })
    const failed = await hasty.stream(`${url}/mute`, { method: 'GET', headers: {} }).catch((error: unknown) => error)
    expect(failed).toMatchObject({ message: 'fetch failed', cause: { message: 'no answer within 0.05 s' } })
    hasty.close()
  })

  it('leave a slow answer alone once the connection is ready', async () => {
    const url = await serve((_, response) => setTimeout(() => response.end('late'), 700))
    const requests = createRequests({ timeout: 500 }, openerOf(url), { answerMs: 10_000, silenceMs: 10_000 })
    const answer = await requests.fetch(url, { method: 'GET', headers: {} })
    expect(await answer.text()).toBe('late')
    requests.close()
  })
})

it('names the panel that nothing listens for', async () => {
  expect(await asked('http://127.0.0.1:1/api/servers')).toMatchObject({
    exit: 13,
    message: 'http://127.0.0.1:1 cannot be reached: nothing listens there (ECONNREFUSED)',
  })
})
