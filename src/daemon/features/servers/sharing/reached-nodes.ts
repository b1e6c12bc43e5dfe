import * as api from '../../../../shared/api/assignments.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { type IsoTime, now } from '../../../../shared/kernel/time.ts'
import type { Queries } from '../../../db/db.ts'
import { countRows, offsetOf } from '../../../db/paging.ts'
import { type Route, route } from '../../../http/route.ts'
import { type AssignmentRow, assignmentView, selectAssignments } from './assignment-rows.ts'
import type { AccessDeps } from './deps.ts'

/** The routes that list the nodes of a role and of a user. */
export function reachedRoutes(deps: AccessDeps): Route[] {
  const { db, clock } = deps
  return [
    route(api.listRoleNodes, async ({ params: { roleId }, query }) => {
      const role = await db.read.selectFrom('role').select('id').where('id', '=', roleId).executeTakeFirst()
      if (role === undefined) throw new PanelError('ROLE_NOT_FOUND', `There is no role ${roleId}`)
      const rows = await assignments(db.read, { roleIds: [roleId] }, now(clock))
      return reached(deps, rows, query)
    }),
    route(api.listUserNodes, async ({ params: { userId }, query }) => {
      const user = await db.read.selectFrom('user').select('id').where('id', '=', userId).executeTakeFirst()
      if (user === undefined) throw new PanelError('USER_NOT_FOUND', `There is no account ${userId}`)
      const roles = await db.read.selectFrom('userRole').select('roleId').where('userId', '=', userId).execute()
      const roleIds = roles.map(({ roleId }) => roleId)
      return reached(deps, await assignments(db.read, { userId, roleIds }, now(clock)), query)
    }),
  ]
}

/** The assignments of a user and of roles that hold now. */
async function assignments(
  q: Queries,
  target: { readonly userId?: string; readonly roleIds: readonly string[] },
  at: IsoTime,
): Promise<AssignmentRow[]> {
  const { userId, roleIds } = target
  return selectAssignments(q)
    .where((eb) => eb.or([eb('nodeAssignment.expiresAt', 'is', null), eb('nodeAssignment.expiresAt', '>', at)]))
    .where((eb) =>
      eb.or([
        ...(userId === undefined ? [] : [eb('nodeAssignment.userId', '=', userId)]),
        ...(roleIds.length === 0 ? [] : [eb('nodeAssignment.roleId', 'in', [...roleIds])]),
      ]),
    )
    .orderBy('nodeAssignment.id')
    .execute()
}

/** One page of the nodes that these assignments reach, each with those that do. */
async function reached(
  { db, isOnline }: AccessDeps,
  rows: readonly AssignmentRow[],
  { page, limit }: { page: number; limit: number },
) {
  const everywhere = rows.some(({ nodeId }) => nodeId === null)
  const ids = [...new Set(rows.flatMap(({ nodeId }) => (nodeId === null ? [] : [nodeId])))]
  if (!everywhere && ids.length === 0) return { items: [], total: 0 }
  const nodes = everywhere ? db.read.selectFrom('node') : db.read.selectFrom('node').where('id', 'in', ids)
  const total = await countRows(db.read, nodes)
  const found = await nodes
    .select(['id', 'name', 'hostname', 'publicAddress'])
    .orderBy('name')
    .orderBy('id')
    .limit(limit)
    .offset(offsetOf({ page, limit }))
    .execute()
  const items = found.map((node) => ({
    ...node,
    isOnline: isOnline(node.id),
    assignments: rows.filter(({ nodeId }) => nodeId === null || nodeId === node.id).map(assignmentView),
  }))
  return { items, total: total }
}
