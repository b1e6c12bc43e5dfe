import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { listLocations } from '../../src/shared/api/locations.ts'
import * as api from '../../src/shared/api/nodes.ts'
import { createClient } from '../../src/shared/client.ts'
import { type PlacePanel, place, refusal, startPlacePanel } from './place-panel.ts'

let panel: PlacePanel
let nodeId: string
beforeEach(async () => {
  panel = await startPlacePanel()
  nodeId = (await place(panel)).nodeId
})
afterEach(() => panel.close())

const token = async (body: { ttlSeconds?: number } = {}) =>
  panel.admin.call(api.createDeploymentToken, { params: { nodeId }, body })
const enroll = (deploymentToken: string, hostname = 'box.example.org') =>
  panel.nobody.call(api.enrollAgent, { body: { deploymentToken, hostname } })
const invalid = async (call: Promise<unknown>) => expect((await refusal(call)).code).toBe('DEPLOYMENT_TOKEN_INVALID')

test('exchanges a token for the key of its node, once', async () => {
  const { deploymentToken, command, deployUrl, expiresAt } = await token()
  expect(command).toBe(`panel agent enroll --url ${panel.url} --token-stdin`)
  expect(command).not.toContain(deploymentToken)
  expect(deployUrl).toBeNull()
  expect(Date.parse(expiresAt) - panel.clock.nowMs()).toBeGreaterThan(3_500_000)
  const enrolled = await enroll(deploymentToken)
  expect(enrolled).toMatchObject({ nodeId, nodeName: 'rack-1' })
  expect(enrolled.apiKey).toMatch(/^pnk_[0-9a-z]{26}_[A-Za-z0-9_-]{43}$/)
  expect(await panel.keys.verify(nodeId, enrolled.apiKey)).toBe('ok')
  await invalid(enroll(deploymentToken))
  const node = await panel.admin.call(api.getNode, { params: { nodeId } })
  expect(node.hostname).toBe('box.example.org')
})

test('of thirty machines with one token one is enrolled', async () => {
  const { deploymentToken } = await token()
  const tries = await Promise.allSettled(Array.from({ length: 30 }, () => enroll(deploymentToken)))
  const won = tries.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []))
  expect(won).toHaveLength(1)
  expect(await panel.keys.verify(nodeId, won[0]?.apiKey ?? '')).toBe('ok')
})

test('refuses a wrong token, an expired one, and one of a deleted node', async () => {
  await invalid(enroll('no-such-token'))
  const { deploymentToken } = await token({ ttlSeconds: 60 })
  panel.advance(60_001)
  await invalid(enroll(deploymentToken))
  const fresh = await token()
  await panel.admin.call(api.deleteNode, { params: { nodeId } })
  await invalid(enroll(fresh.deploymentToken))
})

test('stores neither token nor key in clear', async () => {
  const { deploymentToken } = await token()
  const tokens = await panel.db.read.selectFrom('deploymentToken').selectAll().execute()
  expect(tokens).toHaveLength(1)
  const { apiKey } = await enroll(deploymentToken)
  const secret = apiKey.slice(-43)
  const { read } = panel.db
  const kept = JSON.stringify([
    tokens,
    await read.selectFrom('nodeKey').selectAll().execute(),
    await read.selectFrom('auditLog').selectAll().execute(),
    await read.selectFrom('event').selectAll().execute(),
  ])
  expect(kept).toContain('node.enroll')
  expect(kept).not.toContain(deploymentToken)
  expect(kept).not.toContain(secret)
})

test('a machine that enrols takes the place of the one before', async () => {
  const ended: string[] = []
  panel.keys.onRevoked((id) => ended.push(id))
  const first = await enroll((await token()).deploymentToken)
  expect(ended).toEqual([])
  const second = await enroll((await token()).deploymentToken)
  expect(ended).toEqual([nodeId])
  expect(await panel.keys.verify(nodeId, first.apiKey)).toBe('unknown')
  expect(await panel.keys.verify(nodeId, second.apiKey)).toBe('ok')
})

test('a key is no credential of a user, and proves no other node', async () => {
  const { apiKey } = await enroll((await token()).deploymentToken)
  const asUser = createClient({ baseUrl: panel.url, fetch, token: apiKey })
  expect((await refusal(asUser.call(listLocations, { query: {} }))).code).toBe('UNAUTHENTICATED')
  expect(await panel.keys.verify('node_01k00000000000000000000000', apiKey)).toBe('unknown')
  expect(await panel.keys.verify(nodeId, `${apiKey.slice(0, -1)}${apiKey.endsWith('A') ? 'B' : 'A'}`)).toBe('unknown')
  expect(await panel.keys.verify(nodeId, 'nonsense')).toBe('unknown')
})

test('makes a key once, rotates it when asked, and revokes it', async () => {
  const params = { nodeId }
  const ended: string[] = []
  panel.keys.onRevoked((id) => ended.push(id))
  expect(await panel.admin.call(api.getNodeKey, { params })).toEqual({ exists: false, apiKey: null })
  const first = await panel.admin.call(api.createNodeKey, { params, body: {} })
  expect(first.regenerated).toBe(false)
  expect((await refusal(panel.admin.call(api.createNodeKey, { params, body: {} }))).code).toBe('AGENT_KEY_EXISTS')
  expect(await panel.keys.verify(nodeId, first.apiKey)).toBe('ok')
  const second = await panel.admin.call(api.createNodeKey, { params, body: { regenerate: true } })
  expect(second.regenerated).toBe(true)
  expect(await panel.keys.verify(nodeId, first.apiKey)).toBe('unknown')
  const shown = await panel.admin.call(api.getNodeKey, { params })
  expect(shown.apiKey?.preview).toBe(`${second.apiKey.slice(0, 12)}…`)
  expect(shown.apiKey?.lastUsedAt).toBeNull()
  expect(await panel.keys.verify(nodeId, second.apiKey)).toBe('ok')
  // Nobody waits for it: a node that comes in does not stand behind other writes.
  await vi.waitFor(async () =>
    expect((await panel.admin.call(api.getNodeKey, { params })).apiKey?.lastUsedAt).not.toBeNull(),
  )
  await panel.admin.call(api.deleteNodeKey, { params })
  expect(await panel.keys.verify(nodeId, second.apiKey)).toBe('unknown')
  expect(ended).toEqual([nodeId, nodeId])
  expect((await refusal(panel.admin.call(api.deleteNodeKey, { params }))).code).toBe('API_KEY_NOT_FOUND')
})
