import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Server } from '../../src/shared/api/servers.ts'
import { until } from '../e2e/wait.ts'
import { type FaultNode, FaultPanel } from './fault-panel.ts'
import { streamUrl } from './lossless-run.ts'
import { LosslessViewer } from './lossless-viewer.ts'
import { GAME } from './machine.ts'

const TWO_HOURS = 2 * 60 * 60 * 1000
/** What a start, its report and a loaded machine take. */
const NEAR_MS = 10_000

let panel: FaultPanel
let templateId: string

beforeAll(async () => {
  panel = await FaultPanel.enter()
  templateId = await panel.makeTemplate('game', GAME)
})

afterAll(async () => {
  await panel?.leave()
})

function expectNow(time: string | null): void {
  expect(Math.abs(Date.now() - Date.parse(time ?? ''))).toBeLessThan(NEAR_MS)
}

/** Starts, kills and stops: whatever the node's clock says, states and the daemon's times are right. */
async function expectRight(node: FaultNode, game: Server): Promise<void> {
  const restart = await panel.order(game.id, 'restart')
  await ended(game, restart)
  const running = await panel.serverWhen(game.id, 'running')
  expectNow(running.startedAt)
  process.kill(running.pid ?? 0, 'SIGKILL')
  const crashed = await panel.serverWhen(game.id, 'crashed')
  expect(crashed).toMatchObject({ lastExitSignal: 'SIGKILL', nextRestartAt: null })
  expectNow(crashed.lastCrashAt)
  await ended(game, await panel.order(game.id, 'start'))
  expectNow((await panel.serverWhen(game.id, 'running')).startedAt)
  expect((await panel.node(node)).isOnline).toBe(true)
}

async function ended(game: Server, commandId: string): Promise<void> {
  const end = await until('the order is done', async () =>
    (await panel.orderEnds(game.id)).find((data) => data['commandId'] === commandId),
  )
  expect(end).toMatchObject({ ok: true })
}

describe.each([
  ['ahead', TWO_HOURS],
  ['behind', -TWO_HOURS],
])('a node whose clock is two hours %s', (name, shift) => {
  it('shows no wrong state, also when its clock is set while it runs', { timeout: 90_000 }, async () => {
    const env = {
      NODE_OPTIONS: `--require ${join(import.meta.dirname, 'clock-shift.cjs')}`,
      CLOCK_SHIFT_MS: String(shift),
    }
    const node = await panel.addMachine(name, { env })
    const game = await panel.makeServer(node, name, templateId)
    const viewer = new LosslessViewer(streamUrl({ panel, node, server: game }), panel.token)
    expectNow(game.startedAt)
    await expectRight(node, game)

    node.agent?.kill('SIGUSR2')
    await expectRight(node, game)
    const before = await panel.server(game.id)
    await panel.killAgent(node)
    panel.startAgent(node, { env })
    await panel.online(node)
    const after = await panel.serverWhen(game.id, 'running')
    expect(after).toMatchObject({ pid: before.pid, startedAt: before.startedAt, crashCount: before.crashCount })
    await expectRight(node, game)
    const starts = await panel.starts(node, game)
    await until('all lines', async () => viewer.lines.filter((line) => line === 'ready').length === starts)
    viewer.leave()
    expect(viewer.wrongs).toEqual([])
  })
})
