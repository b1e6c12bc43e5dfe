import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { DIST } from '../../run-panel.ts'
import { type Attached, attach } from './attached.ts'
import { leftAsFound } from './left-as-found.ts'
import { WAYS_OUT } from './ways-out.ts'

let attached: Attached

const refreshed = async (): Promise<void> => {
  attached.peer.refuse(undefined)
  await attached.peer.comeBack()
  await attached.pane.text('clear')
  await attached.pane.keys('Enter')
}

const LAST_LINE = 'detached from survival-1 at e1-3 (resume: panel console attach survival-1 --after-cursor e1-3)'
const joined = (screen: string): string => screen.replace(/\n/g, '')

describe('leaving the console screen gives the terminal back', { timeout: 60_000 }, () => {
  beforeAll(async () => {
    const prepare: Parameters<typeof attach>[0]['prepare'] = (peer) => peer.print('number 1', 'number 2', 'number 3')
    attached = await attach({ dist: DIST, columns: 80, rows: 24, start: false, prepare })
  })

  beforeEach(refreshed)

  afterAll(() => attached.close())

  test.each(WAYS_OUT)('by $name', { tags: ['long'] }, async (way) => {
    await leftAsFound(attached, way)
  })

  test('and names the way back', async () => {
    const { pane, peer } = attached
    await attached.command()
    await pane.shows('number 3', 20_000)
    await pane.keys('C-]')
    expect(joined(await pane.shows('EXIT=0'))).toContain(LAST_LINE)
    await pane.text('clear')
    await pane.keys('Enter')
    await attached.command('--after-cursor', 'e1-2')
    const again = await pane.until((now) => now.includes('LIVE') && now.includes('number 3'), 'the resumed screen')
    expect(again).not.toContain('number 2')
    expect(peer.resumes.slice(-2)).toEqual([undefined, 'e1-2'])
    await pane.keys('C-]')
    await pane.shows('EXIT=0')
  })

  test('when the first connection is refused', async () => {
    const { pane, peer } = attached
    peer.refuseStreams({ status: 403, code: 'PERMISSION_DENIED' })
    await attached.command()
    expect(await pane.shows('EXIT=5', 20_000)).toContain('PERMISSION_DENIED')
    peer.refuseStreams(undefined)
    const { before, after } = await attached.settings()
    expect(after).toBe(before)
    expect(await pane.display('#{alternate_on} #{cursor_flag}')).toBe('0 1')
  })
})

describe('a console screen whose terminal is closed', { timeout: 60_000 }, () => {
  test.each([
    ['that is told by SIGHUP', 'true'],
    ['whose shell ignores SIGHUP', "trap '' HUP"],
  ])('%s ends as hung up', { tags: ['long'] }, async (_, before) => {
    const closed = await attach({ dist: DIST, columns: 80, rows: 24, start: false })
    try {
      await closed.pane.text(before)
      await closed.pane.keys('Enter')
      await closed.command()
      await closed.pane.shows('LIVE', 20_000)
      await closed.pane.hangUp()
      expect(await closed.exit()).toBe(129)
    } finally {
      await closed.close()
    }
  })
})
