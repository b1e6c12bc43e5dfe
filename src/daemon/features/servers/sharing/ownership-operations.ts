import * as api from '../../../../shared/api/access.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { grants } from '../../../../shared/kernel/permissions.ts'
import { operationsOver } from '../../../access/operation.ts'
import { isForeignKeyViolation } from '../../../db/db.ts'
import { holderNow } from '../../accounts/auth/grant-cap.ts'
import { handOver } from '../../accounts/users/ownership.ts'
import { findServerRow } from '../servers/rows.ts'
import { toServer, viewerOf } from '../servers/view.ts'
import type { AccessDeps } from './deps.ts'
import { changeableOwnerOf } from './grants.ts'

const operation = operationsOver<AccessDeps>()

export const transferOwnership = operation(
  api.transferOwnership,
  async (work, { params: { serverId }, body: { newOwnerId } }) => {
    const { tx, deps, fail } = work
    const holder = await holderNow(work)
    const server = { id: serverId, ownerId: await changeableOwnerOf(tx.q, serverId) }
    if (server.ownerId !== holder.userId && !grants(holder.permissions, 'admin.write')) {
      fail('PERMISSION_DENIED', 'Only its owner, or admin.write, can give a server away', { missing: ['admin.write'] })
    }
    if (server.ownerId === newOwnerId) throw fieldError('body.newOwnerId', 'is the owner already')
    const done = await handOver(work, { server, newOwnerId, holder }).catch((error: unknown) => {
      if (!isForeignKeyViolation(error)) throw error
      return fail('USER_NOT_FOUND', `There is no account ${newOwnerId}`)
    })
    tx.onCommit(() => deps.credentials.changed())
    const after = await findServerRow(tx.q, serverId)
    if (after === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
    return { ...done, answer: toServer(after, await viewerOf(tx, holder, [after]), deps.facts) }
  },
)
