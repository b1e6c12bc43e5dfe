import { expect, it } from 'vitest'
import { FaultPanel } from '../faults/fault-panel.ts'

it('a daemon at a terminal starts, and logs for the person who reads', {
  tags: ['long'],
  timeout: 60_000,
}, async () => {
  const panel = await FaultPanel.enter({ PANEL_LOG__FORMAT: 'pretty' })
  try {
    expect(panel.log).toMatch(/INFO.*: daemon ready\n/)
    expect(panel.log).not.toContain('{"level"')
  } finally {
    await panel.leave()
  }
})
