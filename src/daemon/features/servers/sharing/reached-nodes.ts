import type * as api from '../../../../shared/api/assignments.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { type IsoTime, now } from '../../../../shared/kernel/time.ts'
import type { Queries } from '../../../db/db.ts'
import { countRows, offsetOf } from '../../../db/paging.ts'
import { type AssignmentRow, assignmentView, selectAssignments } from './assignment-rows.ts'
import type { AccessDeps } from './deps.ts'

/** One page of the nodes that are assigned to a role. */
export async function listRoleNodes(deps: AccessDeps, { params: { roleId }, query }: Input<typeof api.listRoleNodes>) {
  const { db, clock } = deps
  const role = await db.read.selectFrom('role').select('id').where('id', '=', roleId).executeTakeFirst()
  if (role === undefined) throw new PanelError('ROLE_NOT_FOUND', `There is no role ${roleId}`)
  const rows = await assignments(db.read, { roleIds: [roleId] }, now(clock))
  return reached(deps, rows, query)
}

/** One page of the nodes that are assigned to a user, or to a role of theirs. */
export async function listUserNodes(deps: AccessDeps, { params: { userId }, query }: Input<typeof api.listUserNodes>) {
  const { db, clock } = deps
  const user = await db.read.selectFrom('user').select('id').where('id', '=', userId).executeTakeFirst()
  if (user === undefined) throw new PanelError('USER_NOT_FOUND', `There is no account ${userId}`)
  const roles = await db.read.selectFrom('userRole').select('roleId').where('userId', '=', userId).execute()
  const roleIds = roles.map(({ roleId }) => roleId)
  return reached(deps, await assignments(db.read, { userId, roleIds }, now(clock)), query)
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
