// @module-tag long
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { getServer, type Server } from '../../src/shared/api/servers.ts'
import { isAlive, pause, until } from '../e2e/wait.ts'
import { Cable } from '../faults/cable.ts'
import { type FaultNode, FaultPanel } from '../faults/fault-panel.ts'
import { GAME, median, took, watchNode } from '../faults/machine.ts'

const OFFLINE_MS = 31_000
const READS = 200

let panel: FaultPanel
let cable: Cable
let far: FaultNode
let near: FaultNode
let templateId: string

beforeAll(async () => {
  panel = await FaultPanel.enter()
  cable = await Cable.lay(panel.url)
  far = await panel.addMachine('far', { url: cable.url })
  near = await panel.addMachine('near')
  templateId = await panel.makeTemplate('game', GAME)
})

afterAll(async () => {
  cable?.mend()
  await panel?.leave()
  await cable?.remove()
})

async function readsOf(server: Server): Promise<number> {
  const times: number[] = []
  for (let i = 0; i < READS; i++) {
    times.push(await took(() => panel.client.call(getServer, { params: { serverId: server.id } })))
  }
  return median(times)
}

const restartOf = (server: Server): Promise<number> =>
  took(async () => {
    const commandId = await panel.order(server.id, 'restart')
    await until('restarted', async () =>
      (await panel.orderEnds(server.id)).some((data) => data['commandId'] === commandId),
    )
  })

async function restartsOf(server: Server): Promise<number> {
  const times: number[] = []
  for (let i = 0; i < 5; i++) times.push(await restartOf(server))
  return median(times)
}

describe('a node behind a cable that is cut without a word', () => {
  it('is offline within 31 s, disturbs nobody, and carries out each order once when it is back', async () => {
    const idle = await panel.makeServer(far, { name: 'idle', templateId })
    const restarted = await panel.makeServer(far, { name: 'restarted', templateId })
    const stopped = await panel.makeServer(far, { name: 'stopped', templateId })
    const other = await panel.makeServer(near, { name: 'other', templateId })
    const [reads, restarts] = [await readsOf(other), await restartsOf(other)]

    const { reported } = await watchNode(panel, far, false)
    const began = performance.now()
    cable.cut()
    await pause(1000)
    // The daemon does not know yet that nobody hears these.
    const orders = [await panel.order(restarted.id, 'restart'), await panel.order(stopped.id, 'stop')]
    // Medians of a few milliseconds: one millisecond of scatter is not a loss of speed.
    expect(await readsOf(other)).toBeLessThan(reads * 1.5 + 1)
    expect(await restartsOf(other)).toBeLessThan(restarts * 1.5 + 50)
    const offlineAfter = (await reported) - began
    expect(offlineAfter).toBeGreaterThan(15_000)
    expect(offlineAfter).toBeLessThan(OFFLINE_MS)

    for (const { id } of [idle, restarted, stopped]) {
      expect(await panel.serverWhen(id, 'unknown')).toMatchObject({ lastKnownStatus: 'running' })
      await expect(panel.order(id, 'stop')).rejects.toMatchObject({ code: 'NODE_OFFLINE' })
    }
    expect(await panel.server(other.id)).toMatchObject({ status: 'running' })
    expect(await readsOf(other)).toBeLessThan(reads * 1.5 + 1)
    expect(await restartsOf(other)).toBeLessThan(restarts * 1.5 + 50)
    expect(await panel.starts(far, restarted)).toBe(1)
    for (const { pid } of [idle, restarted, stopped]) expect(await isAlive(pid ?? 0)).toBe(true)

    cable.mend()
    await panel.online(far, true, 60_000)
    expect(await panel.serverWhen(idle.id, 'running')).toMatchObject({ pid: idle.pid, startedAt: idle.startedAt })
    expect(await panel.serverWhen(stopped.id, 'stopped')).toMatchObject({
      crashCount: 0,
      pid: null,
      desired: 'stopped',
    })
    await until('the restart is carried out', async () => (await panel.starts(far, restarted)) === 2)
    expect(await panel.serverWhen(restarted.id, 'running')).toMatchObject({ crashCount: 0, desired: 'running' })
    for (const [i, server] of [restarted, stopped].entries()) {
      const done = () => panel.orderEnds(server.id)
      const mine = await until('the order is done', async () => {
        const found = (await done()).filter((data) => data['commandId'] === orders[i])
        return found.length > 0 ? found : undefined
      })
      expect(mine).toMatchObject([{ ok: true }])
    }
    expect(await panel.starts(far, idle)).toBe(1)
    expect(await panel.starts(far, stopped)).toBe(1)
    expect(await panel.starts(far, restarted)).toBe(2)
  })

  it('goes on over the same connection when the cut was short, and no order is carried out twice', async () => {
    const game = await panel.makeServer(far, { name: 'short', templateId })
    for (let round = 1; round <= 3; round++) {
      cable.cut()
      const commandId = await panel.order(game.id, 'restart')
      // Long enough that the daemon sends the order again.
      await pause(7000)
      cable.mend()
      await until('the restart is carried out', async () =>
        (await panel.orderEnds(game.id)).some((data) => data['commandId'] === commandId),
      )
      expect(await panel.starts(far, game)).toBe(round + 1)
      await panel.serverWhen(game.id, 'running')
    }
    await pause(6000)
    expect(await panel.starts(far, game)).toBe(4)
    expect((await panel.orderEnds(game.id)).filter(({ op }) => op === 'restart')).toHaveLength(3)
  })
})
