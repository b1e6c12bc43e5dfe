import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { DIST } from '../../run-panel.ts'
import { type Attached, attach } from './attached.ts'

let open: Attached | undefined

afterEach(async () => {
  await open?.close()
  open = undefined
})

const start = async (columns: number, rows: number): Promise<Attached> => {
  open = await attach({
    dist: DIST,
    columns,
    rows,
    prepare: (peer) => peer.print(...Array.from({ length: 300 }, (_, n) => `line ${n + 1} of the beginning`)),
  })
  return open
}

describe('the console screen', { timeout: 60_000 }, () => {
  test('shows the tail, sends what is typed and marks it as sent', async () => {
    const { pane, peer } = await start(120, 30)
    const screen = await pane.shows('line 300 of the beginning')
    expect(screen).toContain('survival-1')
    expect(screen).toContain('RUNNING 4h12m')
    expect(screen).toContain('ctx prod')
    expect(screen).not.toContain('line 100 of')
    await pane.text('say hello')
    await pane.shows('> say hello')
    await pane.keys('Enter')
    await pane.shows('✓ say hello')
    await pane.shows('» say hello')
    expect(peer.commands.map(({ text }) => text)).toEqual(['say hello'])
    peer.print('hello to you')
    const rows = (await pane.shows('hello to you')).split('\n')
    expect(rows[0]).toMatch(/^ survival-1 .*LIVE/)
    expect(rows[28]).toMatch(/^ \^\] detach/)
    expect(rows.filter((row) => row.includes('survival-1'))).toHaveLength(1)
  })

  test('keeps a frozen view while lines arrive, and follows again', async () => {
    const { pane, peer } = await start(80, 24)
    await pane.shows('line 300 of')
    await pane.keys('PageUp')
    await pane.shows('PAUSED')
    const top = (await pane.screen()).split('\n')[1]
    peer.print(...Array.from({ length: 219 }, (_, n) => `later ${n}`))
    const frozen = await pane.shows('219 new lines below')
    expect(frozen.split('\n')[1]).toBe(top)
    expect(frozen).not.toContain('later')
    await pane.toLog()
    await pane.keys('G')
    await pane.shows('later 218')
    expect(await pane.screen()).not.toContain('PAUSED')
  })

  test('finds older and newer matches and shows only what a filter lets through', async () => {
    const { pane, peer } = await start(80, 24)
    peer.print(
      'The Needle one',
      ...Array.from({ length: 50 }, (_, n) => `hay ${n}`),
      'the needle two',
      'more hay',
      'end of hay',
    )
    await pane.shows('end of hay')
    await pane.toLog()
    await pane.text('/need')
    await pane.keys('Enter')
    expect(await pane.shows('match 2/2')).toContain('the needle two')
    await pane.keys('n')
    expect(await pane.shows('match 1/2')).toContain('The Needle one')
    await pane.keys('N')
    await pane.shows('match 2/2')
    await pane.keys('G')
    await pane.text('&needle')
    await pane.keys('Enter')
    const filtered = await pane.until(
      (now) => now.includes('Needle one') && !now.includes('end of hay'),
      'the filtered lines',
    )
    expect(filtered).toContain('the needle two')
    await pane.text('&')
    await pane.keys('C-u')
    await pane.text('!hay|line')
    await pane.keys('Enter')
    await pane.until(
      (now) => now.includes('needle two') && now.includes('filter: !/hay|line/') && !now.includes('hay 4'),
      'the inverse filter',
    )
    await pane.keys('Escape')
    await pane.shows('end of hay')
    await pane.text('/(')
    await pane.keys('Enter')
    await pane.shows('bad pattern')
  })

  test('loads the page before the first line', { tags: ['long'] }, async () => {
    const { pane } = await start(80, 24)
    await pane.shows('line 300 of')
    await pane.toLog()
    await pane.keys('g')
    await pane.shows('line 101 of the beginning')
    await pane.keys('h')
    await pane.shows('100 older lines loaded')
    await pane.keys('g')
    await pane.until((now) => /line 1 of/.test(now), 'line 1')
  })

  test('asks before it sends several pasted lines, and sends five a second', async () => {
    const { pane, peer } = await start(80, 24)
    await pane.paste('first\nsecond\nthird\n')
    await pane.shows('send 3 lines? y/N')
    await pane.keys('n')
    await pane.shows('paste dropped')
    expect(peer.commands).toHaveLength(0)
    await pane.paste('first\nsecond\nthird\n')
    await pane.shows('send 3 lines? y/N')
    await pane.keys('y')
    await pane.shows('✓ third')
    expect(peer.commands.map(({ text }) => text)).toEqual(['first', 'second', 'third'])
    const [first, , third] = peer.commands
    expect((third?.atMs ?? 0) - (first?.atMs ?? 0)).toBeGreaterThan(350)
    await pane.paste('one line')
    await pane.shows('> one line')
  })

  test('recalls, searches and completes typed commands, also the next time', async () => {
    const { pane, command } = await start(80, 24)
    for (const text of ['whitelist add Steve', 'time set day']) {
      await pane.text(text)
      await pane.keys('Enter')
      await pane.shows(`✓ ${text}`)
    }
    await pane.keys('C-]')
    await pane.shows('EXIT=0')
    await pane.text('clear')
    await pane.keys('Enter')
    await command()
    await pane.shows('LIVE')
    await pane.keys('Up')
    await pane.shows('> time set day')
    await pane.keys('Up')
    await pane.shows('> whitelist add Steve')
    await pane.keys('C-u')
    await pane.text('wh')
    await pane.keys('Tab')
    await pane.until((now) => /> whitelist\s/.test(now) && !now.includes('> whitelist add'), 'the completed word')
    await pane.keys('C-u', 'C-r')
    await pane.text('set')
    await pane.shows("(reverse-i-search) 'set': time set day")
    await pane.keys('Enter')
    await pane.shows('> time set day')
  })

  test('sends and remembers what was typed right before it is left', { tags: ['long'] }, async () => {
    const { pane, peer, folder } = await start(80, 24)
    await pane.text('say bye')
    await pane.shows('> say bye')
    await pane.keys('Enter', 'C-]')
    await pane.shows('EXIT=0')
    expect(peer.commands.map(({ text }) => text)).toEqual(['say bye'])
    const history = join(folder, 'panel', 'history')
    const [file = ''] = await readdir(history)
    expect(await readFile(join(history, file), 'utf8')).toBe('say bye\n')
  })

  test('says why a command failed and keeps its text', async () => {
    const { pane, peer } = await start(80, 24)
    peer.refuseCommands({ status: 503, code: 'NODE_OFFLINE' })
    await pane.text('say hi')
    await pane.keys('Enter')
    await pane.shows('✗ not sent: refused with NODE_OFFLINE · say hi')
    await pane.shows('> say hi')
    peer.event('server_state_update', stateUpdate('unknown'))
    await pane.shows('NODE OFFLINE since')
    await pane.keys('Enter')
    await pane.shows('✗ not sent: the node is offline; the text is kept')
    expect(peer.commands).toHaveLength(0)
  })

  test('orders power, and kills only when the name is typed', async () => {
    const { pane, peer } = await start(80, 24)
    await pane.keys('F5')
    await pane.shows('s start')
    await pane.keys('r')
    await pane.shows('✓ restart accepted')
    await pane.keys('F5', 'k')
    await pane.shows('type survival-1 to kill it:')
    await pane.text('survival')
    await pane.keys('Enter')
    await pane.shows('not killed')
    await pane.keys('F5', 'k')
    await pane.text('survival-1')
    await pane.keys('Enter')
    await pane.shows('✓ kill accepted')
    expect(peer.orders).toEqual(['restart', 'kill'])
  })

  test('copies selected lines to the clipboard', { tags: ['long'] }, async () => {
    const { pane } = await start(80, 24)
    await pane.shows('line 300 of')
    await pane.toLog()
    await pane.keys('v', 'Up', 'y')
    await pane.shows('2 lines copied')
    expect(await pane.clipboard()).toBe('line 299 of the beginning\nline 300 of the beginning\n')
  })

  test('writes all lines that it keeps, or all that match, to the file that it names, and overwrites none', {
    tags: ['long'],
  }, async () => {
    const { pane, folder } = await start(120, 24)
    await pane.shows('line 300 of')
    await pane.keys('F6')
    await pane.until((now) => /write the lines to: \S+console-survival-1-\S+\.log/.test(now), 'a path')
    await pane.keys('Enter')
    await pane.shows('200 lines (all kept here) written to ~/console-survival-1-')
    const [file = ''] = (await readdir(folder)).filter((name) => name.startsWith('console-survival-1'))
    const written = await readFile(join(folder, file), 'utf8')
    expect(written).toMatch(/^\S+Z line 101 of the beginning\n/)
    expect(written).toMatch(/Z line 300 of the beginning\n$/)
    expect(written.split('\n')).toHaveLength(201)
    const write = async (path: string): Promise<void> => {
      await pane.keys('F6', 'C-u')
      await pane.text(path)
      await pane.keys('Enter')
    }
    await write(`~/${file}`)
    await pane.shows('✗ not written, it is there already: ')
    expect(await readFile(join(folder, file), 'utf8')).toBe(written)
    await write('nowhere/a.log')
    await pane.shows('✗ not written, its folder is not there: ')
    await pane.toLog()
    await pane.text('&line 29')
    await pane.keys('Enter')
    await pane.until((now) => now.includes('line 299') && !now.includes('line 300'), 'the filtered lines')
    await write('some.log')
    await pane.shows('10 lines (all that match) written to ~/some.log')
    expect((await readFile(join(folder, 'some.log'), 'utf8')).split('\n')).toHaveLength(11)
  })

  test('stops a paste by Ctrl-C, and says on leaving what of one was not sent', async () => {
    const { pane, peer } = await start(120, 24)
    const lines = Array.from({ length: 40 }, (_, n) => `step ${n + 1}`)
    await pane.paste(`${lines.join('\n')}\n`)
    await pane.shows('send 40 lines? y/N')
    expect(await pane.screen()).toContain('… and 36 more')
    await pane.keys('y')
    await pane.shows('more · Ctrl-C stops')
    await pane.keys('C-c')
    const stopped = await pane.until((now) => /stopped: \d+ lines not sent/.test(now), 'that it was stopped')
    const sent = peer.commands.length
    expect(sent + Number(/stopped: (\d+)/.exec(stopped)?.[1])).toBe(40)
    await pane.paste('last 1\nlast 2\nlast 3\n')
    await pane.keys('y')
    await pane.shows('» last 1')
    await pane.keys('C-]')
    const left = await pane.shows('EXIT=0')
    expect(left).toContain('not sent: last 3')
    expect(left).not.toContain('not sent: last 1')
    expect(left).not.toContain('not sent: step')
    expect(peer.commands.map(({ text }) => text).slice(0, sent)).toEqual(lines.slice(0, sent))
  })

  test('takes the wheel for the log, gives the mouse back by a key, and counts no backlog as rate', {
    tags: ['long'],
  }, async () => {
    const { pane } = await start(120, 24)
    await pane.shows('line 300 of')
    expect(await pane.screen()).toContain(' 0 l/s')
    expect(await pane.display('#{mouse_standard_flag} #{mouse_sgr_flag}')).toBe('1 1')
    await pane.text('\u001B[<64;5;5M')
    await pane.shows('PAUSED')
    await pane.until(
      (now) => now.includes(' line 297 of the beginning') && !now.includes('line 298 of'),
      'three rows up',
    )
    await pane.text('\u001B[<65;5;5M')
    await pane.until((now) => now.includes('line 300 of') && !now.includes('PAUSED'), 'the end of the log')
    await pane.keys('F9')
    await pane.shows('mouse off')
    await pane.until(async () => (await pane.display('#{mouse_any_flag}')) === '0', 'a mouse that is the terminal’s')
  })

  test('has colours by meaning for dark and for light terminals, and none under NO_COLOR', {
    tags: ['long'],
  }, async () => {
    const { pane, command } = await start(120, 24)
    const styledWith = async (...words: string[]): Promise<string> => {
      await pane.keys('C-]')
      await pane.shows('EXIT=0')
      await pane.text('clear')
      await pane.keys('Enter')
      await command(...words)
      await pane.shows('LIVE')
      return (await pane.screen(true)).split('\n')[0] ?? ''
    }
    const [dark, light, none] = [
      await styledWith('--theme', 'dark'),
      await styledWith('--theme', 'light'),
      await styledWith('--no-color'),
    ]
    // biome-ignore lint/suspicious/noControlCharactersInRegex: a colour
    const colour = /\u001B\[(?:3[0-8]|9\d|[^m]*;3[0-8])[;\dm]/
    expect(dark).toMatch(colour)
    expect(light).toMatch(colour)
    expect(light).not.toBe(dark)
    expect(none).toContain('LIVE')
    expect(none).not.toMatch(colour)
  })

  test('follows every size of the terminal', async () => {
    const { pane } = await start(80, 24)
    await pane.shows('line 300 of')
    for (const [columns, rows] of [
      [200, 60],
      [99, 15],
      [60, 14],
      [40, 10],
      [120, 30],
    ] as const) {
      await pane.resize(columns, rows)
      const boxed = columns >= 80 && rows >= 15
      const shown = await pane.until((now) => {
        const lines = now.split('\n')
        const last = lines[rows - 2] ?? ''
        const whole = lines[0]?.startsWith(' survival-1') === true && last.startsWith(boxed ? ' ^] detach' : ' >')
        const inside = Math.max(...lines.map((line) => line.length)) < columns
        return now.includes('line 300 of') && whole && inside
      }, `a whole frame at ${columns}x${rows}`)
      expect(shown.split('\n').filter((line) => line.includes('survival-1')).length).toBe(1)
    }
    await pane.resize(30, 6)
    await pane.shows('too small')
    await pane.resize(80, 24)
    await pane.shows('line 300 of')
  })

  test('lets no line of the game reach the terminal but its colours', async () => {
    const { pane, peer } = await start(80, 24)
    await pane.shows('line 300 of')
    peer.print(
      '\u001B[2J\u001B[Hcleared',
      '\u001B]0;stolen title\u0007titled',
      '\u001B]52;c;c3RvbGVu\u0007clipboard',
      '\u001B[?1049lleft \u001B[?25l\u001B[8mhidden\u001B[0m',
      '\u009B2J\u009D0;c1\u009Cc1 \u001BPq#0\u001B\\dcs',
      'over\rwritten \u202Ereversed \u001B[31mred\u001B[0m end',
    )
    const screen = await pane.shows('red end')
    for (const text of [
      'line 300 of',
      'cleared',
      'titled',
      'clipboard',
      'left hidden',
      'c1 dcs',
      'overwritten reversed',
    ]) {
      expect(screen).toContain(text)
    }
    expect(await pane.display('#{pane_title}')).not.toContain('stolen')
    expect(await pane.display('#{alternate_on}')).toBe('1')
    expect(await pane.screen(true)).toContain('\u001B[31mred')
    expect(await pane.clipboard()).toBe('')
  })
})

const stateUpdate = (state: string): Record<string, unknown> => ({
  type: 'server_state_update',
  state,
  previousState: 'running',
  desired: 'running',
  generation: 1,
  reason: null,
  exitCode: null,
  exitSignal: null,
  crashCount: 0,
  nextRestartAt: null,
  timestamp: '2026-01-01T10:00:00.000Z',
})
