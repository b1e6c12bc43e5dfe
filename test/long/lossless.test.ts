import { afterAll, beforeAll, describe, it } from 'vitest'
import { FaultPanel } from '../faults/fault-panel.ts'
import { type LosslessStage, PRINTER, printUnderFaults } from '../faults/lossless-run.ts'

let stage: LosslessStage

beforeAll(async () => {
  const panel = await FaultPanel.enter()
  const node = await panel.addMachine('box')
  const templateId = await panel.makeTemplate('printer', PRINTER)
  stage = { panel, node, server: await panel.makeServer(node, { name: 'printer', templateId }) }
})

afterAll(async () => {
  await stage?.panel.leave()
})

describe('a console of 200,000 lines', () => {
  it('loses and repeats none while daemon, agent and follower are killed twice each', async () => {
    const faults = [
      [0.005, 'daemon'],
      [0.1, 'agent'],
      [0.25, 'viewer'],
      [0.4, 'daemon'],
      [0.55, 'agent'],
      [0.75, 'viewer'],
    ] as const
    const slow = { bytesPerSecond: 1024, forMs: 20_000 }
    await printUnderFaults(stage, { count: 200_000, faults, followerEnds: [0.2, 0.6], slow })
  })
})
