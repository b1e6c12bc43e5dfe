import { describe, expect, test } from 'vitest'
import { buildFrame, type Frame } from '../../../src/cli/tui/frame.ts'
import { readKeyNames } from '../../../src/cli/tui/keys.ts'
import { Lines } from '../../../src/cli/tui/lines.ts'
import { readPattern } from '../../../src/cli/tui/matcher.ts'
import { type ConsoleState, initialState } from '../../../src/cli/tui/model.ts'
import { Ring } from '../../../src/cli/tui/ring.ts'
import { layOut } from '../../../src/cli/tui/screen.tsx'
import { tailRows } from '../../../src/cli/tui/viewport.ts'
import type { Clock } from '../../../src/shared/kernel/time.ts'

const clock: Clock = { nowMs: () => 1_000_000_000, monotonicMs: () => 0, sleep: async () => {} }

// biome-ignore lint/suspicious/noControlCharactersInRegex: styles are not compared
const SGR = /\u001B\[[\d;]*m/g

/** The frame of a console with ten lines at a size. */
function frameAt(
  columns: number,
  rows: number,
  change: (state: ConsoleState) => ConsoleState = (state) => state,
): Frame {
  const ring = new Ring({ lines: 100 })
  for (let n = 1; n <= 10; n += 1)
    ring.append({ seq: n, ms: 0, kind: 'stdout', text: `line ${n} \u001B[32m日本\u001B[0m ${'long '.repeat(60)}` })
  ring.append({ seq: 11, ms: 20, kind: 'gap', text: 'gap: 10 lines not shown live (seq 11..20)  [h] load' })
  const size = { columns, rows }
  const lines = new Lines(ring, clock, size)
  const first = initialState({
    serverName: 'survival-1',
    readOnly: false,
    detachKeys: readKeyNames('ctrl-]'),
    history: ['say hi'],
    time: 'utc',
  })
  const state = change({
    ...first,
    facts: {
      ...first.facts,
      link: { kind: 'live' },
      status: 'running',
      runningSinceMs: 1_000_000_000 - 273_600_000,
      rate: 42,
      seq: 1_204_331,
    },
  })
  const bar = {
    nodeName: 'node-a',
    contextName: 'prod',
    nowMs: clock.nowMs(),
    end: ring.end,
    match: undefined,
    sampling: false,
  }
  return buildFrame({ state, size, layout: lines.layout, rows: tailRows(lines.pane(state)), bar })
}

const drawn = (frame: Frame, columns: number): string[] => {
  const bars = layOut(frame, columns)
  const top = frame.header.length
  return [...bars.slice(0, top), ...frame.log, ...bars.slice(top)].map((row) => row.replace(SGR, '').trimEnd())
}

describe('a frame', () => {
  test('at 40x10 has no box: a status row, lines, a prompt', () => {
    const rows = drawn(frameAt(40, 10), 40)
    expect(rows).toHaveLength(9)
    expect(rows[0]).toMatch(/^ survival-1 {2}RUNNING 3d04h .*LIVE ●/)
    expect(rows[6]).toContain('line 10 日本')
    expect(rows[7]).toMatch(/^──.*gap: 10 lines.*──$/)
    expect(rows[8]).toBe('>')
  })

  test('at 40x10 says that it is paused, and what it is narrowed to', () => {
    const paused = frameAt(40, 10, (state) => ({ ...state, follow: false, pausedEnd: 4 }))
    expect(drawn(paused, 40)[0]).toMatch(/^ PAUSED · 7 new lines.* LIVE ●/)
    const filter = readPattern('!warn')
    const filtered = frameAt(40, 10, (state) => ({ ...state, filter }))
    expect(drawn(filtered, 40)[0]).toMatch(/^ filter: !\/warn\/ .* LIVE ●/)
    const levelled = frameAt(40, 10, (state) => ({ ...state, level: 'warn' }))
    expect(drawn(levelled, 40)[0]).toMatch(/^ level WARN .* LIVE ●/)
  })

  test('at 80x24 has a box without the fields at its right', () => {
    const rows = drawn(frameAt(80, 24), 80)
    expect(rows).toHaveLength(23)
    expect(rows[0]).toMatch(/^┌ survival-1 ─ RUNNING 3d04h ─ node-a ─ ctx prod ─+ LIVE ● ┐$/)
    expect(rows[17]).toMatch(/^│ 00:00:00\.000Z line 10 日本 long long.* │$/)
    expect(rows[19]).toMatch(/^├ CPU - ─ MEM - ─ disk - ─+ ┤$/)
    expect(rows[20]).toMatch(/^│ wrap off {2}ts utc {2}follow ON +│$/)
    expect(rows[21]).toMatch(/^│ > +│$/)
    expect(rows[22]).toMatch(/^└ \^\] detach/)
  })

  test('at 200x60 has the rate, the number and the length of the history too', () => {
    const rows = drawn(frameAt(200, 60), 200)
    expect(rows).toHaveLength(59)
    expect(rows[0]).toMatch(/LIVE ● ─ 42 l\/s ─ seq 1,204,331 ┐$/)
    expect(rows[56]).toMatch(/history 1\/500 │$/)
  })

  test.each([
    [40, 10],
    [41, 8],
    [79, 40],
    [80, 15],
    [99, 24],
    [100, 24],
    [200, 60],
  ])('never fills the last row or column at %dx%d, whatever is open', (columns, rows) => {
    const changes: ((state: ConsoleState) => ConsoleState)[] = [
      (state) => state,
      (state) => ({ ...state, mode: { kind: 'help' } }),
      (state) => ({ ...state, wrap: true }),
      (state) => ({ ...state, mode: { kind: 'kill', editor: state.editor } }),
      (state) => ({ ...state, notice: { text: '日本'.repeat(200), untilMs: Number.MAX_SAFE_INTEGER } }),
      (state) => ({ ...state, editor: { text: 'x'.repeat(500), cursor: 500, killed: '' } }),
      (state) => ({ ...state, follow: false, serverName: 'a very long name of a server '.repeat(5) }),
    ]
    for (const change of changes) {
      const frame = frameAt(columns, rows, change)
      const shown = drawn(frame, columns)
      expect(shown.length).toBeLessThanOrEqual(rows - 1)
      for (const row of shown)
        expect([...row].reduce((sum, c) => sum + (/[日本]/.test(c) ? 2 : 1), 0)).toBeLessThan(columns)
      if (frame.cursor !== undefined) {
        expect(frame.cursor.x).toBeLessThan(columns)
        expect(frame.cursor.y).toBeLessThan(rows - 1)
      }
    }
  })

  test('below 40x8 is one sentence', () => {
    expect(drawn(frameAt(39, 24), 39)).toEqual([`${'panel: 39x24 is too small, 40x8 needed…'.slice(0, 37)}…`])
  })
})
