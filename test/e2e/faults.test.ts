// @module-tag long
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Server } from '../../src/shared/api/servers.ts'
import { placeFile } from '../place-file.ts'
import { type Absent, COUNTING_GAME, doneEvents, killAll, startAll, startsOf } from './kills.ts'
import { SplitPanel } from './split-panel.ts'
import { tryStartOrders } from './start-orders.ts'
import { gone, isAlive, until } from './wait.ts'

let panel: SplitPanel
let templateId: string

beforeAll(async () => {
  panel = await SplitPanel.enter()
  templateId = await panel.makeTemplate('faults', COUNTING_GAME)
})

afterAll(async () => {
  await panel.leave()
})

function pidOf(server: Server): number {
  if (server.pid === null) throw new Error('no process')
  return server.pid
}

describe('a game whose daemon and agent are killed', () => {
  const orders: { name: string; killed: Absent; back: Absent }[] = [
    { name: 'the daemon', killed: ['daemon'], back: ['daemon'] },
    { name: 'the agent', killed: ['agent'], back: ['agent'] },
    { name: 'daemon then agent, daemon back first', killed: ['daemon', 'agent'], back: ['daemon', 'agent'] },
    { name: 'daemon then agent, agent back first', killed: ['daemon', 'agent'], back: ['agent', 'daemon'] },
    { name: 'agent then daemon, daemon back first', killed: ['agent', 'daemon'], back: ['daemon', 'agent'] },
    { name: 'agent then daemon, agent back first', killed: ['agent', 'daemon'], back: ['agent', 'daemon'] },
  ]
  let game: Server

  beforeAll(async () => {
    game = await panel.makeServer('survivor', templateId, { start: true })
  })

  it.each(orders)('runs on with its process and its uptime: $name', async ({ killed, back }) => {
    const before = await panel.server(game.id)
    await killAll(panel, killed)
    expect(await isAlive(pidOf(before))).toBe(true)
    await startAll(panel, back)
    const after = await panel.serverWhen(game.id, 'running', ({ status }) => status === 'running')
    expect(after).toMatchObject({ pid: before.pid, startedAt: before.startedAt, desired: 'running', crashCount: 0 })
    expect(after).toMatchObject({ generation: before.generation, lastExitCode: null, lastCrashAt: null, reason: null })
    expect(await startsOf(panel, game)).toBe(1)
  })

  it('has told of one start and of no end', async () => {
    const changes = (await panel.events(game.id)).filter(
      ({ type, data }) => type === 'server_state_update' && data['state'] !== data['previousState'],
    )
    const reported = changes.map(({ data }) => String(data['state']))
    expect(reported.filter((state) => state === 'starting')).toHaveLength(1)
    const once = reported.slice(reported.indexOf('running'))
    // While its node is away nobody can know.
    expect(once.filter((state) => !['running', 'unknown'].includes(state))).toEqual([])
  })

  it('is stopped by an order afterwards, and its process is gone', async () => {
    const { pid } = await panel.server(game.id)
    const commandId = await panel.order(game.id, 'stop')
    const stopped = await panel.serverWhen(game.id, 'stopped', ({ status }) => status === 'stopped')
    expect(stopped).toMatchObject({ pid: null, crashCount: 0, desired: 'stopped', startedAt: null })
    await gone(pid ?? 0)
    await until('the order is done', async () => (await doneEvents(panel, game, commandId)).length === 1)
  })
})

describe('games that end by themselves while one of them is away', () => {
  const absences: { away: string; parties: Absent }[] = [
    { away: 'the daemon', parties: ['daemon'] },
    { away: 'the agent', parties: ['agent'] },
    { away: 'both', parties: ['daemon', 'agent'] },
  ]
  const ends = [
    { how: 'with exit 0', status: 'stopped', exit: { lastExitCode: 0, lastExitSignal: null }, crashes: 0 },
    { how: 'with exit 3', status: 'crashed', exit: { lastExitCode: 3, lastExitSignal: null }, crashes: 1 },
    { how: 'killed', status: 'crashed', exit: { lastExitCode: null, lastExitSignal: 'SIGKILL' }, crashes: 1 },
  ] as const

  it.each(absences)('$away away: state, exit code and crash count are right afterwards', async ({ away, parties }) => {
    const games = await Promise.all(
      ends.map(({ how }) => panel.makeServer(`ends ${how} without ${away}`, templateId, { start: true })),
    )
    await killAll(panel, parties)
    for (const [i, game] of games.entries()) {
      if (ends[i]?.how === 'killed') process.kill(pidOf(game), 'SIGKILL')
      else await placeFile(join(panel.filesOf(game.id), 'end'), String(ends[i]?.exit.lastExitCode))
    }
    await Promise.all(games.map((game) => gone(pidOf(game))))
    await startAll(panel, parties)
    for (const [i, { status, exit, crashes }] of ends.entries()) {
      const game = games[i]
      if (game === undefined) throw new Error('a game for each end')
      const ended = await panel.serverWhen(game.id, status, (server) => server.status === status)
      expect(ended).toMatchObject({ ...exit, crashCount: crashes, pid: null, startedAt: null, nextRestartAt: null })
      expect(ended.lastCrashAt === null).toBe(crashes === 0)
      expect(await startsOf(panel, game)).toBe(1)
      const reported = (await panel.events(game.id)).filter(
        ({ data }) => data['state'] === status && data['exitCode'] !== undefined,
      )
      const exits = reported.filter(
        ({ data }) => data['exitCode'] === exit.lastExitCode && data['exitSignal'] === exit.lastExitSignal,
      )
      expect(exits).toHaveLength(1)
    }
  })

  it('is started again once by its policy after both were away', async () => {
    const game = await panel.makeServer('again', templateId, { start: true, restartPolicy: 'on-failure' })
    await killAll(panel, ['daemon', 'agent'])
    process.kill(pidOf(game), 'SIGKILL')
    await gone(pidOf(game))
    await startAll(panel, ['agent', 'daemon'])
    const again = await panel.serverWhen(
      game.id,
      'running again',
      ({ status, pid }) => status === 'running' && pid !== game.pid,
    )
    expect(again).toMatchObject({ crashCount: 1, lastExitSignal: 'SIGKILL', desired: 'running' })
    expect(await startsOf(panel, game)).toBe(2)
  })
})

// Further moments are in test/long/start-orders.test.ts.
tryStartOrders(() => ({ panel, templateId }), [10])
