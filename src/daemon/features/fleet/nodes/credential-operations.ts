import * as api from '../../../../shared/api/nodes.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import { type OperationDeps, operationsOver } from '../../../access/operation.ts'
import { createEnrolmentToken, endEnrolmentTokens, redeemEnrolmentToken } from './enrolment-tokens.ts'
import { addressOnEnrolment, UNNAMED_HOST } from './fields.ts'
import type { NodeKeys } from './keys.ts'
import { GONE } from './operations.ts'
import { findNode, updateNode } from './rows.ts'

/** What the operations of a node's credentials need. */
export interface CredentialOperationDeps extends OperationDeps {
  readonly clock: Clock
  readonly keys: NodeKeys
  /** Where agents reach this daemon, as in `https://panel.example.org`. */
  readonly publicUrl: () => string
}

const operation = operationsOver<CredentialOperationDeps>()

export const createDeploymentToken = operation(
  api.createDeploymentToken,
  async ({ tx, deps, userId, fail }, { params: { nodeId }, body: { ttlSeconds } }) => {
    const { clock, publicUrl } = deps
    if ((await findNode(tx.q, nodeId)) === undefined) fail('NODE_NOT_FOUND', GONE)
    const { token, expiresAt } = await createEnrolmentToken(tx, { nodeId, ttlSeconds, clock })

    const command = `panel agent enroll --url ${publicUrl()} --token-stdin`
    return {
      answer: { deploymentToken: token, expiresAt, command, deployUrl: null },
      audit: {
        resourceId: nodeId,
        details: { expiresAt },
      },
      events: [
        {
          type: 'node_updated',
          data: { nodeId, updatedBy: userId, change: 'enrolment' },
        },
      ],
    }
  },
)

export const createNodeKey = operation(
  api.createNodeKey,
  async ({ tx, deps, userId, fail }, { params: { nodeId }, body: { regenerate } }) => {
    const { keys } = deps
    if ((await findNode(tx.q, nodeId)) === undefined) fail('NODE_NOT_FOUND', GONE)
    const present = (await keys.find(tx.q, nodeId)) !== undefined
    if (present && !regenerate) {
      fail('AGENT_KEY_EXISTS', 'The node has a key; regenerate it to cut off the agent that holds it')
    }
    await endEnrolmentTokens(tx, nodeId)
    const apiKey = await keys.issue(tx, nodeId)

    return {
      answer: { nodeId, apiKey, regenerated: present },
      audit: {
        resourceId: nodeId,
        details: { regenerated: present },
      },
      events: [
        {
          type: 'node_updated',
          data: { nodeId, updatedBy: userId, change: 'api_key' },
        },
      ],
    }
  },
)

export const deleteNodeKey = operation(
  api.deleteNodeKey,
  async ({ tx, deps, userId, fail }, { params: { nodeId } }) => {
    const { keys } = deps
    if ((await findNode(tx.q, nodeId)) === undefined) fail('NODE_NOT_FOUND', GONE)
    const [hadKey, hadTokens] = [await keys.revoke(tx, nodeId), await endEnrolmentTokens(tx, nodeId)]
    if (!hadKey && !hadTokens) fail('API_KEY_NOT_FOUND', 'The node has neither a key nor an enrolment token')

    return {
      answer: null,
      audit: {
        resourceId: nodeId,
        details: { hadKey, hadTokens },
      },
      events: [
        {
          type: 'node_updated',
          data: { nodeId, updatedBy: userId, change: 'api_key' },
        },
      ],
    }
  },
)

export const enrollAgent = operation(
  api.enrollAgent,
  async ({ tx, deps, fail }, { body: { deploymentToken, hostname } }) => {
    const { keys } = deps
    const redeemed = await redeemEnrolmentToken(tx, deploymentToken)
    const node = redeemed === undefined ? undefined : await findNode(tx.q, redeemed.nodeId)
    if (node === undefined) {
      return fail(
        'DEPLOYMENT_TOKEN_INVALID',
        'The enrolment token is wrong, used or expired; make a new one with `panel nodes enroll-token`',
      )
    }
    const publicAddress = addressOnEnrolment(node)
    const named = hostname !== undefined && hostname !== '' && node.hostname === UNNAMED_HOST ? { hostname } : {}
    await updateNode(tx.q, node.id, {
      ...named,
      ...(publicAddress === undefined ? {} : { publicAddress }),
      updatedAt: tx.now,
    })
    await endEnrolmentTokens(tx, node.id)
    const apiKey = await keys.issue(tx, node.id)

    return {
      answer: { nodeId: node.id, nodeName: node.name, apiKey },
      audit: {
        resourceId: node.id,
        details: { hostname: hostname ?? null },
      },
      events: [{ type: 'node_updated', data: { nodeId: node.id, updatedBy: null, change: 'enrolment' } }],
    }
  },
)
