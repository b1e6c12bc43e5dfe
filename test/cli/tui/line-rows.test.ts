import { describe, expect, test } from 'vitest'
import { type Level, levelsBy, readLevel } from '../../../src/cli/tui/log/level.ts'
import { type LineStyle, lineRows } from '../../../src/cli/tui/log/line-rows.ts'
import { readPattern } from '../../../src/cli/tui/log/matcher.ts'
import { type Entry, type EntryKind, Ring } from '../../../src/cli/tui/log/ring.ts'
import { chooseTheme, type ThemeChoice } from '../../../src/cli/tui/terminal/theme.ts'
import { themeOf } from './drawn.ts'

const theme = themeOf('dark')
// biome-ignore lint/suspicious/noControlCharactersInRegex: styles are not compared
const SGR = /\u001B\[[\d;]*m/g

const rowsOf = (text: string, change: Partial<LineStyle> = {}): string[] => {
  const entry: Entry = { at: 1, seq: 1, ms: 0, kind: 'stdout', level: 'info', text }
  const style: LineStyle = {
    theme,
    width: 40,
    time: 'off',
    nowMs: 0,
    wrap: false,
    shift: 0,
    colour: true,
    highlight: true,
    search: undefined,
    current: false,
    selected: false,
    loadKey: 'h',
    ...change,
  }
  return lineRows(entry, style)
}
const plain = (rows: readonly string[]): string[] => rows.map((row) => row.replace(SGR, ''))

describe('a line', () => {
  test('that is longer than the screen is marked where there is more, and is whole when it is wrapped', () => {
    const text = Array.from({ length: 12 }, (_, n) => `word${String(n).padStart(3, '0')}`).join(' ')
    expect(plain(rowsOf(text))).toEqual([`${text.slice(0, 39)}›`])
    expect(plain(rowsOf(text, { shift: 16 }))).toEqual([`‹${text.slice(17, 55)}›`])
    expect(plain(rowsOf(text, { shift: text.length - 30 }))).toEqual([`‹${text.slice(text.length - 29)}`])
    expect(plain(rowsOf(text, { wrap: true })).join('')).toBe(text)
    expect(plain(rowsOf('x'.repeat(40)))).toEqual(['x'.repeat(40)])
    expect(plain(rowsOf(`${'x'.repeat(38)}日本`))).toEqual([`${'x'.repeat(38)} ›`])
  })

  test('has one time: the game’s own where it writes one', () => {
    for (const own of [
      '[12:00:01] [Server/INFO]: hi',
      '2026-01-31 12:00:01 hi',
      '12:00:01.123 hi',
      '\u001B[32m[12:00:01]: hi',
    ])
      expect(plain(rowsOf(own, { time: 'local' }))).toEqual(plain(rowsOf(own)))
    for (const none of ['hi at 12:00:01', '1.2.3.4:5000 joined', '99 bottles'])
      expect(plain(rowsOf(none, { time: 'local' }))[0]).toMatch(/^\d\d:\d\d:\d\d\.\d{3} /)
    expect(plain(rowsOf('[12:00:01] hi', { time: 'utc' }))[0]).toBe('00:00:00.000Z [12:00:01] hi')
  })

  test('shows matches also in reversed text, and the one that the search stands on differently', () => {
    const search = readPattern('needle')
    const reversed = '\u001B[7mall reversed needle\u001B[0m'
    const [match = ''] = rowsOf(reversed, { search })
    const [current = ''] = rowsOf(reversed, { search, current: true })
    expect(match).toContain(`${theme.match}needle`)
    expect(current).toContain(`${theme.current}needle`)
    for (const painted of [match, current]) expect(painted).not.toContain('\u001B[7mneedle')
    expect(theme.current).not.toBe(theme.match)
    const bare = themeOf('none')
    expect(bare.current).not.toBe(bare.match)
    expect(rowsOf(reversed, { search, theme: bare })[0]).toContain(`${bare.match}needle`)
  })
})

describe('the level of a line', () => {
  const levels = (...lines: readonly (readonly [EntryKind, string])[]): (Level | undefined)[] => {
    const ring = new Ring({ lines: 100 })
    for (const [kind, text] of lines) ring.append({ seq: ring.end + 1, ms: 0, kind, text })
    return lines.map((_, at) => ring.get(at)?.level)
  }

  test('comes from its words, not from where it was written', () => {
    expect(levels(['stderr', 'map loaded'], ['stderr', '[WARN] slow'], ['stdout', 'x ERROR y'])).toEqual([
      'info',
      'warn',
      'error',
    ])
  })

  test('of a stack trace is that of its exception, whatever comes between on the other stream', () => {
    expect(
      levels(
        ['stderr', 'java.lang.NullPointerException: Cannot invoke "String.length()"'],
        ['stdout', 'Steve joined the game'],
        ['stderr', '\tat net.minecraft.server.Main.main(Main.java:12)'],
        ['stderr', 'Caused by: java.io.IOException'],
        ['stderr', '\t... 23 more'],
        ['stderr', 'saved the world'],
      ),
    ).toEqual(['error', 'info', 'error', 'error', 'error', 'info'])
  })

  test('of an exception that a logger printed is that of the message before it', () => {
    expect(
      levels(
        ['stdout', '[12:00:01] [main/WARN]: Could not save'],
        ['stdout', 'java.io.IOException: disk full'],
        ['stdout', '\tat a.B.c(D.java:1)'],
      ),
    ).toEqual(['warn', 'warn', 'warn'])
    expect(levels(['stdout', 'Exception in thread "main" java.lang.Error'], ['stdout', '\tat a.B'])).toEqual([
      'error',
      'error',
    ])
    expect(readLevel('Traceback (most recent call last):', 'stdout', 'info')).toBe('error')
    expect(readLevel('Terrors of the deep', 'stdout', 'info')).toBe('info')
  })
})

describe('the theme', () => {
  const choose = (change: Partial<ThemeChoice>) =>
    chooseTheme({
      name: 'auto',
      noColor: false,
      colorFgBg: undefined,
      term: 'xterm-256color',
      colorTerm: undefined,
      ...change,
    })

  test('goes by the background that COLORFGBG names, and is dark without', () => {
    for (const light of ['0;15', '0;default;15', '0;7'])
      expect(choose({ colorFgBg: light })).toEqual(choose({ name: 'light' }))
    for (const dark of ['15;0', '', 'x', '15;default', undefined])
      expect(choose({ colorFgBg: dark })).toEqual(choose({ name: 'dark' }))
  })

  test('has no colours under NO_COLOR unless one was named, and no more than 16 where the terminal knows no more', () => {
    expect(choose({ noColor: true })).toEqual(choose({ name: 'none' }))
    expect(Object.values(choose({ noColor: true })).join('')).not.toMatch(/\[[39]\d|[34]8;/)
    expect(choose({ noColor: true, name: 'light' })).toEqual(choose({ name: 'light' }))
    for (const name of ['dark', 'light'] as const)
      expect(Object.values(choose({ name, term: 'xterm' })).join('')).not.toContain('8;5;')
  })
})

describe('levels by the rules of a template', () => {
  const level = (rules: Parameters<typeof levelsBy>[0], text: string, kind = 'stdout') =>
    levelsBy(rules)(text, kind, 'info')
  const MUMBLE = [
    { level: 'error', kind: 'prefix', value: '<F>' },
    { level: 'warn', kind: 'regex', value: '^<W>.* failed' },
    { level: 'info', kind: 'prefix', value: '<W>' },
    { level: 'debug', kind: 'contains', value: 'SSL:' },
  ] as const

  test('the first that fits counts; other lines are read by their words', () => {
    expect(level(MUMBLE, '<F>out of memory')).toBe('error')
    expect(level(MUMBLE, '<W>binding failed')).toBe('warn')
    expect(level(MUMBLE, '<W>ERROR is only a word here')).toBe('info')
    expect(level(MUMBLE, '<X>SSL: ready')).toBe('debug')
    expect(level(MUMBLE, 'FATAL: no rule')).toBe('error')
    expect(level(MUMBLE, '\u001b[33m<F>coloured\u001b[0m')).toBe('error')
    expect(level([], '<W>WARN')).toBe('warn')
  })

  test('lines that no game wrote keep theirs, and only the beginning of a line is looked at', () => {
    expect(level(MUMBLE, '<F>typed', 'stdin')).toBe('info')
    expect(level(MUMBLE, '<F>a remark', 'system')).toBe('warn')
    expect(level(MUMBLE, `${'x'.repeat(500)}SSL:`)).toBe('info')
  })

  test('a rule that cannot be used is as none, and hostile ones take no time', () => {
    const bad = { level: 'error', kind: 'regex', value: '(' } as const
    expect(level([bad, ...MUMBLE], '<F>x')).toBe('error')
    expect(level([bad], 'plain')).toBe('info')
    const slow = Array.from(
      { length: 50 },
      (_, i) => ({ level: 'error', kind: 'regex', value: `(a|a?){200}b${i}` }) as const,
    )
    const before = performance.now()
    const read = levelsBy(slow)
    for (let i = 0; i < 20; i += 1) expect(read('a'.repeat(5000), 'stdout', 'info')).toBe('info')
    expect(performance.now() - before).toBeLessThan(2000)
  })
})
