import { createHash, createSign, generateKeyPairSync, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

type Claims = Record<string, unknown>

/** What the provider does otherwise than it should; fields that are absent are done right. */
export interface Forgery {
  /** Changes what stands in the ID token. */
  readonly claims?: (right: Claims) => Claims
  /** Sends the browser back with these in the query. */
  readonly query?: (right: URLSearchParams) => URLSearchParams
  /** Signs with a key that it does not show. */
  readonly otherKey?: boolean
  /** What its document says instead. */
  readonly metadata?: Readonly<Record<string, unknown>>
}

/** A provider that keeps to the protocol as far as it is told: it signs whatever the test wants. */
export interface ForgingProvider {
  readonly issuer: string
  forgery: Forgery
  /** What the ID token says of the person beside `sub`. */
  person: Claims
  /** What the daemon has sent to change codes for tokens. */
  readonly asked: URLSearchParams[]
  close(): Promise<void>
}

/** Its key, and one that it does not show; made once, which takes a second of processor time. */
let keys: [ReturnType<typeof newKey>, ReturnType<typeof newKey>] | undefined

/** Starts one for the client `panel` without a secret. */
export async function startForger(sub = 'ann'): Promise<ForgingProvider> {
  keys ??= [newKey(), newKey()]
  const [own, other] = keys
  const codes = new Map<string, { nonce: string | null; challenge: string | null }>()
  const self = { forgery: {} as Forgery, person: { sub } as Claims, asked: [] as URLSearchParams[], issuer: '' }
  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => response.writeHead(500).end(String(error)))
  })
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? '/', self.issuer)
    if (url.pathname === '/.well-known/openid-configuration') return json(response, metadata(self))
    if (url.pathname === '/keys') return json(response, { keys: [own.jwk] })
    if (url.pathname === '/authorize') {
      const code = randomUUID()
      const { searchParams: asked } = url
      codes.set(code, { nonce: asked.get('nonce'), challenge: asked.get('code_challenge') })
      const right = new URLSearchParams({ code, state: asked.get('state') ?? '' })
      const back = self.forgery.query?.(right) ?? right
      response.writeHead(302, { location: `${asked.get('redirect_uri')}?${back}` }).end()
      return
    }
    const form = new URLSearchParams(await textOf(request))
    self.asked.push(form)
    const known = codes.get(form.get('code') ?? '')
    codes.delete(form.get('code') ?? '')
    const fits = known?.challenge === sha256(form.get('code_verifier') ?? '')
    if (known === undefined || !fits) return json(response, { error: 'invalid_grant' }, 400)
    const seconds = Math.floor(Date.now() / 1000)
    const right = {
      iss: self.issuer,
      aud: 'panel',
      iat: seconds,
      exp: seconds + 60,
      nonce: known.nonce,
      ...self.person,
    }
    const token = sign(self.forgery.otherKey === true ? other : own, self.forgery.claims?.(right) ?? right)
    json(response, { access_token: 'none', token_type: 'Bearer', id_token: token })
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // it listens on a port
  self.issuer = `http://127.0.0.1:${port}`
  server.unref() // a test that forgets it ends all the same
  return Object.assign(self, {
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  })
}

function metadata({ issuer, forgery }: { issuer: string; forgery: Forgery }): Claims {
  return {
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/keys`,
    response_types_supported: ['code'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: ['RS256'],
    code_challenge_methods_supported: ['S256'],
    ...forgery.metadata,
  }
}

function newKey() {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  return { privateKey, jwk: { ...publicKey.export({ format: 'jwk' }), kid: 'one', use: 'sig', alg: 'RS256' } }
}

function sign({ privateKey }: ReturnType<typeof newKey>, claims: Claims): string {
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const text = `${part({ alg: 'RS256', kid: 'one' })}.${part(claims)}`
  return `${text}.${createSign('sha256').update(text).sign(privateKey, 'base64url')}`
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}

function json(response: ServerResponse, value: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}

async function textOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(Buffer.from(part))
  return Buffer.concat(parts).toString()
}
