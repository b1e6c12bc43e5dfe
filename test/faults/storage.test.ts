// @module-tag long
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type FaultNode, FaultPanel } from './fault-panel.ts'
import { GAME } from './machine.ts'
import { writeUnderKills } from './storage-run.ts'

let panel: FaultPanel
let node: FaultNode

beforeAll(async () => {
  panel = await FaultPanel.enter()
  node = await panel.addMachine('box')
})

afterAll(async () => {
  await panel?.leave()
})

describe('a daemon that is killed in the midst of writes of all kinds', () => {
  it('has every answered one, none half, and a sound database', { timeout: 90_000 }, async () => {
    const game = await panel.makeServer(node, { name: 'game', templateId: await panel.makeTemplate('game', GAME) })
    const ledger = await writeUnderKills(panel, { node, games: [game] }, { writes: 150, kills: 3 })
    expect(ledger.answered.length).toBeGreaterThanOrEqual(150)
    expect(ledger.unknown).toBeGreaterThan(0)
    await panel.online(node)
    await panel.serverWhen(game.id, 'running')
  })

  it('starts beside a lock that a power cut has emptied', { timeout: 120_000 }, async () => {
    await panel.killDaemon()
    await writeFile(join(panel.home, 'daemon', 'daemon.lock'), '')
    await panel.startDaemon()
    await panel.online(node)
  })
})
