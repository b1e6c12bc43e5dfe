import { afterEach, describe, expect, test } from 'vitest'
import { DIST } from '../../run-panel.ts'
import { type Attached, attach } from './attached.ts'

let open: Attached | undefined

afterEach(async () => {
  await open?.close()
  open = undefined
})

const start = async (columns: number, rows: number): Promise<Attached> => {
  const prepare: Parameters<typeof attach>[0]['prepare'] = (peer) => peer.print('number 1', 'number 2')
  open = await attach({ dist: DIST, columns, rows, start: false, prepare })
  await open.command()
  await open.pane.shows('number 2', 20_000)
  return open
}

describe('a console on a terminal that is too small for the screen', { timeout: 60_000 }, () => {
  test('prints plain lines and sends what is typed; Ctrl-C leaves it', async () => {
    const { pane, peer } = await start(39, 20)
    expect(await pane.screen()).toContain('this terminal has 39x20')
    expect(await pane.display('#{alternate_on}')).toBe('0')
    await pane.text('say hi')
    await pane.keys('Enter')
    await pane.until((now) => now.includes('] say hi'), 'the line in the console')
    expect(peer.commands.map(({ text }) => text)).toEqual(['say hi'])
    await pane.keys('C-c')
    expect((await pane.shows('EXIT=0')).replace(/\n/g, '')).toContain('--after-cursor e1-3')
  })

  test('ends by SIGTERM with 143', async () => {
    const attached = await start(80, 7)
    process.kill(await attached.pid(), 'SIGTERM')
    expect(await attached.exit()).toBe(143)
  })

  test('ends as hung up when the terminal is closed', async () => {
    const attached = await start(39, 7)
    await attached.pane.hangUp()
    expect(await attached.exit()).toBe(129)
  })
})
