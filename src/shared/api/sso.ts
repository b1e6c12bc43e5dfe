import { z } from 'zod'
import { defineEndpoint, RedirectAnswer } from '../kernel/contract.ts'
import { ProviderId } from '../kernel/ids.ts'
import { pageQuery } from '../kernel/page.ts'
import { IsoTime } from '../kernel/time.ts'
import { LoginResult } from './auth.ts'

/** A challenge or verifier as PKCE (RFC 7636) has them. */
const Verifier = z.string().regex(/^[A-Za-z0-9._~-]{43,128}$/, 'must be 43 to 128 letters, digits, or - . _ ~')

/**
 * Where a program on this person's machine waits for the end (RFC 8252): a browser is sent to `127.0.0.1:<port>` with a code,
 * which only the holder of the verifier behind `codeChallenge` (S256) can use, once.
 */
const Loopback = z.object({
  port: z.int().min(1024).max(65_535),
  state: z.string().regex(/^[A-Za-z0-9_-]{16,128}$/, 'must be 16 to 128 letters, digits, - or _'),
  codeChallenge: z.string().regex(/^[A-Za-z0-9_-]{43}$/, 'must be a SHA-256 as base64url'),
})

/** A page of this panel: it begins with a single slash, so that nobody can be sent elsewhere. */
const PagePath = z
  .string()
  .max(2000)
  .regex(/^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/, 'must be a path on this panel, such as /servers')

const begin = z.object({
  providerId: ProviderId,
  /** Where the browser goes in the end; `error` and `message` stand in its query when the sign-in has failed. */
  callbackURL: PagePath.optional(),
  loopback: Loopback.optional(),
})

/** Where the browser must go now. */
const Begun = z.object({ url: z.string(), redirect: z.literal(true), expiresInSeconds: z.int() })

export const signInByProvider = defineEndpoint({
  id: 'sso.sign_in',
  tag: 'Auth',
  summary: 'Begin a sign-in by an identity provider',
  method: 'POST',
  path: '/api/auth/sign-in/oauth2',
  access: 'public',
  body: begin,
  response: Begun,
  errors: ['PROVIDER_NOT_FOUND', 'PROVIDER_DISABLED', 'PROVIDER_FAILED', 'CREDENTIAL_ENCRYPTION_KEY_MISSING'],
  audit: { none: 'nobody is signed in yet' },
})

export const startSso = defineEndpoint({
  id: 'sso.start',
  tag: 'Auth',
  summary: 'Send a browser to the identity provider; the address comes from the sign-in that a program has begun',
  method: 'GET',
  path: '/api/auth/oauth2/start',
  access: 'public',
  query: z.object({ ticket: z.string().min(1).max(200) }),
  response: RedirectAnswer,
  status: 302,
  answers: 'redirect',
  errors: [
    'TOKEN_INVALID',
    'PROVIDER_NOT_FOUND',
    'PROVIDER_DISABLED',
    'PROVIDER_FAILED',
    'CREDENTIAL_ENCRYPTION_KEY_MISSING',
  ],
})

export const ssoCallback = defineEndpoint({
  id: 'sso.callback',
  tag: 'Auth',
  summary: 'Take a browser back from the identity provider',
  method: 'GET',
  path: '/api/auth/oauth2/callback/:providerId',
  access: 'public',
  params: { providerId: ProviderId },
  query: z.object({
    state: z.string().min(1).max(512),
    code: z.string().max(4096).optional(),
    iss: z.string().max(2000).optional(),
    error: z.string().max(200).optional(),
    error_description: z.string().max(2000).optional(),
  }),
  response: RedirectAnswer,
  status: 302,
  answers: 'redirect',
  errors: ['TOKEN_INVALID'],
  audit: { action: 'auth.login', resource: 'user' },
})

const exchangeBody = z.object({ code: z.string().min(1).max(200), codeVerifier: Verifier })

export const exchangeSsoCode = defineEndpoint({
  id: 'sso.exchange',
  tag: 'Auth',
  summary: 'End a sign-in by an identity provider: the code that the browser brought for a session',
  method: 'POST',
  path: '/api/auth/oauth2/exchange',
  access: 'public',
  body: exchangeBody,
  response: LoginResult,
  errors: ['TOKEN_INVALID', 'ACCOUNT_LOCKED', 'ACCOUNT_BANNED', 'EMAIL_NOT_VERIFIED', 'TWO_FACTOR_REQUIRED'],
  audit: { action: 'auth.login', resource: 'user' },
})

/** One's account at an identity provider. */
export const SsoAccount = z.object({
  id: z.string(),
  providerId: z.string(),
  /** Who one is there. */
  accountId: z.string(),
  email: z.string().nullable(),
  scopes: z.array(z.string()),
  lastUsedAt: IsoTime.nullable(),
  createdAt: IsoTime,
  updatedAt: IsoTime,
})
export type SsoAccount = z.infer<typeof SsoAccount>

export const listSsoAccounts = defineEndpoint({
  id: 'sso.accounts',
  tag: 'Auth',
  summary: 'List your accounts at identity providers',
  method: 'GET',
  path: '/api/auth/profile/sso/accounts',
  access: 'session',
  query: pageQuery(),
  response: z.array(SsoAccount),
  paged: true,
})

export const linkSsoAccount = defineEndpoint({
  id: 'sso.link',
  tag: 'Auth',
  summary: 'Begin to link your account at an identity provider',
  method: 'POST',
  path: '/api/auth/profile/sso/link',
  access: 'session',
  body: begin,
  response: Begun,
  errors: ['PROVIDER_NOT_FOUND', 'PROVIDER_DISABLED', 'PROVIDER_FAILED', 'CREDENTIAL_ENCRYPTION_KEY_MISSING'],
  audit: { none: 'nothing is linked yet' },
})

export const completeSsoLink = defineEndpoint({
  id: 'sso.link_complete',
  tag: 'Auth',
  summary: 'End the linking: the code that the browser brought',
  method: 'POST',
  path: '/api/auth/profile/sso/link/complete',
  access: 'session',
  body: exchangeBody,
  response: SsoAccount,
  status: 201,
  errors: ['TOKEN_INVALID', 'CONFLICT'],
  audit: { action: 'auth.sso_link', resource: 'user' },
})

export const unlinkSsoAccount = defineEndpoint({
  id: 'sso.unlink',
  tag: 'Auth',
  summary: 'Unlink your account at an identity provider, and give back the roles that it brought',
  method: 'POST',
  path: '/api/auth/profile/sso/unlink',
  access: 'session',
  /** `accountId` distinguishes several of the same provider. */
  body: z.object({ providerId: ProviderId, accountId: z.string().min(1).max(255).optional() }),
  response: z.object({ status: z.literal(true) }),
  errors: ['NOT_FOUND', 'LAST_SIGN_IN_METHOD', 'LAST_ADMIN'],
  audit: { action: 'auth.sso_unlink', resource: 'user' },
})
