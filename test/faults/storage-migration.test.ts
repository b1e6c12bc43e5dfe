// @module-tag long
import { afterAll, beforeAll, it } from 'vitest'
import { FaultPanel } from './fault-panel.ts'
import { migrateUnderKills } from './migration-run.ts'

let panel: FaultPanel

beforeAll(async () => {
  panel = await FaultPanel.enter()
})

afterAll(async () => {
  await panel?.leave()
})

it('a migration that is killed leaves database and copies whole, and the copy leads back', {
  timeout: 60_000,
}, async () => {
  await migrateUnderKills(panel, { kills: 2, ballastMib: 16 })
})
