// @module-tag long
import { afterAll, beforeAll, describe, it } from 'vitest'
import { FaultPanel } from './fault-panel.ts'
import { type LosslessStage, PRINTER, printHostileText, printUnderFaults, trimWhileAway } from './lossless-run.ts'

let stage: LosslessStage

async function openStage(settings: Record<string, string>): Promise<LosslessStage> {
  const panel = await FaultPanel.enter(settings)
  const node = await panel.addMachine('box')
  const templateId = await panel.makeTemplate('printer', PRINTER)
  return { panel, node, server: await panel.makeServer(node, { name: 'printer', templateId }) }
}

describe('a console', () => {
  beforeAll(async () => {
    stage = await openStage({ PANEL_CONSOLE__LOG_MB: '1' })
  })

  afterAll(async () => {
    await stage?.panel.leave()
  })

  it('loses and repeats no line while daemon, agent and a follower are killed and a viewer is slow', async () => {
    const faults = [
      [0.02, 'daemon'],
      [0.4, 'agent'],
      [0.7, 'viewer'],
    ] as const
    const slow = { bytesPerSecond: 1024, forMs: 4000 }
    await printUnderFaults(stage, { count: 20_000, faults, followerEnds: [0.3], slow })
  })

  it('tells a viewer who was away which lines were trimmed, once and exactly', async () => {
    await trimWhileAway(stage, 60_000)
  })
})

// With a log of the usual size: a line of 1 MiB drives all others out of one of 1 MiB before a slow machine has sent them.
describe('a console of the usual size', () => {
  beforeAll(async () => {
    stage = await openStage({})
  })

  afterAll(async () => {
    await stage?.panel.leave()
  })

  it('carries text without an end, a line of 1 MiB, invalid UTF-8, NUL bytes and escapes', async () => {
    await printHostileText(stage)
  })
})
