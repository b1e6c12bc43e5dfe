// @module-tag long
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Server } from '../../src/shared/api/servers.ts'
import { SplitPanel } from '../e2e/split-panel.ts'
import { pause, until } from '../e2e/wait.ts'

/** A finer and longer walk through the moments of a start order than test/e2e/faults.test.ts takes. */
const MOMENTS = [0, 1, 2, 3, 5, 8, 12, 16, 20, 25, 30, 35, 40, 50, 60, 80, 100, 150, 200, 300]
const ROUNDS = 5
const GAME = 'echo start >> starts; echo ready; while :; do sleep 0.05; done'

let panel: SplitPanel
let game: Server

beforeAll(async () => {
  panel = await SplitPanel.enter()
  game = await panel.makeServer('walker', await panel.makeTemplate('walker', GAME))
})

afterAll(async () => {
  await panel.leave()
})

async function starts(): Promise<number> {
  const text = await readFile(join(panel.filesOf(game.id), 'starts'), 'utf8').catch(() => '') // not started yet
  return text.split('\n').filter((line) => line === 'start').length
}

async function reported(commandId: string) {
  return (await panel.events(game.id)).filter(
    ({ type, data }) => type === 'server_command_done' && data['commandId'] === commandId,
  )
}

/** An agent that has lost its daemon several times in a minute waits up to half a minute before it comes back. */
async function freshAgent(): Promise<void> {
  await panel.killAgent()
  await panel.startAgent()
  await panel.online()
}

it.each(['daemon', 'agent', 'both'] as const)('carries each accepted start out once: %s killed', async (who) => {
  for (let round = 0; round < ROUNDS; round++) {
    for (const ms of MOMENTS) {
      if (who === 'daemon') await freshAgent()
      const before = await starts()
      const commandId = await panel.order(game.id, 'start')
      await pause(ms)
      await Promise.all([
        who === 'agent' ? undefined : panel.killDaemon(),
        who === 'daemon' ? undefined : panel.killAgent(),
      ])
      if (who !== 'agent') await panel.startDaemon()
      if (who !== 'daemon') await panel.startAgent()
      await panel.online()
      await panel.serverWhen(game.id, 'running', ({ status }) => status === 'running')
      await until('the order is done', async () => (await reported(commandId)).length > 0)
      const stop = await panel.order(game.id, 'stop')
      await panel.serverWhen(game.id, 'stopped', ({ status }) => status === 'stopped')
      await until('the stop is done', async () => (await reported(stop)).length > 0)
      expect(await starts(), `after ${ms} ms`).toBe(before + 1)
      expect(await reported(commandId), `after ${ms} ms`).toHaveLength(1)
    }
  }
})
