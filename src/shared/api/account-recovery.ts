import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { Email, LoginResult, NewPassword, Username } from './auth.ts'

/** A secret that came by mail. */
const MailToken = z.string().trim().min(1).max(200)

export const register = defineEndpoint({
  id: 'auth.register',
  tag: 'Auth',
  summary: 'Create an account for yourself, where the administrators allow it',
  method: 'POST',
  path: '/api/auth/register',
  access: 'public',
  limit: { max: 10, minutes: 1 },
  body: z.object({ email: Email, username: Username, password: NewPassword }),
  /** `token` is null when the address has to be verified first. */
  response: LoginResult.extend({ token: z.string().nullable() }),
  status: 201,
  errors: ['FEATURE_DISABLED', 'SETUP_REQUIRED', 'USER_EXISTS'],
  audit: { action: 'user.create' },
})

export const forgotPassword = defineEndpoint({
  id: 'auth.forgot_password',
  tag: 'Auth',
  summary: 'Have a mail with the means to set a new password sent; the answer is the same for every address',
  method: 'POST',
  path: '/api/auth/forgot-password',
  access: 'public',
  limit: { max: 3, minutes: 15 },
  body: z.object({ email: Email }),
  response: NoData,
  audit: { action: 'auth.password_reset_request', resource: 'user' },
})

export const validateReset = defineEndpoint({
  id: 'auth.reset_validate',
  tag: 'Auth',
  summary: 'Show whether a token for a new password can still be used',
  method: 'GET',
  path: '/api/auth/reset-password/validate',
  access: 'public',
  limit: { max: 5, minutes: 15 },
  query: z.object({ token: MailToken }),
  response: z.object({ valid: z.boolean() }),
})

export const resetPassword = defineEndpoint({
  id: 'auth.reset_password',
  tag: 'Auth',
  summary: 'Set a new password with the token that came by mail; it works once and ends all sessions',
  method: 'POST',
  path: '/api/auth/reset-password',
  access: 'public',
  limit: { max: 5, minutes: 15 },
  body: z.object({ token: MailToken, password: NewPassword }),
  response: NoData,
  errors: ['TOKEN_INVALID'],
  audit: { action: 'auth.password_reset', resource: 'user' },
})

export const verifyEmail = defineEndpoint({
  id: 'auth.verify_email',
  tag: 'Auth',
  summary: 'Confirm an e-mail address with the token that was sent to it',
  method: 'GET',
  path: '/api/auth/verify-email',
  access: 'public',
  query: z.object({ token: MailToken }),
  response: z.object({ status: z.boolean() }),
  errors: ['TOKEN_INVALID'],
  audit: { action: 'auth.email_verify', resource: 'user' },
})

export const resendVerification = defineEndpoint({
  id: 'auth.resend_verification',
  tag: 'Auth',
  summary: 'Have the mail that confirms your e-mail address sent again',
  method: 'POST',
  path: '/api/auth/profile/resend-verification',
  access: 'session',
  response: NoData,
  errors: ['FEATURE_DISABLED', 'RATE_LIMITED'],
  audit: { action: 'auth.email_verification_request', resource: 'user' },
})
