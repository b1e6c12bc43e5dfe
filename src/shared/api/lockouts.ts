import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { LockoutId } from '../kernel/ids.ts'
import { pageQuery, QueryBoolean } from '../kernel/page.ts'
import { IsoTime } from '../kernel/time.ts'

/**
 * Failed sign-ins of one account from one address; a lockout while `lockedUntil` lies ahead. Without
 * `email` the row counts an address whatever the accounts; without `ipAddress` the second factors of an account whatever
 * the addresses.
 */
export const AuthLockout = z.object({
  id: LockoutId,
  /** What was typed, in lower case; there need not be such an account. */
  email: z.string(),
  ipAddress: z.string(),
  userAgent: z.string().nullable(),
  failureCount: z.int(),
  firstFailedAt: IsoTime,
  lastFailedAt: IsoTime,
  lockedUntil: IsoTime.nullable(),
  createdAt: IsoTime,
  updatedAt: IsoTime,
})
export type AuthLockout = z.infer<typeof AuthLockout>

export const listLockouts = defineEndpoint({
  id: 'lockouts.list',
  tag: 'Admin',
  summary: 'List failed sign-ins and the lockouts that they led to, newest first',
  method: 'GET',
  path: '/api/admin/auth-lockouts',
  access: { panel: 'admin.read' },
  query: pageQuery().extend({
    /** Contained in the account or the address. */
    search: z.string().max(254).optional(),
    /** Only those that lock now, or only those that do not. */
    locked: QueryBoolean.optional(),
  }),
  response: z.array(AuthLockout),
  paged: true,
})

export const deleteLockout = defineEndpoint({
  id: 'lockouts.delete',
  tag: 'Admin',
  summary: 'End a lockout and forget the failures that led to it',
  method: 'DELETE',
  path: '/api/admin/auth-lockouts/:lockoutId',
  access: { panel: 'admin.write' },
  params: { lockoutId: LockoutId },
  response: NoData,
  errors: ['ADMIN_LOCKOUT_NOT_FOUND'],
  audit: { action: 'auth_lockout.delete' },
})
