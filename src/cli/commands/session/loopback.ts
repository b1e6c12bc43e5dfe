import { createHash, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'

/** A place on this machine where a browser brings a code (RFC 8252), with what proves that the code is ours (RFC 7636). */
export interface LoopbackListener {
  readonly port: number
  readonly state: string
  readonly codeVerifier: string
  readonly codeChallenge: string
  /** What the browser brings; never fails. */
  readonly query: Promise<URLSearchParams>
  close(): Promise<void>
}

/** Listens on a free port of 127.0.0.1. Only a request that knows `state` counts. */
export async function listenOnLoopback(): Promise<LoopbackListener> {
  const state = randomBytes(32).toString('base64url')
  const codeVerifier = randomBytes(32).toString('base64url')
  const codeChallenge = createHash('sha256').update(codeVerifier).digest('base64url')
  let arrived: (query: URLSearchParams) => void = () => {}
  const query = new Promise<URLSearchParams>((resolve) => {
    arrived = resolve
  })
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://127.0.0.1')
    const ours = request.method === 'GET' && url.pathname === '/callback' && url.searchParams.get('state') === state
    const problem = ours ? url.searchParams.get('message') : null
    response.writeHead(ours ? 200 : 404, {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': "default-src 'none'",
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
      connection: 'close',
    })
    response.end(
      page(ours ? (problem ?? 'Done. You can close this page and go back to the terminal.') : 'Nothing is here.'),
    )
    if (ours) response.on('close', () => arrived(url.searchParams))
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the port of the listener is not known')
  return {
    port: address.port,
    state,
    codeVerifier,
    codeChallenge,
    query,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

function page(text: string): string {
  const safe = text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`)
  return `<!doctype html><meta charset="utf-8"><title>panel</title><p>${safe}</p>\n`
}
