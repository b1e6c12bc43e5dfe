import { z } from 'zod'
import { defineEndpoint } from '../kernel/contract.ts'
import { UserId } from '../kernel/ids.ts'
import { User } from './users.ts'

const ofAccount = {
  tag: 'Admin',
  method: 'POST',
  access: { panel: 'user.update' },
  params: { userId: UserId },
} as const

export const disableTwoFactorOfUser = defineEndpoint({
  ...ofAccount,
  id: 'users.two_factor_disable',
  summary: 'End the two-factor sign-in of an account that has lost its authenticator; needs all rights of the account',
  path: '/api/admin/users/:userId/two-factor/disable',
  response: User,
  errors: ['USER_NOT_FOUND', 'USER_SELF_ACTION', 'PERMISSION_DENIED'],
  audit: { action: 'auth.2fa_disable', resource: 'user' },
})

export const signUserOut = defineEndpoint({
  ...ofAccount,
  id: 'users.sign_out',
  summary: 'End all sessions of an account; its API keys stay',
  path: '/api/admin/users/:userId/sign-out',
  response: z.object({ revoked: z.int() }),
  errors: ['USER_NOT_FOUND', 'PERMISSION_DENIED'],
  audit: { action: 'auth.session_revoke', resource: 'user' },
})
