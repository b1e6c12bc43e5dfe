import { describe, expect, test } from 'vitest'
import { readPattern } from '../../../src/cli/tui/log/matcher.ts'
import type { NewEntry } from '../../../src/cli/tui/log/ring.ts'
import { edit } from '../../../src/cli/tui/model/editor.ts'
import { withStats } from '../../../src/cli/tui/model/facts.ts'
import type { ConsoleState } from '../../../src/cli/tui/model/model.ts'
import type { ResourceStats } from '../../../src/shared/kernel/events.ts'
import { draw, liveState, themeOf } from './drawn.ts'

const LINES: readonly NewEntry[] = [
  ...Array.from({ length: 10 }, (_, n): NewEntry => {
    const text = `line ${n + 1} \u001B[32m日本\u001B[0m ${'long '.repeat(60)}`
    return { seq: n + 1, ms: 0, kind: 'stdout', text }
  }),
  { seq: 11, ms: 20, kind: 'gap', text: 'gap: 10 lines not shown live (seq 11..20)' },
]

// biome-ignore lint/suspicious/noControlCharactersInRegex: styles of our own may pass
const STYLE = /\u001B\[[\d;]+m/g

const plainAt = (columns: number, rows: number, state: ConsoleState = liveState()): readonly string[] =>
  draw({ columns, rows, state, lines: LINES }).plain

const stats = (cpuPercent: number, memoryUsageMb = 3072): ResourceStats => ({
  cpuPercent,
  // What is used of the two cores that it may have.
  cpuCores: (cpuPercent / 100) * 2,
  memoryUsageMb,
  memoryTotalMb: 6144,
  diskUsageMb: 6247,
  diskTotalMb: 10_240,
  diskIoMb: null,
  networkRxBytes: null,
  networkTxBytes: null,
  processes: 1,
  uptimeMs: null,
  playersOnline: null,
  playersMax: null,
  playerNames: [],
})

/** A state in which a server has been measured once for each percentage. */
const measured = (...percentages: readonly number[]): ConsoleState => {
  const state = liveState()
  return { ...state, facts: percentages.reduce((facts, cpu) => withStats(facts, stats(cpu), undefined), state.facts) }
}

describe('the screen', () => {
  test('at 40x10 is a status row, lines and a prompt', () => {
    const rows = plainAt(40, 10)
    expect(rows).toHaveLength(9)
    expect(rows[0]).toMatch(/^ survival-1 {2}RUNNING 3d04h .*LIVE ●/)
    expect(rows[6]).toMatch(/line 10 日本 .*›$/)
    expect(rows[7]).toMatch(/^──.*gap: 10 lines.*──$/)
    expect(rows[8]).toBe(' >')
  })

  test('at 40x10 says first that it is paused, and what it is narrowed to', () => {
    expect(plainAt(40, 10, liveState({ follow: false, pausedEnd: 4 }))[0]).toMatch(/^ PAUSED · 7 new lines.* LIVE ●/)
    expect(plainAt(40, 10, liveState({ filter: readPattern('!warn') }))[0]).toMatch(/^ filter: !\/warn\/ .* LIVE ●/)
    expect(plainAt(40, 10, liveState({ level: 'warn' }))[0]).toMatch(/^ level WARN .* LIVE ●/)
  })

  test('says in its header how many play, where the game says it', () => {
    const playing = (playersOnline: number | null, playersMax: number | null): string => {
      const state = liveState()
      const facts = withStats(state.facts, { ...stats(1), playersOnline, playersMax }, undefined)
      return plainAt(100, 30, { ...state, facts })[0] ?? ''
    }
    expect(playing(3, 20)).toMatch(/node-a {2}players 3\/20 {2}/)
    expect(playing(0, null)).toMatch(/node-a {2}players 0 {2}/)
    expect(playing(null, 20)).not.toContain('players')
  })

  test('at 80x24 has a header, a rule, the log, a status line, meters, the prompt and keys', () => {
    const rows = plainAt(80, 24)
    expect(rows).toHaveLength(23)
    expect(rows[0]).toMatch(/^ survival-1 {2}RUNNING 3d04h {2}node-a {2}ctx prod +LIVE ●$/)
    expect(rows[1]).toMatch(/^─{79}$/)
    expect(rows[17]).toMatch(/^00:00:00\.000Z line 10 日本 long long.*›$/)
    expect(rows[19]).toMatch(/^─+ follow ON {2}ts utc {2}wrap off ─$/)
    expect(rows[20]).toMatch(/^ CPU ····· - +MEM ····· - +DISK ····· -$/)
    expect(rows[21]).toBe(' >')
    expect(rows[22]).toMatch(/^ \^\] detach/)
  })

  test('at 200x60 has the rate, the number and the length of the history too', () => {
    const rows = plainAt(200, 60)
    expect(rows).toHaveLength(59)
    expect(rows[0]).toMatch(/LIVE ● {2}42 l\/s {2}seq 1,204,331$/)
    expect(rows[55]).toMatch(/history 1\/500 ─$/)
  })

  test.each([
    [40, 8],
    [40, 15],
    [41, 8],
    [79, 40],
    [80, 15],
    [99, 24],
    [100, 24],
    [200, 60],
  ])('never fills the last row or column at %dx%d, whatever is open', (columns, rows) => {
    const { editor } = liveState()
    const states: ConsoleState[] = [
      liveState(),
      liveState({ mode: { kind: 'help' } }),
      liveState({ wrap: true }),
      liveState({ mode: { kind: 'kill', editor } }),
      liveState({ mode: { kind: 'power' } }),
      liveState({ mode: { kind: 'paste', lines: Array.from({ length: 30 }, () => '日本'.repeat(90)) } }),
      liveState({ notice: { text: '日本'.repeat(200), untilMs: Number.MAX_SAFE_INTEGER } }),
      liveState({ editor: { text: 'x'.repeat(500), cursor: 500, killed: '' } }),
      liveState({ follow: false, serverName: 'a very long name of a server '.repeat(5) }),
      measured(5, 30, 100),
    ]
    for (const state of states) {
      const { plain, cursor } = draw({ columns, rows, state, lines: LINES })
      expect(plain.length).toBeLessThanOrEqual(rows - 1)
      for (const row of plain)
        expect([...row].reduce((sum, c) => sum + (/[日本]/.test(c) ? 2 : 1), 0)).toBeLessThan(columns)
      if (cursor !== undefined) {
        expect(cursor.x).toBeLessThan(columns)
        expect(plain[cursor.y]).toMatch(/^ ?(?:>|\/|type|write)/)
      }
    }
  })

  test('below 40x8 is one sentence', () => {
    expect(plainAt(39, 24)).toEqual([`${'panel: 39x24 is too small, 40x8 needed…'.slice(0, 37)}…`])
  })

  test('lets no control character of a name, a message or a refusal reach the terminal', () => {
    const evil = 'a\u001B]0;stolen\u0007\u009B2J\u202Eb\nc'
    const state = liveState({
      serverName: evil,
      notice: { text: evil, untilMs: Number.MAX_SAFE_INTEGER },
      mode: { kind: 'paste', lines: [evil, evil] },
    })
    for (const row of draw({ columns: 120, rows: 30, state, theme: themeOf('dark') }).styled)
      expect(row.replace(STYLE, '')).not.toMatch(/[\p{Cc}\u202E]/u)
  })
})

