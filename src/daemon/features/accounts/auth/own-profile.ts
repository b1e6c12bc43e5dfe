import { z } from 'zod'
import * as api from '../../../../shared/api/profile.ts'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import { changes } from '../../../access/audit.ts'
import { operationsOver } from '../../../access/operation.ts'
import { type Queries, uniqueViolation } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { profileOf } from './accounts.ts'
import type { AccountDeps } from './deps.ts'
import { hasTwoFactor } from './two-factor-rows.ts'
import { wholeUser } from './whole-user.ts'

const Stored = z.record(z.string(), z.union([z.string(), z.number(), z.boolean()]))

const operation = operationsOver<AccountDeps>()

export const updateProfile = operation(api.updateProfile, async (work, { body }) => {
  const { tx, fail } = work
  const { userId } = wholeUser(work)
  const before = await namesOf(tx.q, userId)
  const after = {
    username: body.username ?? before.username,
    firstName: body.firstName === undefined ? before.firstName : body.firstName,
    lastName: body.lastName === undefined ? before.lastName : body.lastName,
  }
  const details = changes(before, after)
  if (details === undefined) return { answer: { id: userId, ...before } }
  try {
    await tx.q
      .updateTable('user')
      .set({ ...after, updatedAt: tx.now })
      .where('id', '=', userId)
      .execute()
  } catch (error) {
    if (uniqueViolation(error) === undefined) throw error
    fail('USER_EXISTS', 'This user name is taken')
  }
  const data = { userId, username: after.username, updatedBy: userId, change: 'profile' }
  return {
    answer: { id: userId, ...after },
    audit: { resourceId: userId, details },
    events: [{ type: 'user_updated', data }],
  }
})

export const updatePreferences = operation(api.updatePreferences, async (work, { body }) => {
  const { tx } = work
  const { userId } = wholeUser(work)
  const before = await preferencesOf(tx.q, userId)
  const merged = Object.entries({ ...before, ...body })
  const after = Object.fromEntries(merged.flatMap(([name, value]) => (value === null ? [] : [[name, value]])))
  const named = (of: api.Preferences) => Object.fromEntries(Object.keys(body).map((name) => [name, of[name] ?? null]))
  const details = changes(named(before), named(after))
  if (details === undefined) return { answer: before }
  const preferences = JSON.stringify(after)
  if (Buffer.byteLength(preferences) > api.PREFERENCES_MAX_BYTES) {
    throw fieldError('body', `must leave at most ${api.PREFERENCES_MAX_BYTES} bytes of preferences`)
  }
  const values = { preferences, updatedAt: tx.now }
  await tx.q
    .insertInto('userPreferences')
    .values({ userId, ...values })
    .onConflict((conflict) => conflict.column('userId').doUpdateSet(values))
    .execute()
  return { answer: after, audit: { resourceId: userId, details } }
})

/** One's own account as its owner sees it. */
export async function readProfile(q: Queries, userId: string) {
  const { role: _, permissions: __, ...profile } = await profileOf(q, userId)
  const row = await q
    .selectFrom('user')
    .select(['emailVerified', 'passwordHash', 'lastSuccessfulLogin'])
    .where('id', '=', userId)
    .executeTakeFirstOrThrow()
  const failures = await q
    .selectFrom('authLockout')
    .select((eb) => [eb.fn.sum<number | null>('failureCount').as('count'), eb.fn.max('lastFailedAt').as('last')])
    .where('email', '=', profile.email)
    .where('ipAddress', '!=', '')
    .executeTakeFirst()
  return {
    ...profile,
    emailVerified: row.emailVerified === 1,
    twoFactorEnabled: await hasTwoFactor(q, userId),
    hasPassword: row.passwordHash !== null,
    lastSuccessfulLogin: row.lastSuccessfulLogin,
    failedLoginAttempts: Number(failures?.count ?? 0),
    lastFailedLogin: failures?.last ?? null,
    preferences: await preferencesOf(q, userId),
    accounts: await q
      .selectFrom('identity')
      .select(['id', 'providerId', 'subject as accountId', 'createdAt', 'updatedAt'])
      .where('userId', '=', userId)
      .orderBy('id')
      .execute(),
  }
}

async function namesOf(q: Queries, userId: string) {
  return q
    .selectFrom('user')
    .select(['username', 'firstName', 'lastName'])
    .where('id', '=', userId)
    .executeTakeFirstOrThrow()
}

async function preferencesOf(q: Queries, userId: string): Promise<api.Preferences> {
  const row = await q
    .selectFrom('userPreferences')
    .select('preferences')
    .where('userId', '=', userId)
    .executeTakeFirst()
  return row === undefined ? {} : parseJson(Stored, row.preferences)
}
