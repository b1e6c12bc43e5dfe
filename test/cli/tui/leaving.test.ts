import { execFile } from 'node:child_process'
import { appendFile, readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { until } from '../../e2e/wait.ts'
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

  test('and takes it again when it was stopped meanwhile', async () => {
    const { pane, peer } = attached
    await attached.command()
    await pane.shows('number 3', 20_000)
    const pid = await attached.pid()
    process.kill(pid, 'SIGSTOP')
    await until('it is stopped', async () => (await readFile(`/proc/${pid}/stat`, 'utf8')).includes(') T '))
    // As a shell leaves it.
    const tty = await pane.display('#{pane_tty}')
    const stty = async (...words: string[]) => (await promisify(execFile)('stty', ['-F', tty, ...words])).stdout.trim()
    await stty('sane')
    await appendFile(tty, '\u001b[?2004l\u001b[?1000l\u001b[?1006l\u001b[?1049l\u001b[2Jthe shell')
    await pane.until((now) => now.includes('the shell') && !now.includes('LIVE'), 'the shell')
    await pane.resize(100, 24)
    process.kill(pid, 'SIGCONT')
    await pane.until(
      (now) => now.includes('LIVE') && now.includes('number 3') && !now.includes('the shell'),
      'the screen',
    )
    expect(await pane.display('#{alternate_on} #{mouse_any_flag}')).toBe('1 1')
    await pane.text('said again')
    await pane.keys('Enter')
    await until('the command is there', async () => peer.commands.at(-1)?.text === 'said again')
    await pane.keys('C-]')
    await pane.shows('EXIT=0')
    await pane.resize(80, 24)
    await until('the terminal has its size again', async () => (await stty('size')) === '24 80')
    const { before, after } = await attached.settings()
    expect(after).toBe(before.replace('columns 80', 'columns 100'))
    expect(await pane.display('#{alternate_on} #{cursor_flag} #{mouse_any_flag}')).toBe('0 1 0')
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
