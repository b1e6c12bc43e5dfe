import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createNodeKey, deleteNodeKey } from '../../src/shared/api/nodes.ts'
import { AgentPeer, refusedBy } from '../daemon/agent-peer.ts'
import { GatewayStage } from '../daemon/gateway-stage.ts'
import { flood } from '../faults/gateway-flood.ts'
import { startPanel, type TestPanel } from '../panel.ts'

/** With the network's way and a busy machine: it must not wait for the end of a guessing address's punishment (300 s). */
const AT_ONCE_MS = 1500

let panel: TestPanel
let stage: GatewayStage

beforeAll(async () => {
  panel = await startPanel()
  stage = new GatewayStage(panel)
})
afterAll(() => panel.close())
afterEach(() => stage.clear())

/** A stranger who shares the node's address. */
const here = (nodeId: string) => ({ url: panel.url, from: '127.0.0.1', nodeId })

const refused = async (nodeId: string, key: string) =>
  (await refusedBy(AgentPeer.connect(panel.url, nodeId, key))).status

describe('a stranger who guesses keys from the address of a node', () => {
  it('does not keep the agent out that has the key, neither before nor while it goes on', async () => {
    const node = await stage.node()
    const seen = await flood(here(node.nodeId), 60, 5)
    expect([...seen.keys()].sort()).toEqual([401, 429])
    let guessing = true
    const goesOn = (async () => {
      while (guessing) await flood(here(node.nodeId), 100, 20)
    })()
    try {
      for (let time = 0; time < 3; time++) {
        const began = performance.now()
        const peer = await stage.connect(node)
        await peer.enter()
        expect(performance.now() - began).toBeLessThan(AT_ONCE_MS)
        await peer.leave()
      }
    } finally {
      guessing = false
      await goesOn
    }
  })

  it('is slowed down although the agent comes and goes with the right key', async () => {
    const node = await stage.node()
    await flood(here(node.nodeId), 30, 1)
    await (await stage.connect(node)).enter()
    expect(await refused(node.nodeId, `${node.key.slice(0, -3)}AAA`)).toBe(429)
  })

  it('is refused with the key of another node, the key of a user, and keys that only begin like the right one', async () => {
    const [node, other] = [await stage.node(), await stage.node()]
    const tries = [
      other.key,
      panel.adminToken,
      node.key.slice(0, -1),
      `${node.key}A`,
      'pnk_',
      `pnk_${'0'.repeat(5000)}`,
    ]
    for (const key of tries) expect([401, 429]).toContain(await refused(node.nodeId, key))
    for (const id of ['constructor', '__proto__', `${node.nodeId}x`])
      expect([401, 429]).toContain(await refused(id, node.key))
    await (await stage.connect(node)).enter()
    await (await stage.connect(other)).enter()
  })

  it('gets nothing by a key that was right: revoked and rotated ones are wrong at once', async () => {
    const node = await stage.node()
    await (await stage.connect(node)).enter()
    const params = { nodeId: node.nodeId }
    const { apiKey } = await panel.client.call(createNodeKey, { params, body: { regenerate: true } })
    expect([401, 429]).toContain(await refused(node.nodeId, node.key))
    await (await stage.connect({ ...node, key: apiKey })).enter()
    await panel.client.call(deleteNodeKey, { params })
    expect([401, 429]).toContain(await refused(node.nodeId, apiKey))
  })

  it('takes less than 3 ms of a core for each guess', async () => {
    const node = await stage.node()
    await flood(here(node.nodeId), 200, 10)
    const began = process.cpuUsage()
    const seen = await flood(here(node.nodeId), 1000, 20)
    const { user, system } = process.cpuUsage(began)
    expect([...seen.values()].reduce((sum, count) => sum + count, 0)).toBe(1000)
    // Both ends run here, so connection and answer are included.
    expect((user + system) / 1000).toBeLessThan(3000)
  })
})
