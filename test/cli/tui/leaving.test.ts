import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { DIST } from '../../run-panel.ts'
import { type Attached, attach } from './attached.ts'

let open: Attached | undefined

afterEach(async () => {
  await open?.close()
  open = undefined
})

const prepared = async (wishes: Record<string, unknown> = {}): Promise<Attached> => {
  open = await attach({
    dist: DIST,
    columns: 80,
    rows: 24,
    wishes,
    start: false,
    prepare: (peer) => peer.print('one', 'two', 'three'),
  })
  return open
}

/** The flags of the terminal that a program changes, and its settings. */
const terminalOf = async ({ pane }: Attached): Promise<string[]> => [
  await pane.display('#{alternate_on} #{cursor_flag} #{wrap_flag} #{keypad_cursor_flag}'),
  await pane.settings(),
]

/** Attaches, leaves by `leave`, and checks that the terminal is as before; the screen afterwards. */
const leaveBy = async (attached: Attached, leave: (pid: number) => Promise<void>): Promise<string> => {
  const { pane } = attached
  const before = await terminalOf(attached)
  await pane.text(attached.command())
  await pane.keys('Enter')
  await pane.shows('LIVE', 20_000)
  await pane.shows('three')
  expect(await pane.display('#{alternate_on}')).toBe('1')
  await leave(attached.peer.lastPid())
  const screen = await pane.until((now) => /EXIT=\d+/.test(now) && now.trimEnd().endsWith('READY>'), 'the shell again')
  expect(await terminalOf(attached)).toEqual(before)
  await pane.text('echo ty""ped')
  await pane.keys('Enter')
  await pane.shows('typed')
  return screen
}

const LAST_LINE = 'detached from survival-1 at e1-3 (resume: panel console attach survival-1 --after-cursor e1-3)'
const joined = (screen: string): string => screen.replace(/\n/g, '')

describe('leaving the console screen gives the terminal back', { timeout: 60_000 }, () => {
  test('by the detach key, and names the way back', async () => {
    const attached = await prepared()
    const screen = await leaveBy(attached, () => attached.pane.keys('C-]'))
    expect(screen).toContain('EXIT=0')
    expect(joined(screen)).toContain(LAST_LINE)
    await attached.pane.text(`clear; ${attached.command({ afterCursor: 'e1-2' })}`)
    await attached.pane.keys('Enter')
    const again = await attached.pane.until(
      (now) => now.includes('LIVE') && now.includes('three'),
      'the resumed screen',
    )
    expect(again).not.toContain('two')
    expect(attached.peer.resumes).toEqual([undefined, 'e1-2'])
  })

  test('by q in the log', async () => {
    const attached = await prepared()
    expect(await leaveBy(attached, () => attached.pane.toLog().then(() => attached.pane.keys('q')))).toContain('EXIT=0')
  })

  test('by two keys in a row', async () => {
    const attached = await prepared({ detachKeys: 'ctrl-p,ctrl-q' })
    expect(await leaveBy(attached, () => attached.pane.keys('C-p', 'C-q'))).toContain('EXIT=0')
  })

  test('by Ctrl-C twice; once only clears the line', async () => {
    const attached = await prepared()
    const screen = await leaveBy(attached, async () => {
      await attached.pane.text('half a comm')
      await attached.pane.shows('> half a comm')
      await attached.pane.keys('C-c')
      await attached.pane.until((now) => !now.includes('half a comm') && now.includes('Ctrl-C again'), 'a cleared line')
      await attached.pane.keys('C-c', 'C-c')
    })
    expect(screen).toContain('EXIT=0')
    expect(attached.peer.commands).toEqual([])
  })

  test.each([
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)('by %s', async (signal, code) => {
    const attached = await prepared()
    const screen = await leaveBy(attached, async (pid) => void process.kill(pid, signal))
    expect(screen).toContain(`EXIT=${code}`)
    expect(joined(screen)).toContain(LAST_LINE)
  })

  test('by SIGINT twice', async () => {
    const attached = await prepared()
    const screen = await leaveBy(attached, async (pid) => {
      process.kill(pid, 'SIGINT')
      await attached.pane.shows('Ctrl-C again')
      process.kill(pid, 'SIGINT')
    })
    expect(screen).toContain('EXIT=0')
  })

  test('by an error that nobody caught', async () => {
    const attached = await prepared()
    const crashFile = join(attached.folder, 'crash')
    const { command } = attached
    const crashing = { ...attached, command: () => command({ crashFile }) }
    const screen = await leaveBy(crashing, () => writeFile(crashFile, ''))
    expect(screen).toContain('crashed on purpose')
    expect(screen).toContain('EXIT=1')
  })

  test('when the first connection is refused', async () => {
    const attached = await prepared()
    const before = await terminalOf(attached)
    attached.peer.refuse({ status: 404, code: 'SERVER_NOT_FOUND' })
    await attached.pane.text(attached.command())
    await attached.pane.keys('Enter')
    await attached.pane.shows('EXIT=1', 20_000)
    expect(await attached.pane.screen()).toContain('failed: SERVER_NOT_FOUND')
    expect(await terminalOf(attached)).toEqual(before)
  })

  test('after the key has expired; the text stays readable until then', async () => {
    const attached = await prepared()
    const screen = await leaveBy(attached, async () => {
      attached.peer.refuse({ status: 401, code: 'AUTH_EXPIRED' })
      attached.peer.cut()
      const shown = await attached.pane.shows('AUTH EXPIRED: panel login')
      expect(shown).toContain('three')
      await attached.pane.keys('C-]')
    })
    expect(screen).toContain('EXIT=4')
  })
})
