import { z } from 'zod'
import * as api from '../../../../shared/api/sso.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { operationsOver, transact } from '../../../access/operation.ts'
import type { Queries } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { countRows, offsetOf } from '../../../db/paging.ts'
import type { Context } from '../../../http/route.ts'
import { ensureWayLeft } from '../auth/sign-in-methods.ts'
import { wholeUser } from '../auth/whole-user.ts'
import { link } from './admit.ts'
import { codeInvalid, takeCode } from './codes.ts'
import type { SsoDeps } from './deps.ts'
import { takeBackRoles } from './role-sync.ts'

/** One page of the caller's accounts at providers. */
export async function listSsoAccounts(
  deps: SsoDeps,
  { query }: Input<typeof api.listSsoAccounts>,
  context: Context<typeof api.listSsoAccounts>,
) {
  const { db } = deps
  const own = db.read.selectFrom('identity').where('userId', '=', wholeUser(context).userId)
  const total = await countRows(db.read, own)
  const rows = await own.selectAll().orderBy('id').limit(query.limit).offset(offsetOf(query)).execute()
  return { items: rows.map(shown), total }
}

/** Links the account that a browser has brought the code of. */
export async function completeSsoLink(
  deps: SsoDeps,
  input: Input<typeof api.completeSsoLink>,
  context: Context<typeof api.completeSsoLink>,
) {
  const { db } = deps
  const { principal } = context
  const { userId } = wholeUser(context)
  const { linking, userId: begunBy } = await takeCode(db, input.body)
  if (linking === null || begunBy !== userId) throw codeInvalid()
  return transact(linkAccount(linking), { deps, principal, input })
}

const operation = operationsOver<SsoDeps>()

/** The code was taken, which only one call can, before the transaction. */
const linkAccount = (linking: Parameters<typeof link>[3]) =>
  operation(api.completeSsoLink, async (work) => {
    const { tx, deps } = work
    const { userId } = wholeUser(work)
    const id = await link(tx, deps, userId, linking)
    const details = { provider: linking.providerId, accountId: linking.subject, email: linking.email }
    return { answer: await oneOf(tx.q, id), audit: { resourceId: userId, details } }
  })

export const unlinkSsoAccount = operation(api.unlinkSsoAccount, async (work, { body }) => {
  const { tx, deps, fail } = work
  const { userId } = wholeUser(work)
  const rows = await tx.q
    .selectFrom('identity')
    .select(['id', 'providerId', 'subject'])
    .where('userId', '=', userId)
    .where('providerId', '=', body.providerId)
    .execute()
  const meant = rows.filter(({ subject }) => body.accountId === undefined || subject === body.accountId)
  if (meant.length === 0) fail('NOT_FOUND', `You have no such account at ${body.providerId} linked`)
  for (const { id, subject } of meant) {
    await takeBackRoles(tx, id, userId)
    await tx.q.deleteFrom('identity').where('id', '=', id).execute()
    const details = { provider: body.providerId, accountId: subject }
    await work.record({ audit: { resourceId: userId, details } })
  }
  await ensureWayLeft(tx, userId)
  tx.onCommit(() => deps.credentials.changed())
  return { answer: { status: true as const } }
})

async function oneOf(q: Queries, id: string) {
  return shown(await q.selectFrom('identity').selectAll().where('id', '=', id).executeTakeFirstOrThrow())
}

type IdentityRow = Omit<api.SsoAccount, 'accountId' | 'scopes'> & { readonly subject: string; readonly scopes: string }

function shown({ subject, scopes, ...row }: IdentityRow): api.SsoAccount {
  return { ...row, accountId: subject, scopes: parseJson(z.array(z.string()), scopes) }
}
