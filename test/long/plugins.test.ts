// @module-tag long
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { getMe } from '../../src/shared/api/auth.ts'
import { aboutBad, endsBy, installBad, refusesToLoad, reports } from '../daemon/plugins/bad-plugin.ts'
import { callRoute, enable, fastClock, show, until, writePlugin } from '../daemon/plugins/plugin-stage.ts'
import { startPanel, type TestPanel } from '../panel.ts'

let panel: TestPanel
beforeAll(async () => {
  panel = await startPanel({ clock: fastClock(5) })
  await installBad(panel)
})
afterAll(() => panel.close())

describe('a plugin', () => {
  it.each([
    ['throwlater', /nobody caught this/],
    ['buffers', /more memory than its 64 MiB|Array buffer allocation failed/],
    ['flood', /floods its pipe/],
    ['print', /floods its output/],
  ])('that does %s is ended, reported and started again', (handler, reason) => endsBy(panel, handler, reason))

  it.each(['loop', 'heap', 'buffers', 'flood', 'print'])(
    'that does %s leaves the p99 of others below 100 ms',
    async (handler) => {
      await aboutBad(panel)
      const busy = callRoute(panel, `bad/${handler}`)
      const times: number[] = []
      for (let i = 0; i < 300; i++) {
        const from = performance.now()
        await panel.client.call(getMe)
        times.push(performance.now() - from)
      }
      await busy
      expect(times.sort((a, b) => a - b)[297]).toBeLessThan(100)
    },
  )

  it.each([
    ['has-no-function', 'export const x = 1', 'must export a function'],
    ['is-no-program', 'export default (((', 'SyntaxError|Unexpected|paren'],
    ['ends', 'process.exit(3)', 'it ended with code 3'],
    ['hangs', 'for (;;);', 'it was not ready within 15 s'],
  ])('that %s while it is loaded is refused with the reason, and is disabled', (name, code, reason) =>
    refusesToLoad(panel, name, { code, reason }),
  )

  it('that keeps ending is given up, which is told', async () => {
    await writePlugin(panel.dataDir, 'weak', {
      code: 'export default () => { setTimeout(() => process.exit(7), 200) }',
    })
    await enable(panel, 'weak')
    await until('it is given up', async () => (await show(panel, 'weak')).status === 'error')
    expect((await show(panel, 'weak')).error).toMatch(/^given up after 5 failures: it ended with code 7/)
    await until('that is reported', async () => (await reports(panel, 'weak')).some((text) => /given up/.test(text)))
    expect(await callRoute(panel, 'weak/x')).toMatchObject({ status: 404 })
  })
})
