import { newId } from '../../../../shared/kernel/ids.ts'
import { type Clock, isoTime } from '../../../../shared/kernel/time.ts'
import { newSecret, sha256 } from '../../../core/secrets.ts'
import type { Queries, Tx } from '../../../db/db.ts'

/** What a mailed token is for. */
export type Purpose = 'reset' | 'verify'

interface Rule {
  readonly livesMs: number
  /** So many may be made for one account within this time. */
  readonly most: number
  readonly withinMs: number
}

const MINUTE = 60_000
const RULES: Readonly<Record<Purpose, Rule>> = {
  reset: { livesMs: 60 * MINUTE, most: 3, withinMs: 15 * MINUTE },
  verify: { livesMs: 24 * 60 * MINUTE, most: 3, withinMs: 60 * MINUTE },
}

/** An account as far as a mail to it goes. */
interface Addressee {
  readonly id: string
  readonly email: string
}

/** Makes a token, which is stored nowhere; `undefined` when the account has had too many of late. */
export async function issueToken(tx: Tx, clock: Clock, user: Addressee, purpose: Purpose): Promise<string | undefined> {
  const rule = RULES[purpose]
  const at = Date.parse(tx.now)
  await tx.q
    .deleteFrom('mailedToken')
    .where('expiresAt', '<', isoTime(at - rule.withinMs))
    .execute()
  const { recent } = await tx.q
    .selectFrom('mailedToken')
    .select((eb) => eb.fn.countAll<number>().as('recent'))
    .where('userId', '=', user.id)
    .where('purpose', '=', purpose)
    .where('createdAt', '>', isoTime(at - rule.withinMs))
    .executeTakeFirstOrThrow()
  if (Number(recent) >= rule.most) return undefined
  const token = newSecret()
  const row = { id: newId('mtk', clock), userId: user.id, purpose, email: user.email, tokenHash: sha256(token) }
  await tx.q
    .insertInto('mailedToken')
    .values({ ...row, expiresAt: isoTime(at + rule.livesMs), createdAt: tx.now })
    .execute()
  return token
}

/** The account that a token speaks for, while it lives and the account still has the address it was sent to. */
export async function tokenHolder(
  q: Queries,
  token: string,
  purpose: Purpose,
  nowMs: number,
): Promise<Addressee | undefined> {
  return q
    .selectFrom('mailedToken')
    .innerJoin('user', (join) =>
      join.onRef('user.id', '=', 'mailedToken.userId').onRef('user.email', '=', 'mailedToken.email'),
    )
    .select(['user.id', 'user.email'])
    .where('mailedToken.tokenHash', '=', sha256(token))
    .where('mailedToken.purpose', '=', purpose)
    .where('mailedToken.expiresAt', '>', isoTime(nowMs))
    .executeTakeFirst()
}

/** Takes the token and all others of its kind from the account; the account, or `undefined` when the token is good no more. */
export async function useToken(tx: Tx, token: string, purpose: Purpose): Promise<Addressee | undefined> {
  const user = await tokenHolder(tx.q, token, purpose, Date.parse(tx.now))
  if (user === undefined) return undefined
  await tx.q.deleteFrom('mailedToken').where('userId', '=', user.id).where('purpose', '=', purpose).execute()
  return user
}