describe('the meters', () => {
  test('are bars, values and how the values went', () => {
    const row = draw({ columns: 120, rows: 30, state: measured(10, 40, 80) }).plain[26]
    expect(row).toMatch(/^ CPU ████████·· 80% ▁▄▇ {3}MEM █████····· 3\.0\/6\.0G ▅▅▅ {3}DISK ██████▏··· 61%$/)
  })

  test('are coloured by how much is left', () => {
    const theme = themeOf('dark')
    const fillOf = (cpu: number): string =>
      draw({ columns: 120, rows: 30, state: measured(cpu), theme }).styled[26] ?? ''
    expect(fillOf(10)).toContain(`${theme.fill}█`)
    expect(fillOf(80)).toContain(`${theme.warn}█`)
    expect(fillOf(95)).toContain(`${theme.bad}█`)
  })

  test('are dim with the header while nothing comes from the server', () => {
    const theme = themeOf('dark')
    const state = measured(95)
    const away: ConsoleState = {
      ...state,
      facts: { ...state.facts, link: { kind: 'retrying', untilMs: 1_000_004_000, attempt: 2 } },
    }
    const styled = draw({ columns: 120, rows: 30, state: away, theme }).styled
    expect(styled[0]).toContain(`${theme.dim}RUNNING 3d04h`)
    expect(styled[0]).toContain(`${theme.dim}survival-1`)
    expect(styled[0]).toContain(`${theme.warn}RECONNECTING in 4s (2)`)
    expect(styled[26]).not.toContain(theme.bad)
    expect(styled[26]).toContain(`${theme.dim}95%`)
    expect(draw({ columns: 120, rows: 30, state, theme }).styled[0]).toContain(`${theme.good}RUNNING 3d04h`)
  })
})

