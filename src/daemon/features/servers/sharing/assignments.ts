import * as api from '../../../../shared/api/assignments.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import { operationsOver, type WorkOver } from '../../../access/operation.ts'
import type { NewEvent } from '../../../core/bus.ts'
import { isForeignKeyViolation, type Queries, type Tx, uniqueViolation } from '../../../db/db.ts'
import { countRows, offsetOf } from '../../../db/paging.ts'
import { holderNow } from '../../accounts/auth/grant-cap.ts'
import { ensureMayAssign } from '../../accounts/auth/node-cap.ts'
import { assignmentView, selectAssignments } from './assignment-rows.ts'
import type { AccessDeps } from './deps.ts'

/** One page of the assignments of a node. */
export async function listNodeAssignments(
  deps: AccessDeps,
  { params: { nodeId }, query }: Input<typeof api.listNodeAssignments>,
) {
  await ensureNode(deps.db.read, nodeId)
  const rows = selectAssignments(deps.db.read).where('nodeAssignment.nodeId', '=', nodeId)
  const total = await countRows(deps.db.read, rows)
  const page = await rows.orderBy('nodeAssignment.id').limit(query.limit).offset(offsetOf(query)).execute()
  return { items: page.map(assignmentView), total: total }
}

const operation = operationsOver<AccessDeps>()

export const assignNode = operation(api.assignNode, (work, { params: { nodeId }, body }) =>
  assign(work, { nodeId, ...body }),
)

export const assignEveryNode = operation(api.assignEveryNode, (work, { body }) =>
  assign(work, { nodeId: null, ...body }),
)

export const unassignNode = operation(api.unassignNode, async (work, { params: { nodeId, assignmentId } }) => {
  const { tx, deps, userId: removedBy, fail } = work
  await ensureNode(tx.q, nodeId)
  const row = await tx.q
    .deleteFrom('nodeAssignment')
    .where('id', '=', assignmentId)
    .where('nodeId', '=', nodeId)
    .returning(['userId', 'roleId'])
    .executeTakeFirst()
  if (row === undefined) return fail('ASSIGNMENT_NOT_FOUND', 'The node has no such assignment')
  const { targetType, targetId } = targetOf(row)
  const details = { assignmentId, targetType, targetId }
  tx.onCommit(() => deps.credentials.changed())
  return {
    answer: null,
    audit: { resourceId: nodeId, details },
    events: [{ type: 'node_unassigned', data: { nodeId, ...details, removedBy } }],
  }
})

export const unassignEveryNode = operation(
  api.unassignEveryNode,
  async ({ tx, deps, userId: removedBy, fail }, { params: { targetType, targetId } }) => {
    const row = await tx.q
      .deleteFrom('nodeAssignment')
      .where('nodeId', 'is', null)
      .where(targetType === 'user' ? 'userId' : 'roleId', '=', targetId)
      .returning('id')
      .executeTakeFirst()
    if (row === undefined) return fail('ASSIGNMENT_NOT_FOUND', 'There is no such assignment of every node')
    const details = { assignmentId: row.id, targetType, targetId }
    tx.onCommit(() => deps.credentials.changed())
    return { answer: null, audit: { details }, events: [{ type: 'wildcard_removed', data: { ...details, removedBy } }] }
  },
)

interface AssignmentRequest {
  /** `null`: every node. */
  readonly nodeId: string | null
  readonly targetType: api.TargetType
  readonly targetId: string
  readonly expiresAt?: string | null | undefined
}

async function assign(work: WorkOver<AccessDeps>, request: AssignmentRequest) {
  const { tx, deps } = work
  const { nodeId, targetType, targetId } = request
  const holder = await holderNow(work)
  if (nodeId !== null) await ensureNode(tx.q, nodeId)
  const expiresAt = endOf(request.expiresAt ?? null, tx.now)
  await ensureMayAssign(tx, holder, { nodeId, expiresAt })
  await makeRoom(tx, request)
  const id = newId('asg', deps.clock)
  const assignedBy = work.userId
  const target = targetType === 'user' ? { userId: targetId, roleId: null } : { userId: null, roleId: targetId }
  await tx.q
    .insertInto('nodeAssignment')
    .values({ id, nodeId, ...target, assignedBy, assignedAt: tx.now, expiresAt })
    .execute()
    .catch((error: unknown) => refuse(error, targetType))
  tx.onCommit(() => deps.credentials.changed())
  const data = { targetType, targetId, assignmentId: id, assignedBy }
  const event: NewEvent =
    nodeId === null ? { type: 'wildcard_assigned', data } : { type: 'node_assigned', data: { nodeId, ...data } }
  const row = await selectAssignments(tx.q).where('nodeAssignment.id', '=', id).executeTakeFirstOrThrow()
  return {
    answer: assignmentView(row),
    audit: { resourceId: nodeId ?? undefined, details: { assignmentId: id, targetType, targetId, expiresAt } },
    events: [event],
  }
}

/** What has ended goes; one for every node takes the place of single ones, and leaves none to be added. */
async function makeRoom(tx: Tx, { nodeId, targetType, targetId }: AssignmentRequest): Promise<void> {
  const column = targetType === 'user' ? 'userId' : 'roleId'
  await tx.q.deleteFrom('nodeAssignment').where(column, '=', targetId).where('expiresAt', '<=', tx.now).execute()
  const everywhere = await tx.q
    .selectFrom('nodeAssignment')
    .select('id')
    .where(column, '=', targetId)
    .where('nodeId', 'is', null)
    .executeTakeFirst()
  if (everywhere !== undefined) {
    throw new PanelError('ASSIGNMENT_EXISTS', `The ${targetType} has every node already`)
  }
  if (nodeId === null) await tx.q.deleteFrom('nodeAssignment').where(column, '=', targetId).execute()
}

function refuse(error: unknown, targetType: api.TargetType): never {
  if (uniqueViolation(error) !== undefined) {
    throw new PanelError('ASSIGNMENT_EXISTS', `The node is assigned to this ${targetType} already`)
  }
  if (!isForeignKeyViolation(error)) throw error
  throw new PanelError(targetType === 'user' ? 'USER_NOT_FOUND' : 'ROLE_NOT_FOUND', `There is no such ${targetType}`)
}

function targetOf(row: { userId: string | null; roleId: string | null }) {
  return row.userId === null
    ? { targetType: 'role', targetId: row.roleId ?? '' }
    : { targetType: 'user', targetId: row.userId }
}

function endOf(text: string | null, now: IsoTime): IsoTime | null {
  if (text === null) return null
  const end = isoTime(Date.parse(text))
  if (end <= now) throw fieldError('body.expiresAt', 'must be in the future')
  return end
}

async function ensureNode(q: Queries, nodeId: string): Promise<void> {
  const row = await q.selectFrom('node').select('id').where('id', '=', nodeId).executeTakeFirst()
  if (row === undefined) throw new PanelError('NODE_NOT_FOUND', 'There is no node with this id')
}
