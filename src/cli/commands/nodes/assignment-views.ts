import type { NodeAssignment, ReachedNode } from '../../../shared/api/assignments.ts'
import { column, type View, view, wide } from '../../kit/output/view.ts'

/** To whom a node is assigned. */
export const ASSIGNMENT: View<NodeAssignment> = {
  id: (row) => row.id,
  name: (row) => row.username ?? row.roleName ?? row.id,
  columns: [
    column('NODE', (row) => row.nodeName ?? 'every node'),
    column('KIND', (row) => row.source),
    column('TO', (row) => row.username ?? row.roleName),
    column('ENDS', (row) => ({ time: row.expiresAt })),
    column('ID', (row) => row.id),
    wide('SINCE', (row) => ({ time: row.assignedAt })),
    wide('BY', (row) => row.assignedBy),
  ],
}

/** A node that somebody reaches by assignments. */
export const REACHED: View<ReachedNode> = view<ReachedNode>([
  column('NAME', (row) => row.name),
  column('ONLINE', (row) => row.isOnline),
  column('BY', (row) =>
    row.assignments
      .map(({ roleName, nodeId }) => `${roleName ?? 'user'}${nodeId === null ? ' (every node)' : ''}`)
      .join(','),
  ),
  column('ID', (row) => row.id),
])
