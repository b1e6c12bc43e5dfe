import { z } from 'zod'
import { recordFact } from '../../../../access/operation.ts'
import type { Tx } from '../../../../db/db.ts'
import { makeUser } from '../../../accounts/users/new-user.ts'
import { contentHash } from '../plan/content-hash.ts'
import { stepAction } from './step.ts'

/**
 * Brings a person: an account without a password and with an address that nobody has confirmed, so that only a mail to it lets somebody
 * in. Nobody becomes an administrator unless that was asked for.
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
      const holder = { userId: '', permissions: new Set(['*'] as const), scope: null }
      const record = (done: Parameters<typeof recordFact>[2]) => recordFact(tx, { deps, principal }, done)
      const work = { tx, deps, caller: undefined, userId: null, holder, record } as never
      const { user, event } = await makeUser(work, holder as never, {
        email: source.email,
        username,
        passwordHash: null,
        firstName: source.firstName,
        lastName: source.lastName,
        emailVerified: false,
        roleIds: grantAdmin ? await adminRoles(tx) : [],
        serverIds: [],
        serverPermissions: [],
      })
      const details = { email: source.email, username, cause: 'migration' }
      await record({
        audit: { action: 'user.create', resource: 'user', resourceId: user.id, details },
        events: [event],
      })
      return {
        kind: 'done',
        target: { type: 'user', id: user.id, created: true, contentHash: hash },
        notes: { needsPassword: true, hadTwoFactor: source.hasTwoFactor, wasAdmin: source.isAdmin && !grantAdmin },
      }
    }
  },
})

async function adminRoles(tx: Tx): Promise<string[]> {
  const rows = await tx.q.selectFrom('role').select(['id', 'permissions']).execute()
  return rows.filter(({ permissions }) => permissions === '["*"]').map(({ id }) => id)
}
