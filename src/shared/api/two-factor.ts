import { z } from 'zod'
import { defineEndpoint } from '../kernel/contract.ts'
import { LoginResult } from './auth.ts'

const Password = z.object({ password: z.string().min(1).max(1024) })
const RecoveryCodes = z.array(z.string())

export const getTwoFactor = defineEndpoint({
  id: 'two_factor.get',
  tag: 'Auth',
  summary: 'Show whether your sign-in asks for a second factor',
  method: 'GET',
  path: '/api/auth/profile/two-factor',
  access: 'session',
  response: z.object({ twoFactorEnabled: z.boolean(), backupCodesLeft: z.int() }),
})

export const enableTwoFactor = defineEndpoint({
  id: 'two_factor.enable',
  tag: 'Auth',
  summary: 'Begin with two-factor sign-in; it holds from the first code that is verified',
  method: 'POST',
  path: '/api/auth/profile/two-factor/enable',
  access: 'session',
  limit: { max: 5, minutes: 1 },
  body: Password,
  /** Both are shown this once. */
  response: z.object({ totpURI: z.string(), backupCodes: RecoveryCodes }),
  errors: ['INVALID_CREDENTIALS', 'ACCOUNT_LOCKED', 'CONFLICT', 'CREDENTIAL_ENCRYPTION_KEY_MISSING'],
  audit: { action: 'auth.2fa_setup', resource: 'user' },
})

export const disableTwoFactor = defineEndpoint({
  id: 'two_factor.disable',
  tag: 'Auth',
  summary: 'End two-factor sign-in',
  method: 'POST',
  path: '/api/auth/profile/two-factor/disable',
  access: 'session',
  limit: { max: 5, minutes: 1 },
  body: Password,
  response: z.object({ status: z.boolean() }),
  errors: ['INVALID_CREDENTIALS', 'ACCOUNT_LOCKED'],
  audit: { action: 'auth.2fa_disable', resource: 'user' },
})

export const renewRecoveryCodes = defineEndpoint({
  id: 'two_factor.codes',
  tag: 'Auth',
  summary: 'Make new recovery codes; the old ones end',
  method: 'POST',
  path: '/api/auth/profile/two-factor/generate-backup-codes',
  access: 'session',
  limit: { max: 5, minutes: 1 },
  body: Password,
  response: z.object({ backupCodes: RecoveryCodes }),
  errors: ['INVALID_CREDENTIALS', 'ACCOUNT_LOCKED', 'CONFLICT'],
  audit: { action: 'auth.2fa_codes', resource: 'user' },
})

/** The token of the pending sign-in; a browser has it in a cookie too. */
const pendingToken = z.string().min(1).max(200).optional()

export const verifyTotp = defineEndpoint({
  id: 'two_factor.verify_totp',
  tag: 'Auth',
  summary: 'Give the code of your authenticator: to end a sign-in, or, signed in, to begin with two-factor sign-in',
  method: 'POST',
  path: '/api/auth/two-factor/verify-totp',
  access: 'public',
  body: z.object({
    token: pendingToken,
    code: z
      .string()
      .trim()
      .regex(/^\d{6}$/, 'must be 6 digits'),
  }),
  /** `token` is null when it was given to begin with two-factor sign-in: there was a session already. */
  ignores: ['trustDevice'],
  response: LoginResult.extend({ token: z.string().nullable() }),
  errors: [
    'TWO_FACTOR_INVALID',
    'ACCOUNT_LOCKED',
    'ACCOUNT_BANNED',
    'EMAIL_NOT_VERIFIED',
    'CONFLICT',
    'UNAUTHENTICATED',
  ],
  audit: { action: 'auth.login', resource: 'user' },
})

export const verifyRecoveryCode = defineEndpoint({
  id: 'two_factor.verify_backup_code',
  tag: 'Auth',
  summary: 'End a sign-in with a recovery code; each works once',
  method: 'POST',
  path: '/api/auth/two-factor/verify-backup-code',
  access: 'public',
  body: z.object({ token: pendingToken, code: z.string().trim().min(1).max(64) }),
  ignores: ['trustDevice'],
  response: LoginResult,
  errors: ['TWO_FACTOR_INVALID', 'ACCOUNT_LOCKED', 'ACCOUNT_BANNED', 'EMAIL_NOT_VERIFIED', 'UNAUTHENTICATED'],
  audit: { action: 'auth.login', resource: 'user' },
})
