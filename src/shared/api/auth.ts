import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { SessionId, UserId } from '../kernel/ids.ts'
import { pageQuery } from '../kernel/page.ts'
import { IsoTime } from '../kernel/time.ts'

/** An address, trimmed and in lower case. */
export const Email = z.string().trim().toLowerCase().max(254).pipe(z.email())

/** 12 to 128 characters with an upper-case and a lower-case letter, a digit and another character. */
export const NewPassword = z
  .string()
  .min(12, 'must have at least 12 characters')
  .max(128, 'must have at most 128 characters')
  .regex(/\p{Ll}/u, 'must contain a lower-case letter')
  .regex(/\p{Lu}/u, 'must contain an upper-case letter')
  .regex(/\d/, 'must contain a digit')
  .regex(/[^\p{L}\d]/u, 'must contain a character that is neither letter nor digit')

export const Username = z.string().regex(/^[A-Za-z0-9_-]{3,32}$/, 'must be 3 to 32 letters, digits, _ or -')

/** Who is signed in. `role` is the name of the first role, or `user`. */
export const Me = z.object({
  id: UserId,
  email: z.string(),
  username: z.string(),
  name: z.string(),
  firstName: z.string().nullable(),
  lastName: z.string().nullable(),
  image: z.string().nullable(),
  role: z.string(),
  permissions: z.array(z.string()),
  createdAt: IsoTime,
})
export type Me = z.infer<typeof Me>

/** The answer of a sign-in; `token` is the session for callers that keep no cookie. */
export const LoginResult = Me.omit({ id: true, createdAt: true }).extend({ userId: UserId, token: z.string() })
export type LoginResult = z.infer<typeof LoginResult>

export const getSetupStatus = defineEndpoint({
  id: 'setup.status',
  tag: 'Setup',
  summary: 'Show whether this installation still has to be set up',
  method: 'GET',
  path: '/api/setup/status',
  access: 'public',
  response: z.object({ setupRequired: z.boolean() }),
})

export const completeSetup = defineEndpoint({
  id: 'setup.complete',
  tag: 'Setup',
  summary: 'Create the first administrator; works once, with the setup token that the daemon printed',
  method: 'POST',
  path: '/api/setup/complete',
  access: 'public',
  limit: { max: 5, minutes: 1 },
  body: z.object({
    setupToken: z.string().min(1).max(200).optional(),
    email: Email,
    username: Username,
    password: NewPassword,
    panelName: z.string().trim().min(1).max(50).default('panel'),
    locale: z
      .string()
      .regex(/^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$/, 'must be a language tag such as en or pt-BR')
      .default('en'),
  }),
  ignores: ['primaryColor', 'accentColor', 'defaultTheme', 'logoUrl'],
  response: Me.extend({ panelName: z.string(), token: z.string() }),
  status: 201,
  errors: ['SETUP_ALREADY_COMPLETE', 'SETUP_TOKEN_INVALID'],
  audit: { action: 'setup.complete', resource: 'user' },
})

export const login = defineEndpoint({
  id: 'auth.login',
  tag: 'Auth',
  summary: 'Sign in by e-mail address and password',
  method: 'POST',
  path: '/api/auth/login',
  access: 'public',
  body: z.object({
    /** The e-mail address, or the user name. */
    email: z.string().trim().min(1).max(254),
    password: z.string().min(1).max(1024),
    rememberMe: z.boolean().default(false),
  }),
  response: LoginResult,
  errors: [
    'INVALID_CREDENTIALS',
    'ACCOUNT_LOCKED',
    'ACCOUNT_BANNED',
    'EMAIL_NOT_VERIFIED',
    'SETUP_REQUIRED',
    'TWO_FACTOR_REQUIRED',
  ],
  audit: { action: 'auth.login', resource: 'user' },
})

const signOut = {
  tag: 'Auth',
  method: 'POST',
  access: 'session',
  response: NoData,
  audit: { action: 'auth.logout' },
} as const

export const logout = defineEndpoint({
  ...signOut,
  id: 'auth.logout',
  summary: 'End the session, or revoke the API key, that makes this call',
  path: '/api/auth/logout',
})

export const signOutAlias = defineEndpoint({
  ...signOut,
  id: 'auth.sign_out',
  summary: 'The same as logout',
  path: '/api/auth/sign-out',
})

export const getMe = defineEndpoint({
  id: 'auth.me',
  tag: 'Auth',
  summary: 'Show who is signed in',
  method: 'GET',
  path: '/api/auth/me',
  access: 'session',
  response: Me.extend({
    /** How this call was authenticated. */
    credential: z.object({ kind: z.enum(['session', 'apiKey']), id: z.string(), expiresAt: IsoTime.nullable() }),
  }),
})

/** A session of one's own; never its token. */
export const Session = z.object({
  id: SessionId,
  ipAddress: z.string().nullable(),
  userAgent: z.string().nullable(),
  current: z.boolean(),
  createdAt: IsoTime,
  updatedAt: IsoTime,
  expiresAt: IsoTime,
})
export type Session = z.infer<typeof Session>

export const listSessions = defineEndpoint({
  id: 'auth.sessions',
  tag: 'Auth',
  summary: 'List your sessions, newest first',
  method: 'GET',
  path: '/api/auth/profile/sessions',
  access: 'session',
  query: pageQuery(),
  response: z.array(Session),
  paged: true,
})

export const revokeSession = defineEndpoint({
  id: 'auth.session_revoke',
  tag: 'Auth',
  summary: 'End one of your sessions',
  method: 'DELETE',
  path: '/api/auth/profile/sessions/:sessionId',
  access: 'session',
  params: { sessionId: SessionId },
  response: NoData,
  errors: ['NOT_FOUND'],
  audit: { action: 'auth.session_revoke', resource: 'session' },
})

export const revokeOtherSessions = defineEndpoint({
  id: 'auth.sessions_revoke',
  tag: 'Auth',
  summary: 'End all your sessions but the one that makes this call',
  method: 'DELETE',
  path: '/api/auth/profile/sessions',
  access: 'session',
  response: z.object({ revoked: z.int() }),
  audit: { action: 'auth.session_revoke', resource: 'user' },
})

export const setPassword = defineEndpoint({
  id: 'auth.password_set',
  tag: 'Auth',
  summary: 'Give yourself a password when you have none yet',
  method: 'POST',
  path: '/api/auth/profile/set-password',
  access: 'session',
  limit: { max: 5, minutes: 1 },
  body: z.object({ newPassword: NewPassword }),
  response: NoData,
  errors: ['CONFLICT'],
  audit: { action: 'auth.password_change', resource: 'user' },
})

export const changePassword = defineEndpoint({
  id: 'auth.password_change',
  tag: 'Auth',
  summary: 'Change your password',
  method: 'POST',
  path: '/api/auth/profile/change-password',
  access: 'session',
  limit: { max: 5, minutes: 1 },
  body: z.object({
    currentPassword: z.string().min(1).max(1024),
    newPassword: NewPassword,
    revokeOtherSessions: z.boolean().default(false),
  }),
  response: NoData,
  errors: ['INVALID_CREDENTIALS', 'ACCOUNT_LOCKED'],
  audit: { action: 'auth.password_change', resource: 'user' },
})
