import { beforeAll, describe, expect, it } from 'vitest'
import type { Server } from '../../src/shared/api/servers.ts'
import { type Absent, doneEvents, kill, startAll, startsOf } from './kills.ts'
import type { SplitPanel } from './split-panel.ts'
import { isAlive, pause, until } from './wait.ts'

/** Accepts a start, kills daemon, agent or both these milliseconds later, and looks how often the game was started. */
export function tryStartOrders(
  stage: () => { panel: SplitPanel; templateId: string },
  moments: readonly number[],
): void {
  describe('a start order that was accepted before the kill', () => {
    const cases = moments.flatMap((ms) => (['daemon', 'agent', 'both'] as const).map((who) => ({ ms, who })))
    let panel: SplitPanel
    let game: Server

    beforeAll(async () => {
      panel = stage().panel
      game = await panel.makeServer('once', stage().templateId)
    })

    it.each(cases)('is carried out once: $who killed after $ms ms', async ({ ms, who }) => {
      const before = await startsOf(panel, game)
      const commandId = await panel.order(game.id, 'start')
      await pause(ms)
      const parties: Absent = who === 'both' ? ['daemon', 'agent'] : [who]
      await Promise.all(parties.map((party) => kill(panel, party)))
      await startAll(panel, parties)
      await panel.serverWhen(game.id, 'running', ({ status }) => status === 'running')
      await until('the order is done', async () => (await doneEvents(panel, game, commandId)).length > 0)
      const pid = await until('the process', async () => (await panel.server(game.id)).pid)
      expect(await isAlive(pid ?? 0)).toBe(true)
      expect(await startsOf(panel, game)).toBe(before + 1)

      const stop = await panel.order(game.id, 'stop')
      const stopped = await panel.serverWhen(game.id, 'stopped', ({ status }) => status === 'stopped')
      expect(stopped).toMatchObject({ crashCount: 0, pid: null })
      await until('the stop is done', async () => (await doneEvents(panel, game, stop)).length > 0)
      expect(await startsOf(panel, game)).toBe(before + 1)
      for (const id of [commandId, stop]) {
        const reported = await doneEvents(panel, game, id)
        expect(reported).toHaveLength(1)
        expect(reported[0]?.data).toMatchObject({ ok: true })
      }
    })
  })
}
