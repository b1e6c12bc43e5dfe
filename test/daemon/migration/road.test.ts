import { afterAll, beforeAll, expect, it } from 'vitest'
import { failedSteps, MigrationStage } from './migration-stage.ts'

let stage: MigrationStage

beforeAll(async () => {
  stage = await MigrationStage.open({ source: { servers: 1, nodes: 1, suspended: 0, fullSlots: 0, zeroSlots: 0 } })
})

afterAll(() => stage.close())

it('a server moves in with all that belongs to it', async () => {
  const before = stage.source.state()
  const job = await stage.moved()
  expect({ status: job.status, error: job.error, conflicts: job.plan?.conflicts }).toEqual({
    status: 'completed',
    error: null,
    conflicts: [],
  })
  expect(failedSteps(job)).toEqual([])
  const [server] = await stage.servers()
  expect(server?.uuid).toBe(stage.source.world.servers[0]?.uuid)
  expect(await stage.filesOf(server?.id ?? '')).toEqual(stage.manifestOf(server?.uuid ?? ''))
  expect(job.report?.clean).toBe(true)
  expect(stage.source.state()).toEqual(before)
})
