import { afterEach, describe, expect, test } from 'vitest'
import { DIST } from '../../run-panel.ts'
import { type Attached, attach } from './attached.ts'

let open: Attached | undefined

afterEach(async () => {
  await open?.close()
  open = undefined
})

const start = async (): Promise<Attached> => {
  open = await attach({
    dist: DIST,
    columns: 110,
    rows: 24,
    prepare: (peer) => peer.print('one', 'two', 'three'),
  })
  await open.pane.shows('three')
  return open
}

describe('the connection of the console screen', { timeout: 60_000 }, () => {
  test('comes back by itself and repeats no line', async () => {
    const { pane, peer } = await start()
    peer.cut()
    await pane.shows('RECONNECTING in')
    expect(await pane.screen()).toContain('three')
    peer.print('four while away')
    const screen = await pane.until(
      (now) => now.includes('LIVE') && now.includes('four while away'),
      'the line printed meanwhile',
      20_000,
    )
    expect(screen.match(/three/g)).toHaveLength(1)
    expect(screen).not.toContain('gap:')
    expect(peer.resumes).toEqual([undefined, 'e1-3'])
  })

  test('draws a row where lines are gone, and says so when they cannot be loaded', { tags: ['long'] }, async () => {
    const { pane, peer } = await start()
    peer.cut()
    await pane.shows('RECONNECTING in')
    peer.print(...Array.from({ length: 10 }, (_, n) => `lost ${n}`), 'kept')
    peer.trim(13)
    const screen = await pane.shows('gap: 10 lines trimmed from the log (seq 4..13)', 20_000)
    await pane.shows('kept')
    expect(screen).not.toContain('lost')
    await pane.toLog()
    await pane.keys('h')
    await pane.shows('gone from the log')
  })

  test('fills a gap from the log', async () => {
    const { pane, peer } = await start()
    peer.printUnseen('unseen 1', 'unseen 2')
    peer.print('seen after')
    await pane.shows('gap: 2 lines not shown live (seq 4..5)')
    await pane.toLog()
    await pane.keys('h')
    const screen = await pane.until((now) => now.includes('unseen 2') && !now.includes('gap:'), 'the filled gap')
    expect(screen.indexOf('unseen 1')).toBeGreaterThan(screen.indexOf('three'))
    expect(screen.indexOf('unseen 2')).toBeLessThan(screen.indexOf('seen after'))
  })

  test('tells lockouts and limits', async () => {
    const { pane, peer } = await start()
    const timestamp = '2026-01-01T10:00:00.000Z'
    peer.consoleEvent('error', { type: 'error', error: 'auth_lockout', retryAfterSeconds: 42, timestamp })
    await pane.until((now) => /LOCKED OUT 4[12]s/.test(now), 'the lockout')
    expect(await pane.screen()).toContain('three')
  })

  test('ends for good when the server is deleted, and keeps the text', { tags: ['long'] }, async () => {
    const { pane, peer } = await start()
    peer.refuse({ status: 404, code: 'SERVER_NOT_FOUND' })
    peer.cut()
    expect(await pane.shows('SERVER DELETED', 20_000)).toContain('three')
  })
})
