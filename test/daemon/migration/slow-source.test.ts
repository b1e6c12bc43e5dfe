import { expect, it } from 'vitest'
import { testMigration } from '../../../src/shared/api/migration.ts'
import { leapingClock } from '../leaping-clock.ts'
import { MigrationStage } from './migration-stage.ts'

const PATIENCE_MS = 180_000
const LOOK_MS = 5

it('a source that does not say within three minutes what it holds is an answer, not a request that hangs', async () => {
  const clock = leapingClock()
  const stage = await MigrationStage.open({ panel: { clock } })
  try {
    await stage.source.setFaults({ delayMs: 30_000 })
    const { url, keys } = stage.source
    const answer = stage.panel.client.call(testMigration, { body: { url, key: keys.account } })
    while (clock.sleepers(PATIENCE_MS) === 0) await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    clock.leap(PATIENCE_MS)
    expect(await answer).toMatchObject({
      success: false,
      errorCode: 'UNREACHABLE',
      error: expect.stringContaining('within 3 minutes'),
      servers: [],
    })
    expect(clock.sleepers(PATIENCE_MS)).toBe(0)
  } finally {
    await stage.source.setFaults({ delayMs: 0 })
    await stage.close()
  }
}, 20_000)