describe('the prompt', () => {
  const editing = (text: string, cursor = text.length): ConsoleState =>
    liveState({ editor: { text, cursor, killed: '' } })

  test('shows the part around the cursor of a text that is too long, wide characters whole', () => {
    const wide = draw({ columns: 40, rows: 10, state: editing('日本'.repeat(40)) })
    expect(wide.plain.at(-1)).toBe(` > 本${'日本'.repeat(8)}`)
    expect(wide.cursor).toEqual({ x: 37, y: 8 })
    const middle = draw({ columns: 40, rows: 10, state: editing(`${'a'.repeat(50)}${'b'.repeat(50)}`, 50) })
    expect(middle.plain.at(-1)).toMatch(/^ > a{34}/)
  })

  test('is there at once for a pasted line of 100,000 characters, and for keys in it', () => {
    const started = performance.now()
    for (const text of ['p', '日', 'e\u0301', '\u200D'].map((part) => part.repeat(100_000))) {
      draw({ columns: 80, rows: 24, state: editing(text) })
      edit({ text, cursor: text.length, killed: '' }, 'backspace')
      edit({ text, cursor: 0, killed: '' }, 'right')
    }
    expect(performance.now() - started).toBeLessThan(2000)
  })
})

describe('keys that are shown', () => {
  test('are none that would be typed into the game', () => {
    const paused = liveState({ follow: false })
    const typing = draw({ columns: 120, rows: 24, state: paused, lines: LINES }).plain.join('\n')
    expect(typing).toContain('PgDn scrolls down')
    expect(typing).toContain('[Esc h] load')
    expect(typing).not.toMatch(/G or f|\[h\]/)
    const reading = draw({ columns: 120, rows: 24, state: { ...paused, focus: 'log' }, lines: LINES }).plain.join('\n')
    expect(reading).toContain('G or f to follow')
    expect(reading).toContain('[h] load')
  })

  test('offer no power and no typing where nothing is sent', () => {
    const shown = (state: ConsoleState): string => draw({ columns: 200, rows: 30, state }).plain.join('\n')
    expect(shown(liveState({ focus: 'log' }))).toMatch(/p power/)
    expect(shown(liveState({ mode: { kind: 'help' } }))).toMatch(/kill/)
    expect(shown(liveState({}, true))).not.toMatch(/power|i type/)
    expect(shown(liveState({ mode: { kind: 'help' } }, true))).not.toMatch(/kill|Ctrl-R/)
  })

  test('of the power menu are all there at 40 columns', () => {
    const shown = plainAt(40, 10, liveState({ mode: { kind: 'power' } })).join('\n')
    for (const key of ['s start', 't stop', 'r restart', 'k kill', 'Esc cancel']) expect(shown).toContain(key)
  })
})
