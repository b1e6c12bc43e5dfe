// @module-tag long
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { getLogs } from '../../src/shared/api/console.ts'
import type { Server } from '../../src/shared/api/servers.ts'
import { until } from '../e2e/wait.ts'
import { type FaultNode, FaultPanel } from '../faults/fault-panel.ts'
import { streamUrl } from '../faults/lossless-run.ts'
import { LosslessViewer } from '../faults/lossless-viewer.ts'
import { GAME } from '../faults/machine.ts'
import { placeFile } from '../place-file.ts'

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

/** The lines bear the time of the node: the shift is really there. */
async function expectShifted(game: Server, shift: number): Promise<void> {
  const { logs } = await panel.client.call(getLogs, { params: { serverId: game.id }, query: { lines: 1 } })
  expect(Math.abs(Date.parse(logs[0]?.timestamp ?? '') - Date.now() - shift)).toBeLessThan(NEAR_MS)
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
    const { env, setClock } = shiftedClock(name)
    await setClock(shift)
    const node = await panel.addMachine(name, { env })
    const game = await panel.makeServer(node, { name, templateId })
    const viewer = new LosslessViewer(streamUrl({ panel, node, server: game }, 200), panel.token)
    expectNow(game.startedAt)
    await expectShifted(game, shift)
    await expectRight(node, game)

    await setClock(-shift)
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

describe('a clock that is set back while the agent is away', () => {
  it('does not put off the next start of a crashed server', { timeout: 60_000 }, async () => {
    const { env, setClock } = shiftedClock('back')
    await setClock(0)
    const node = await panel.addMachine('back', { env })
    const game = await panel.makeServer(node, { name: 'back', templateId, restartPolicy: 'on-failure' })
    process.kill(game.pid ?? 0, 'SIGKILL')
    await panel.serverWhen(game.id, 'crashed')
    await panel.killAgent(node)
    await setClock(-TWO_HOURS)
    panel.startAgent(node, { env })
    const again = await panel.serverWhen(game.id, 'running')
    expect(again.pid).not.toBe(game.pid)
    expect(again).toMatchObject({ crashCount: 1, desired: 'running' })
    expect(await panel.starts(node, game)).toBe(2)
  })
})

/** The environment of an agent whose machine's clock is off by what `setClock` says. */
function shiftedClock(name: string): { env: Record<string, string>; setClock: (ms: number) => Promise<void> } {
  const file = join(panel.home, `${name}.shift`)
  const preload = join(import.meta.dirname, '../faults/clock-shift.cjs')
  return {
    env: { NODE_OPTIONS: `--require ${preload}`, CLOCK_SHIFT_FILE: file },
    setClock: (ms) => placeFile(file, String(ms)),
  }
}
