import { sql } from 'kysely'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { Queries } from '../../../db/db.ts'
import { countRows, offsetOf } from '../../../db/paging.ts'
import { containing, contains } from '../../../db/text-search.ts'
import { displayName, isBanned } from '../auth/accounts.ts'

/** An account as administrators see it. */
export type ShownUser = NonNullable<Awaited<ReturnType<typeof findUser>>>

/** The account with its roles; `at` decides whether a ban holds. */
export async function findUser(q: Queries, id: string, at: IsoTime) {
  const row = await accountRows(q).where('user.id', '=', id).executeTakeFirst()
  return row === undefined ? undefined : (await shown(q, [row], at))[0]
}

/** One page of accounts, newest first. */
export async function listUserRows(
  q: Queries,
  filter: {
    search?: string | undefined
    roleId?: string | undefined
    banned?: boolean | undefined
    page: number
    limit: number
    at: IsoTime
  },
) {
  let query = accountRows(q)
  if (filter.search !== undefined) {
    const pattern = containing(filter.search)
    query = query.where((eb) =>
      eb.or([contains(sql.ref('user.email'), pattern), contains(sql.ref('user.username'), pattern)]),
    )
  }
  const { roleId, banned, at } = filter
  if (roleId !== undefined) {
    query = query.where('user.id', 'in', (eb) =>
      eb.selectFrom('userRole').select('userId').where('roleId', '=', roleId),
    )
  }
  if (banned !== undefined) {
    query = query.where((eb) => {
      const holds = eb.and([eb('banned', '=', 1), eb.or([eb('banExpires', 'is', null), eb('banExpires', '>', at)])])
      const free = eb.or([eb('banned', '=', 0), eb('banExpires', '<=', at)])
      return banned ? holds : free
    })
  }
  const total = await countRows(q, query)
  const rows = await query.orderBy('user.id', 'desc').limit(filter.limit).offset(offsetOf(filter)).execute()
  return { items: await shown(q, rows, at), total }
}

function accountRows(q: Queries) {
  return q
    .selectFrom('user')
    .selectAll('user')
    .select((eb) =>
      eb
        .selectFrom('server')
        .select((inner) => inner.fn.countAll<number>().as('count'))
        .whereRef('server.ownerId', '=', 'user.id')
        .as('serverCount'),
    )
    .select((eb) =>
      eb
        .exists(
          eb
            .selectFrom('twoFactor')
            .select('userId')
            .whereRef('twoFactor.userId', '=', 'user.id')
            .where('confirmedAt', 'is not', null),
        )
        .as('twoFactorEnabled'),
    )
}

type AccountRow = Awaited<ReturnType<ReturnType<typeof accountRows>['executeTakeFirstOrThrow']>>

async function shown(q: Queries, rows: readonly AccountRow[], at: IsoTime) {
  const ids = rows.map((row) => row.id)
  const roles =
    ids.length === 0
      ? []
      : await q
          .selectFrom('userRole')
          .innerJoin('role', 'role.id', 'userRole.roleId')
          .select(['userRole.userId', 'role.id', 'role.name'])
          .where('userRole.userId', 'in', ids)
          .orderBy('role.id')
          .execute()
  const locks = await lockedUntil(
    q,
    rows.map((row) => row.email),
    at,
  )
  return rows.map((row) => ({
    id: row.id,
    email: row.email,
    username: row.username,
    name: displayName(row),
    firstName: row.firstName,
    lastName: row.lastName,
    roles: roles.filter((role) => role.userId === row.id).map(({ id, name }) => ({ id, name })),
    banned: isBanned(row, at),
    banReason: isBanned(row, at) ? row.banReason : null,
    banExpires: isBanned(row, at) ? row.banExpires : null,
    lockedUntil: locks.get(row.email) ?? null,
    emailVerified: row.emailVerified === 1,
    hasPassword: row.passwordHash !== null,
    twoFactorEnabled: Boolean(row.twoFactorEnabled),
    lastSuccessfulLogin: row.lastSuccessfulLogin,
    serverCount: Number(row.serverCount),
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
  }))
}

/** Until when each of the addresses is locked out somewhere. */
async function lockedUntil(q: Queries, emails: readonly string[], at: IsoTime): Promise<Map<string, IsoTime>> {
  if (emails.length === 0) return new Map()
  const rows = await q
    .selectFrom('authLockout')
    .select(['email', 'lockedUntil'])
    .where('email', 'in', emails)
    .where('lockedUntil', '>', at)
    .orderBy('lockedUntil')
    .execute()
  return new Map(rows.flatMap(({ email, lockedUntil: until }) => (until === null ? [] : [[email, until]])))
}
