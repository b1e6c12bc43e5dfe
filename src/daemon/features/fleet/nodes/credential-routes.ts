import { getNodeKey } from '../../../../shared/api/nodes.ts'
import { operate } from '../../../http/operate.ts'
import { type Route, route } from '../../../http/route.ts'
import * as operations from './credential-operations.ts'
import type { NodeDeps } from './deps.ts'
import { GONE } from './operations.ts'
import { findNode } from './rows.ts'

/** How a machine comes to be a node: one-time tokens, keys, enrolment. */
export function credentialRoutes(deps: NodeDeps): Route[] {
  return [
    operate(operations.createDeploymentToken, deps),
    getKey(deps),
    operate(operations.createNodeKey, deps),
    operate(operations.deleteNodeKey, deps),
    operate(operations.enrollAgent, deps),
  ]
}

function getKey({ db, keys }: NodeDeps): Route {
  return route(getNodeKey, async ({ params: { nodeId } }, context) => {
    if ((await findNode(db.read, nodeId)) === undefined) context.fail('NODE_NOT_FOUND', GONE)
    const apiKey = await keys.find(db.read, nodeId)
    return { exists: apiKey !== undefined, apiKey: apiKey ?? null }
  })
}
