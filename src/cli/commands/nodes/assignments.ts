import * as api from '../../../shared/api/assignments.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { endOf } from '../../kit/instant.ts'
import { call, subjectOf } from '../../kit/resource/actions.ts'
import { listAction } from '../../kit/resource/list.ts'
import { resolve } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'
import { ASSIGNMENT } from './assignment-views.ts'
import { NODE_VIEW } from './view.ts'

const SUBJECT = { ref: 'node', param: 'nodeId' } as const

export const accessibleNodes = listAction(api.listAccessibleNodes, NODE_VIEW)

export const nodeAssignments = listAction(api.listNodeAssignments, ASSIGNMENT, async (run) => ({
  params: { nodeId: (await subjectOf(run, SUBJECT)).id },
}))

/** Assigns one node, or with `--every` all. */
export const assignNode: Action = async (run) => {
  const nodeId = await nodeOf(run)
  const expiresAt = endOf(run, 'expires')
  const body = { ...(await targetOf(run)), ...(expiresAt === undefined ? {} : { expiresAt }) }
  const made =
    nodeId === undefined
      ? await call(run, api.assignEveryNode, { params: {}, body })
      : await call(run, api.assignNode, { params: { nodeId }, body })
  await run.out.item(made, ASSIGNMENT)
}

export const unassignNode: Action = async (run) => {
  const nodeId = await nodeOf(run)
  const { targetType, targetId } = await targetOf(run)
  if (nodeId === undefined) {
    await call(run, api.unassignEveryNode, { params: { targetType, targetId } })
    return run.notice('taken back')
  }
  const assignmentId = await assignmentOf(run, nodeId, targetType === 'user' ? 'userId' : 'roleId', targetId)
  await call(run, api.unassignNode, { params: { nodeId, assignmentId } })
  run.notice('taken back')
}

async function assignmentOf(run: Run, nodeId: string, by: 'userId' | 'roleId', targetId: string): Promise<string> {
  const client = await run.client()
  for (let page = 1; ; page++) {
    const query = { limit: 100, page }
    const { data, pagination } = await client.page(api.listNodeAssignments, { params: { nodeId }, query })
    const found = data.find((row) => row[by] === targetId)
    if (found !== undefined) return found.id
    if (page >= pagination.totalPages) break
  }
  throw new CliFailure('NOT_FOUND', 'the node is not assigned to it', { hint: 'panel nodes assignments <node>' })
}

async function nodeOf(run: Run): Promise<string | undefined> {
  const word = run.args.word('node')
  if ((word === undefined) !== run.args.flag('every')) throw usage('name one node, or pass --every')
  return word === undefined ? undefined : (await resolve(run, 'node', word)).id
}

async function targetOf(run: Run): Promise<{ targetType: api.TargetType; targetId: string }> {
  const [user, role] = [run.args.text('user'), run.args.text('role')]
  if (user !== undefined && role === undefined) {
    return { targetType: 'user', targetId: (await resolve(run, 'user', user)).id }
  }
  if (role !== undefined && user === undefined) {
    return { targetType: 'role', targetId: (await resolve(run, 'role', role)).id }
  }
  throw usage('pass --user or --role')
}
