import {
  createDeploymentToken,
  createNodeKey,
  deleteNodeKey,
  enrollAgent,
  getNodeKey,
} from '../../../../shared/api/nodes.ts'
import { type Route, route } from '../../../http/route.ts'
import type { NodeDeps } from './deps.ts'
import { createEnrolmentToken, endEnrolmentTokens, redeemEnrolmentToken } from './enrolment-tokens.ts'
import { UNNAMED_HOST } from './fields.ts'
import { findNode, updateNode } from './repo.ts'

const GONE = 'There is no node with this id'

/** How a machine comes to be a node: one-time tokens, keys, enrolment. */
export function credentialRoutes(deps: NodeDeps): Route[] {
  return [createToken(deps), getKey(deps), createKey(deps), deleteKey(deps), enroll(deps)]
}

function createToken({ db, bus, audit, clock, publicUrl }: NodeDeps): Route {
  return route(createDeploymentToken, ({ params: { nodeId }, body: { ttlSeconds } }, context) =>
    db.write(async (tx) => {
      if ((await findNode(tx.q, nodeId)) === undefined) context.fail('NODE_NOT_FOUND', GONE)
      const { token, expiresAt } = await createEnrolmentToken(tx, { nodeId, ttlSeconds, clock })
      await audit.record(tx, context.actor, {
        action: 'node.token_create',
        resource: 'node',
        resourceId: nodeId,
        details: { expiresAt },
      })
      await bus.append(tx, {
        type: 'node_updated',
        data: { nodeId, updatedBy: context.caller?.userId ?? null, change: 'enrolment' },
      })
      const command = `panel agent enroll --url ${publicUrl()} --token-stdin`
      return { deploymentToken: token, expiresAt, command, deployUrl: null }
    }),
  )
}

function getKey({ db, keys }: NodeDeps): Route {
  return route(getNodeKey, async ({ params: { nodeId } }, context) => {
    if ((await findNode(db.read, nodeId)) === undefined) context.fail('NODE_NOT_FOUND', GONE)
    const apiKey = await keys.find(db.read, nodeId)
    return { exists: apiKey !== undefined, apiKey: apiKey ?? null }
  })
}

function createKey({ db, bus, audit, keys }: NodeDeps): Route {
  return route(createNodeKey, ({ params: { nodeId }, body: { regenerate } }, context) =>
    db.write(async (tx) => {
      if ((await findNode(tx.q, nodeId)) === undefined) context.fail('NODE_NOT_FOUND', GONE)
      const present = (await keys.find(tx.q, nodeId)) !== undefined
      if (present && !regenerate) {
        context.fail('AGENT_KEY_EXISTS', 'The node has a key; regenerate it to cut off the agent that holds it')
      }
      await endEnrolmentTokens(tx, nodeId)
      const apiKey = await keys.issue(tx, nodeId)
      await audit.record(tx, context.actor, {
        action: 'node.api_key_create',
        resource: 'node',
        resourceId: nodeId,
        details: { regenerated: present },
      })
      await bus.append(tx, {
        type: 'node_updated',
        data: { nodeId, updatedBy: context.caller?.userId ?? null, change: 'api_key' },
      })
      return { nodeId, apiKey, regenerated: present }
    }),
  )
}

function deleteKey({ db, bus, audit, keys }: NodeDeps): Route {
  return route(deleteNodeKey, ({ params: { nodeId } }, context) =>
    db.write(async (tx) => {
      if ((await findNode(tx.q, nodeId)) === undefined) context.fail('NODE_NOT_FOUND', GONE)
      const [hadKey, hadTokens] = [await keys.revoke(tx, nodeId), await endEnrolmentTokens(tx, nodeId)]
      if (!hadKey && !hadTokens) context.fail('API_KEY_NOT_FOUND', 'The node has neither a key nor an enrolment token')
      await audit.record(tx, context.actor, {
        action: 'node.api_key_delete',
        resource: 'node',
        resourceId: nodeId,
        details: { hadKey, hadTokens },
      })
      await bus.append(tx, {
        type: 'node_updated',
        data: { nodeId, updatedBy: context.caller?.userId ?? null, change: 'api_key' },
      })
      return null
    }),
  )
}

function enroll({ db, bus, audit, keys }: NodeDeps): Route {
  return route(enrollAgent, ({ body: { deploymentToken, hostname } }, context) =>
    db.write(async (tx) => {
      const redeemed = await redeemEnrolmentToken(tx, deploymentToken)
      const node = redeemed === undefined ? undefined : await findNode(tx.q, redeemed.nodeId)
      if (node === undefined) {
        return context.fail(
          'DEPLOYMENT_TOKEN_INVALID',
          'The enrolment token is wrong, used or expired; make a new one with `panel nodes enroll-token`',
        )
      }
      if (hostname !== undefined && hostname !== '' && node.hostname === UNNAMED_HOST) {
        await updateNode(tx.q, node.id, { hostname, updatedAt: tx.now })
      }
      await endEnrolmentTokens(tx, node.id)
      const apiKey = await keys.issue(tx, node.id)
      await audit.record(tx, context.actor, {
        action: 'node.enroll',
        resource: 'node',
        resourceId: node.id,
        details: { hostname: hostname ?? null },
      })
      await bus.append(tx, { type: 'node_updated', data: { nodeId: node.id, updatedBy: null, change: 'enrolment' } })
      return { nodeId: node.id, nodeName: node.name, apiKey }
    }),
  )
}
