import type { Route } from '../../../http/route.ts'
import { assignmentRoutes } from './assignments.ts'
import type { AccessDeps } from './deps.ts'
import { grantRoutes } from './grants.ts'
import { inviteAcceptRoutes } from './invite-accept.ts'
import { inviteRoutes } from './invites.ts'
import { ownershipRoutes } from './ownership-routes.ts'
import { reachedRoutes } from './reached-nodes.ts'

/** Rights beside roles: grants on servers, invitations, owners, assignments of nodes. */
export function accessRoutes(deps: AccessDeps): Route[] {
  return [
    ...grantRoutes(deps),
    ...inviteRoutes(deps),
    ...inviteAcceptRoutes(deps),
    ...ownershipRoutes(deps),
    ...assignmentRoutes(deps),
    ...reachedRoutes(deps),
  ]
}
