import { listAllocations } from '../../../../shared/api/allocations.ts'
import { operate } from '../../../http/operate.ts'
import { type Route, route } from '../../../http/route.ts'
import * as operations from './allocation-operations.ts'
import * as rows from './allocation-rows.ts'
import type { NodeDeps } from './deps.ts'
import { GONE } from './operations.ts'
import { findNode } from './rows.ts'

/** The routes of a node's addresses and ports. */
export function allocationRoutes(deps: NodeDeps): Route[] {
  return [
    list(deps),
    operate(operations.createAllocations, deps),
    operate(operations.updateAllocation, deps),
    operate(operations.deleteAllocation, deps),
  ]
}

function list({ db }: NodeDeps): Route {
  return route(listAllocations, async ({ params: { nodeId }, query }, context) => {
    if ((await findNode(db.read, nodeId)) === undefined) context.fail('NODE_NOT_FOUND', GONE)
    return rows.listAllocations(db.read, nodeId, query)
  })
}
