import * as api from '../../../../shared/api/access.ts'
import * as assignmentsApi from '../../../../shared/api/assignments.ts'
import { SERVER_PRESETS } from '../../../../shared/kernel/permission-presets.ts'
import { now } from '../../../../shared/kernel/time.ts'
import { operate } from '../../../http/operate.ts'
import { type Route, route } from '../../../http/route.ts'
import * as assignments from './assignments.ts'
import type { AccessDeps } from './deps.ts'
import { listServerAccess, removeServerAccess, setServerAccess } from './grants.ts'
import { acceptServerInvite, registerByInvite } from './invite-accept.ts'
import * as invites from './invites.ts'
import { transferOwnership } from './ownership-operations.ts'
import { listRoleNodes, listUserNodes } from './reached-nodes.ts'

/** Rights beside roles: grants on servers, invitations, owners, assignments of nodes. */
export function accessRoutes(deps: AccessDeps): Route[] {
  return [...memberRoutes(deps), ...inviteRoutes(deps), ...assignmentRoutes(deps)]
}

/** Members of a server, and its owner. */
function memberRoutes(deps: AccessDeps): Route[] {
  return [
    route(api.getServerPresets, async () => ({
      readOnly: [...SERVER_PRESETS.readOnly],
      power: [...SERVER_PRESETS.power],
      full: [...SERVER_PRESETS.full],
    })),
    route(api.listServerAccess, (input) => listServerAccess(deps, input)),
    operate(setServerAccess, deps),
    operate(removeServerAccess, deps),
    operate(transferOwnership, deps),
  ]
}

/** Invitations to a server, for who makes them and for who is invited: with an account, or with a new one. */
function inviteRoutes(deps: AccessDeps): Route[] {
  return [
    route(api.listServerInvites, (input) => invites.listServerInvites(deps, input)),
    route(api.createServerInvite, (input, { principal, signal }) =>
      invites.createServerInvite(deps, { principal, input, signal }),
    ),
    operate(invites.cancelServerInvite, deps),
    route(api.getServerInvite, ({ params }) => invites.usableInvite(deps.db.read, params.token, now(deps.clock))),
    operate(acceptServerInvite, deps),
    route(api.registerByInvite, (input, context) => registerByInvite(deps, input, context)),
  ]
}

/** Assignments of nodes, and the nodes that a role and a user reach by them. */
function assignmentRoutes(deps: AccessDeps): Route[] {
  return [
    route(assignmentsApi.listNodeAssignments, (input) => assignments.listNodeAssignments(deps, input)),
    operate(assignments.assignNode, deps),
    operate(assignments.assignEveryNode, deps),
    operate(assignments.unassignNode, deps),
    operate(assignments.unassignEveryNode, deps),
    route(assignmentsApi.listRoleNodes, (input) => listRoleNodes(deps, input)),
    route(assignmentsApi.listUserNodes, (input) => listUserNodes(deps, input)),
  ]
}
