import * as api from '../../../../shared/api/assignments.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import { isForeignKeyViolation, type Queries, type Tx, uniqueViolation } from '../../../db/db.ts'
import { countRows, offsetOf } from '../../../db/paging.ts'
import { type Context, callerOf, type Route, route } from '../../../http/route.ts'
import { stillAllowed } from '../../accounts/auth/grant-cap.ts'
import { ensureMayAssign } from '../../accounts/auth/node-cap.ts'
import { assignmentView, selectAssignments } from './assignment-rows.ts'
import type { AccessDeps } from './deps.ts'

/** The routes of assignments of nodes. */
export function assignmentRoutes(deps: AccessDeps): Route[] {
  return [
    route(api.listNodeAssignments, async ({ params: { nodeId }, query }) => {
      await ensureNode(deps.db.read, nodeId)
      const rows = selectAssignments(deps.db.read).where('nodeAssignment.nodeId', '=', nodeId)
      const total = await countRows(deps.db.read, rows)
      const page = await rows.orderBy('nodeAssignment.id').limit(query.limit).offset(offsetOf(query)).execute()
      return { items: page.map(assignmentView), total: total }
    }),
    route(api.assignNode, ({ params: { nodeId }, body }, context) => assign(deps, context, { nodeId, ...body })),
    route(api.assignEveryNode, ({ body }, context) => assign(deps, context, { nodeId: null, ...body })),
    ...removalRoutes(deps),
  ]
}

function removalRoutes(deps: AccessDeps): Route[] {
  const { db, audit, bus, credentials } = deps
  return [
    route(api.unassignNode, ({ params: { nodeId, assignmentId } }, context) =>
      db.write(async (tx) => {
        await ensureNode(tx.q, nodeId)
        const row = await tx.q
          .deleteFrom('nodeAssignment')
          .where('id', '=', assignmentId)
          .where('nodeId', '=', nodeId)
          .returning(['userId', 'roleId'])
          .executeTakeFirst()
        if (row === undefined) return context.fail('ASSIGNMENT_NOT_FOUND', 'The node has no such assignment')
        const { targetType, targetId } = targetOf(row)
        const details = { assignmentId, targetType, targetId }
        await audit.record(tx, context.actor, {
          action: 'node.unassign',
          resource: 'node',
          resourceId: nodeId,
          details,
        })
        const removedBy = callerOf(context).userId
        await bus.append(tx, { type: 'node_unassigned', data: { nodeId, ...details, removedBy } })
        tx.onCommit(() => credentials.changed())
        return null
      }),
    ),
    route(api.unassignEveryNode, ({ params: { targetType, targetId } }, context) =>
      db.write(async (tx) => {
        const row = await tx.q
          .deleteFrom('nodeAssignment')
          .where('nodeId', 'is', null)
          .where(targetType === 'user' ? 'userId' : 'roleId', '=', targetId)
          .returning('id')
          .executeTakeFirst()
        if (row === undefined) return context.fail('ASSIGNMENT_NOT_FOUND', 'There is no such assignment of every node')
        const details = { assignmentId: row.id, targetType, targetId }
        await audit.record(tx, context.actor, { action: 'node.unassign_wildcard', resource: 'node', details })
        const removedBy = callerOf(context).userId
        await bus.append(tx, { type: 'wildcard_removed', data: { ...details, removedBy } })
        tx.onCommit(() => credentials.changed())
        return null
      }),
    ),
  ]
}

interface AssignmentRequest {
  /** `null`: every node. */
  readonly nodeId: string | null
  readonly targetType: api.TargetType
  readonly targetId: string
  readonly expiresAt?: string | null | undefined
}

function assign(deps: AccessDeps, context: Pick<Context, 'actor' | 'caller'>, request: AssignmentRequest) {
  const { nodeId, targetType, targetId } = request
  return deps.db.write(async (tx) => {
    const caller = await stillAllowed(deps.credentials, callerOf(context))
    if (nodeId !== null) await ensureNode(tx.q, nodeId)
    const expiresAt = endOf(request.expiresAt ?? null, tx.now)
    await ensureMayAssign(tx, caller, { nodeId, expiresAt })
    await makeRoom(tx, request)
    const id = newId('asg', deps.clock)
    const target = targetType === 'user' ? { userId: targetId, roleId: null } : { userId: null, roleId: targetId }
    await tx.q
      .insertInto('nodeAssignment')
      .values({ id, nodeId, ...target, assignedBy: caller.userId, assignedAt: tx.now, expiresAt })
      .execute()
      .catch((error: unknown) => refuse(error, targetType))
    const details = { assignmentId: id, targetType, targetId, expiresAt }
    const action = nodeId === null ? 'node.assign_wildcard' : 'node.assign'
    const resource = { resource: 'node', ...(nodeId === null ? {} : { resourceId: nodeId }) }
    await deps.audit.record(tx, context.actor, { action, ...resource, details })
    const told = { targetType, targetId, assignmentId: id, assignedBy: caller.userId }
    if (nodeId === null) await deps.bus.append(tx, { type: 'wildcard_assigned', data: told })
    else await deps.bus.append(tx, { type: 'node_assigned', data: { nodeId, ...told } })
    tx.onCommit(() => deps.credentials.changed())
    return assignmentView(await selectAssignments(tx.q).where('nodeAssignment.id', '=', id).executeTakeFirstOrThrow())
  })
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
