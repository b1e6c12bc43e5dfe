// @module-tag long
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Connection } from '../../src/daemon/db/sqlite/connection.ts'
import { exportAll } from '../bench/audit-export.ts'
import { BenchPanel } from '../bench/bench-panel.ts'
import { seedAudit } from '../bench/seed-audit.ts'
import { runPanel } from '../run-panel.ts'

const ROWS = 1_000_000

let panel: BenchPanel
beforeAll(async () => {
  panel = await BenchPanel.enter()
  await seedAudit(panel.database, ROWS)
}, 300_000)
afterAll(() => panel.leave())

describe('an audit log of a million rows', () => {
  it.each(['csv', 'jsonl', 'json'])(
    'is exported as %s in constant memory while others are answered',
    async (format) => {
      const { growthMiB, others, bytes } = await exportAll(panel, format)
      expect(bytes).toBeGreaterThan(ROWS * 200)
      expect(growthMiB).toBeLessThan(40)
      expect(others.count).toBeGreaterThan(20)
      expect(others.p99).toBeLessThan(50)
    },
  )

  it('is checked whole, and one altered row is found', async () => {
    const run = (...args: string[]) => runPanel(['audit', 'verify', ...args], { env: panel.env })
    const whole = await run('-o', 'json')
    expect(whole, whole.stderr).toMatchObject({ code: 0 })
    expect(JSON.parse(whole.stdout).checked).toBeGreaterThanOrEqual(ROWS)
    const connection = await Connection.open(panel.database, 'existing')
    await connection.exec(`pragma busy_timeout = 5000;
      update audit_log set details = replace(details, 'new', 'old') where seq = 777777`)
    await connection.close()
    const broken = await run()
    expect(broken.code).toBe(11)
    expect(broken.stderr).toContain('row 777777')
  })
})
