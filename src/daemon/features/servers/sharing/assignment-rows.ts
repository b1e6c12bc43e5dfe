import type { Queries } from '../../../db/db.ts'

/** An assignment with the names of what it joins. */
export type AssignmentRow = Awaited<ReturnType<ReturnType<typeof selectAssignments>['executeTakeFirstOrThrow']>>

/** Assignments with the names of node, user and role. */
export function selectAssignments(q: Queries) {
  return q
    .selectFrom('nodeAssignment')
    .leftJoin('node', 'node.id', 'nodeAssignment.nodeId')
    .leftJoin('user', 'user.id', 'nodeAssignment.userId')
    .leftJoin('role', 'role.id', 'nodeAssignment.roleId')
    .selectAll('nodeAssignment')
    .select(['node.name as nodeName', 'user.username', 'role.name as roleName'])
}

/** The assignment of the API. */
export function assignmentView(row: AssignmentRow) {
  return { ...row, source: row.userId === null ? ('role' as const) : ('user' as const) }
}
