// @module-tag long
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createNodeKey, deleteNodeKey } from '../../src/shared/api/nodes.ts'
import type { Server } from '../../src/shared/api/servers.ts'
import { AgentPeer, refusedBy } from '../daemon/agent-peer.ts'
import { isAlive, until } from '../e2e/wait.ts'
import { type FaultNode, FaultPanel } from './fault-panel.ts'
import { FrameRelay } from './frame-relay.ts'
import { GAME, setKey, watchNode } from './machine.ts'
import { end } from './process-end.ts'

const CUT_OFF_MS = 1000

let panel: FaultPanel
let templateId: string

beforeAll(async () => {
  panel = await FaultPanel.enter()
  templateId = await panel.makeTemplate('game', GAME)
})

afterAll(async () => {
  await panel?.leave()
})

describe('a node whose key ends', () => {
  let node: FaultNode
  let game: Server
  let key: string

  beforeAll(async () => {
    node = await panel.addMachine('keyed')
    game = await panel.makeServer(node, { name: 'keyed', templateId })
    key = keyOf(await readFile(join(node.dir, 'node.json'), 'utf8'))
  })

  it('is cut off within a second when the key is revoked, and refused afterwards, while its game runs on', async () => {
    const { reported } = await watchNode(panel, node, false)
    const began = performance.now()
    await panel.client.call(deleteNodeKey, { params: { nodeId: node.id } })
    expect((await reported) - began).toBeLessThan(CUT_OFF_MS)
    await panel.serverWhen(game.id, 'unknown')
    expect(await panel.server(game.id)).toMatchObject({ lastKnownStatus: 'running' })

    const { status, body } = await refusedBy(AgentPeer.connect(panel.url, node.id, key))
    expect([status, body.code]).toEqual([401, 'UNAUTHENTICATED'])
    await panel.killAgent(node)
    panel.startAgent(node)
    await until('the agent is refused', async () => /The daemon answered (401|429)/.test(panel.log))
    expect((await panel.node(node)).isOnline).toBe(false)
    expect(await isAlive(game.pid ?? 0)).toBe(true)
  })

  it('comes back with a new key, and finds its game as it was', async () => {
    const made = await panel.client.call(createNodeKey, { params: { nodeId: node.id }, body: {} })
    expect((await refusedBy(AgentPeer.connect(panel.url, node.id, key))).status).not.toBe(101)
    key = made.apiKey
    await enterWith(key)
  })

  it('is cut off within a second when the key is rotated, and comes back with the next one', async () => {
    const { reported } = await watchNode(panel, node, false)
    const began = performance.now()
    const made = await panel.client.call(createNodeKey, { params: { nodeId: node.id }, body: { regenerate: true } })
    expect((await reported) - began).toBeLessThan(CUT_OFF_MS)
    const { status } = await refusedBy(AgentPeer.connect(panel.url, node.id, key))
    expect([401, 429]).toContain(status)
    await enterWith(made.apiKey)
  })

  async function enterWith(nodeKey: string): Promise<void> {
    await panel.killAgent(node)
    await setKey(node, nodeKey)
    panel.startAgent(node)
    // Wrong keys of this address have been counted: the right one may have to wait.
    await panel.online(node, true, 40_000)
    const after = await panel.serverWhen(game.id, 'running')
    expect(after).toMatchObject({ pid: game.pid, startedAt: game.startedAt, crashCount: 0, lastKnownStatus: null })
    expect(await panel.starts(node, game)).toBe(1)
  }
})

describe('two machines with one key', () => {
  it('the first is the node, the newer one is told so and stays away', async () => {
    const node = await panel.addMachine('twin')
    const game = await panel.makeServer(node, { name: 'twin', templateId })
    const copy = join(panel.home, 'twin-copy')
    await mkdir(copy, { mode: 0o711 })
    await writeFile(join(copy, 'node.json'), await readFile(join(node.dir, 'node.json')), { mode: 0o600 })
    const second = panel.spawnAgent(copy)
    try {
      // The newer one must not fight for the node: its agent waits for five minutes.
      await until('the newer one stays away', async () => /"closeCode":4409,"waitMs":300000/.test(panel.log))
      expect(panel.log).toContain('refused another machine with the key of a node')
      await panel.online(node)
      expect(await panel.server(game.id)).toMatchObject({
        status: 'running',
        pid: game.pid,
        crashCount: 0,
        reason: null,
      })
      await panel.order(game.id, 'stop')
      await panel.serverWhen(game.id, 'stopped')
    } finally {
      await end(second, 'SIGKILL')
    }
    expect(await panel.starts(node, game)).toBe(1)
  })
})

describe('frames that come three times and in another order', () => {
  it('have one effect', { timeout: 90_000 }, async () => {
    const relay = await FrameRelay.listen(panel.url)
    try {
      const node = await panel.addMachine('relayed', { url: relay.url })
      const game = await panel.makeServer(node, { name: 'relayed', templateId })
      let starts = 1
      const orders: string[] = []
      for (let round = 0; round < 4; round++) {
        orders.push(await panel.order(game.id, 'restart'))
        await until('restarted', async () => (await panel.starts(node, game)) === starts + 1)
        starts += 1
        await panel.serverWhen(game.id, 'running')
        orders.push(await panel.order(game.id, 'stop'))
        await panel.serverWhen(game.id, 'stopped')
        orders.push(await panel.order(game.id, 'start'))
        await until('started', async () => (await panel.starts(node, game)) === starts + 1)
        starts += 1
        await panel.serverWhen(game.id, 'running')
      }
      // Two orders in one moment change places: the newer one holds.
      for (let round = 0; round < 4; round++) {
        orders.push(await panel.order(game.id, 'restart'), await panel.order(game.id, 'stop'))
        await until('both are done', async () => (await panel.orderEnds(game.id)).length >= orders.length + 1)
        await panel.serverWhen(game.id, 'stopped')
        const before = await panel.starts(node, game)
        orders.push(await panel.order(game.id, 'start'))
        await panel.serverWhen(game.id, 'running')
        await until('started', async () => (await panel.starts(node, game)) === before + 1)
      }
      const last = await panel.starts(node, game)
      await until('all are done', async () => (await panel.orderEnds(game.id)).length >= orders.length + 1)
      const ends = await panel.orderEnds(game.id)
      for (const id of orders) expect(ends.filter(({ commandId }) => commandId === id)).toHaveLength(1)
      expect(
        ends.filter(({ ok, code }) => ok !== true && code !== 'STALE_GENERATION' && code !== 'INTERRUPTED'),
      ).toEqual([])
      expect(await panel.server(game.id)).toMatchObject({ status: 'running', crashCount: 0, desired: 'running' })
      expect(await panel.starts(node, game)).toBe(last)
      const copies = relay.delivered.filter((text) => text.includes(orders[0] ?? 'none'))
      expect(copies.length).toBeGreaterThanOrEqual(3)
      // The lines of the console came three times as well.
      const { stdout } = await panel.run(['console', 'logs', 'relayed', '--tail', '500'])
      expect(stdout.split('\n').filter((line) => line === 'ready')).toHaveLength(last)
      await panel.killAgent(node)
      panel.startAgent(node)
      await panel.online(node)
    } finally {
      await relay.close()
    }
  })
})

function keyOf(text: string): string {
  const credentials: { nodeKey: string } = JSON.parse(text)
  return credentials.nodeKey
}
