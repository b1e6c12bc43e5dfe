import * as api from '../../../../shared/api/users.ts'
import type { Answer, Input } from '../../../../shared/kernel/contract.ts'
import { operationsOver, type Principal, transact } from '../../../access/operation.ts'
import { callerOf } from '../../../http/route.ts'
import { holderNow } from '../auth/grant-cap.ts'
import type { UserDeps } from './deps.ts'
import { editUser } from './edit-user.ts'
import { ensureMayConfirm, ensureMaySetRoles, makeUser, mayConfirm } from './new-user.ts'

const operation = operationsOver<UserDeps>()

/** Makes an account with a password, which is hashed before the transaction, because that takes long. */
export async function createUser(
  deps: UserDeps,
  principal: Principal,
  input: Input<typeof api.createUser>,
): Promise<Answer<typeof api.createUser>> {
  if (principal.kind === 'caller') ensureMaySetRoles(callerOf(principal), input.body.roleIds)
  const passwordHash = await deps.passwords.hash(input.body.password)
  return transact(createUserWith(passwordHash), { deps, principal, input })
}

const createUserWith = (passwordHash: string) =>
  operation(api.createUser, async (work, { body }) => {
    const holder = await holderNow(work)
    ensureMaySetRoles(holder, body.roleIds)
    const emailVerified = body.emailVerified ?? mayConfirm(holder)
    if (emailVerified) ensureMayConfirm(holder)
    const { user, event } = await makeUser(work, holder, { ...body, passwordHash, emailVerified })
    // Before the audit row: whoever reads the events in their order knows the account by then.
    await work.record({ events: [event] })
    const { roleIds, serverIds } = body
    const details = { email: user.email, username: user.username, roleIds, serverIds }
    return { answer: user, audit: { resourceId: user.id, details } }
  })

/** Edits an account; a new password is hashed before the transaction. */
export async function updateUser(
  deps: UserDeps,
  principal: Principal,
  input: Input<typeof api.updateUser>,
): Promise<Answer<typeof api.updateUser>> {
  const { password } = input.body
  const passwordHash = password === undefined ? undefined : await deps.passwords.hash(password)
  return transact(updateUserWith(passwordHash), { deps, principal, input })
}

const updateUserWith = (passwordHash: string | undefined) =>
  operation(api.updateUser, (work, { params: { userId }, body }) => editUser(work, { userId, body, passwordHash }))
