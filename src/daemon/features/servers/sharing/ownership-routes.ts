import { transferOwnership } from '../../../../shared/api/access.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { grants } from '../../../../shared/kernel/permissions.ts'
import { isForeignKeyViolation } from '../../../db/db.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import { stillAllowed } from '../../accounts/auth/grant-cap.ts'
import { handOver } from '../../accounts/users/ownership.ts'
import { findServerRow } from '../servers/rows.ts'
import { toServer, viewerOf } from '../servers/view.ts'
import type { AccessDeps } from './deps.ts'
import { changeableOwnerOf } from './grants.ts'

/** The route that gives a server to another owner. */
export function ownershipRoutes(deps: AccessDeps): Route[] {
  return [
    route(transferOwnership, ({ params: { serverId }, body: { newOwnerId } }, context) =>
      deps.db.write(async (tx) => {
        const caller = await stillAllowed(deps.credentials, callerOf(context))
        const server = { id: serverId, ownerId: await changeableOwnerOf(tx.q, serverId) }
        if (server.ownerId !== caller.userId && !grants(caller.permissions, 'admin.write')) {
          context.fail('PERMISSION_DENIED', 'Only its owner, or admin.write, can give a server away', {
            missing: ['admin.write'],
          })
        }
        if (server.ownerId === newOwnerId) throw fieldError('body.newOwnerId', 'is the owner already')
        await handOver(tx, deps, { server, newOwnerId, caller, actor: context.actor }).catch((error: unknown) => {
          if (!isForeignKeyViolation(error)) throw error
          return context.fail('USER_NOT_FOUND', `There is no account ${newOwnerId}`)
        })
        tx.onCommit(() => deps.credentials.changed())
        const after = await findServerRow(tx.q, serverId)
        if (after === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
        return toServer(after, await viewerOf(tx, caller, [after]), deps.facts)
      }),
    ),
  ]
}
