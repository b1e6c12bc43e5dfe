// @module-tag long
import { afterAll, beforeAll, describe, it } from 'vitest'
import { Cable } from '../faults/cable.ts'
import { FaultPanel } from '../faults/fault-panel.ts'
import { type LosslessStage, PRINTER, printUnderFaults } from '../faults/lossless-run.ts'

let stage: LosslessStage
let cable: Cable

beforeAll(async () => {
  const panel = await FaultPanel.enter()
  cable = await Cable.lay(panel.url)
  const node = await panel.addMachine('box', { url: cable.url })
  const templateId = await panel.makeTemplate('printer', PRINTER)
  stage = { panel, node, cable, server: await panel.makeServer(node, { name: 'printer', templateId }) }
})

afterAll(async () => {
  await stage?.panel.leave()
  await cable?.remove()
})

describe('a console of 200,000 lines', () => {
  it('loses and repeats none while daemon, agent and follower are killed and the cable is cut twice each', async () => {
    const faults = [
      [0.005, 'daemon'],
      [0.1, 'agent'],
      [0.25, 'viewer'],
      [0.4, 'daemon'],
      [0.48, 'cable'],
      [0.55, 'agent'],
      [0.75, 'viewer'],
      [0.85, 'cable'],
    ] as const
    const slow = { bytesPerSecond: 1024, forMs: 20_000 }
    await printUnderFaults(stage, { count: 200_000, faults, followerEnds: [0.2, 0.6], slow })
  })
})
