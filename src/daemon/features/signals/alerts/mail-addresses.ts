import { grants } from '../../../../shared/kernel/permissions.ts'
import { serverPermissions } from '../../../access/permit.ts'
import type { At } from '../../../access/relations.ts'
import { rolePermissions } from '../../../access/role-permissions.ts'
import { holderOf } from '../../accounts/auth/job-holder.ts'
import type { RuleRow } from './rule-rows.ts'

/** Whose rule it is and what it is about. */
type Ruled = Pick<RuleRow, 'userId' | 'target' | 'targetId'>

const NO_READER =
  'is not the confirmed address of an account that may read these alerts; only rules of administrators (admin.write) send mail to others'

/** Why no mail of this rule goes to the address at present; `undefined` when it goes. */
export async function addressProblem(at: At, rule: Ruled, address: string): Promise<string | undefined> {
  if (rule.userId === null || (await mayMailAnybody(at, rule.userId))) return undefined
  return readerProblem(at, rule, address)
}

/** Whether rules of this account may send mail to whoever has no account: a panel is no means to mail strangers. */
export async function mayMailAnybody(at: At, userId: string): Promise<boolean> {
  return grants(await rolePermissions(at.q, userId), 'admin.write')
}

/** Why the address is of nobody who may read what the rule reports; the same for accounts that are not there. */
export async function readerProblem(
  at: At,
  { target, targetId }: Pick<RuleRow, 'target' | 'targetId'>,
  address: string,
): Promise<string | undefined> {
  const account = await at.q
    .selectFrom('user')
    .select(['id', 'emailVerified'])
    .where('email', '=', address.toLowerCase())
    .executeTakeFirst()
  const holder = account?.emailVerified === 1 ? await holderOf(at, account.id, null) : undefined
  if (holder === undefined) return NO_READER
  if (grants(holder.permissions, 'alert.read') || grants(holder.permissions, 'admin.read')) return undefined
  if (target !== 'server') return NO_READER
  const held = await serverPermissions(at, holder, targetId ?? '', ['alert.read'])
  return held.length > 0 ? undefined : NO_READER
}
