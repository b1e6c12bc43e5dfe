import { z } from 'zod'
import { holderOf, recordFact, userIdOf } from '../../../../access/operation.ts'
import { administratorRoles } from '../../../accounts/users/administrator-roles.ts'
import { makeUser } from '../../../accounts/users/new-user.ts'
import { contentHash } from '../plan/content-hash.ts'
import { stepAction } from './step.ts'

/**
 * Brings a person: an account without a password and with an address that nobody has confirmed, so that only a mail to it lets somebody
 * in. Nobody becomes an administrator unless that was asked for by somebody who may do everything.
 */
export const importUser = stepAction({
  input: z.object({
    source: z.looseObject({
      id: z.string(),
      email: z.string(),
      firstName: z.string().nullable(),
      lastName: z.string().nullable(),
      isAdmin: z.boolean(),
      hasTwoFactor: z.boolean(),
    }),
    username: z.string(),
    op: z.enum(['create', 'link']),
    grantAdmin: z.boolean(),
  }),
  run: async ({ deps, principal, targetId }, { source, username, grantAdmin, op }) => {
    return async (tx) => {
      const hash = contentHash(source)
      const there = await tx.q
        .selectFrom('user')
        .select('id')
        .where((on) =>
          on.or([
            on(on.fn<string>('lower', ['email']), '=', source.email.toLowerCase()),
            ...(op === 'link' && targetId !== null ? [on('id', '=', targetId)] : []),
          ]),
        )
        .executeTakeFirst()
      if (there !== undefined) {
        return { kind: 'done', target: { type: 'user', id: there.id, created: false, contentHash: hash } }
      }
      const holder = await holderOf(tx, principal)
      const { user, event } = await makeUser({ tx, deps, userId: userIdOf(principal) }, holder, {
        email: source.email,
        username,
        passwordHash: null,
        firstName: source.firstName,
        lastName: source.lastName,
        emailVerified: false,
        roleIds: grantAdmin ? await administratorRoles(tx) : [],
        serverIds: [],
        serverPermissions: [],
      })
      const details = { email: source.email, username, cause: 'migration' }
      await recordFact(
        tx,
        { deps, principal },
        {
          audit: { action: 'user.create', resource: 'user', resourceId: user.id, details },
          events: [event],
        },
      )
      return {
        kind: 'done',
        target: { type: 'user', id: user.id, created: true, contentHash: hash },
        notes: { needsPassword: true, hadTwoFactor: source.hasTwoFactor, wasAdmin: source.isAdmin && !grantAdmin },
      }
    }
  },
})
