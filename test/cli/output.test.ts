import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isReached, type Order, type Seen } from '../../src/cli/commands/servers/outcome.ts'
import { readEnvironment } from '../../src/cli/kit/environment.ts'
import { relativeTime, shortDuration } from '../../src/cli/kit/output/cell.ts'
import { createPaint, wantsColour } from '../../src/cli/kit/output/colour.ts'
import { csvLine } from '../../src/cli/kit/output/csv.ts'
import { consoleText, oneLine, plainText } from '../../src/cli/kit/output/escape.ts'
import { Output, type OutputOptions } from '../../src/cli/kit/output/output.ts'
import { displayWidth, table } from '../../src/cli/kit/output/table.ts'
import { column, view, wide } from '../../src/cli/kit/output/view.ts'
import { mibOf } from '../../src/cli/kit/resource/fields.ts'
import { maskedHeaders } from '../../src/cli/kit/trace.ts'

const NOW = Date.parse('2026-01-01T12:00:00.000Z')

interface Thing {
  readonly id: string
  readonly name: string
  readonly at: string
  readonly sub: { readonly n: number }
}

const VIEW = view<Thing>([
  column('NAME', (row) => row.name),
  column('AT', (row) => ({ time: row.at })),
  wide('N', (row) => row.sub.n),
])
const ROWS: Thing[] = [
  { id: 'a_1', name: 'one', at: '2026-01-01T11:55:00.000Z', sub: { n: 1 } },
  { id: 'a_2', name: '=cmd()\u001b[2J', at: '2026-01-01T11:00:00.000Z', sub: { n: 2 } },
]

async function written(options: Partial<OutputOptions>, work: (output: Output) => Promise<void>): Promise<string> {
  let text = ''
  const output = new Output({
    format: 'table',
    fields: [],
    jq: undefined,
    header: true,
    columns: undefined,
    terminal: false,
    style: { nowMs: () => NOW, utc: false, paint: createPaint(false) },
    write: async (part) => {
      text += part
    },
    ...options,
  })
  await work(output)
  return text
}

describe('formats', () => {
  it.each([
    [
      'table',
      'NAME             AT\none              5m ago\n=cmd()\\x1b[2J  1h ago\n'
        .replace('NAME             AT', 'NAME           AT')
        .replace('one              5m', 'one            5m'),
    ],
    ['id', 'a_1\na_2\n'],
    ['csv', "name,at,n\r\none,2026-01-01T11:55:00.000Z,1\r\n'=cmd()\u001b[2J,2026-01-01T11:00:00.000Z,2\r\n"],
    ['jsonl', `${JSON.stringify(ROWS[0])}\n${JSON.stringify(ROWS[1])}\n`],
  ] as const)('%s', async (format, expected) => {
    expect(await written({ format }, (output) => output.list(ROWS, VIEW))).toBe(expected)
  })

  it('chooses fields by dotted paths and refuses unknown ones', async () => {
    const text = await written({ format: 'json', fields: ['id', 'sub.n'] }, (output) => output.list(ROWS, VIEW))
    expect(JSON.parse(text)).toEqual([
      { id: 'a_1', 'sub.n': 1 },
      { id: 'a_2', 'sub.n': 2 },
    ])
    await expect(written({ format: 'json', fields: ['nope'] }, (output) => output.list(ROWS, VIEW))).rejects.toThrow(
      "no field 'nope'",
    )
  })

  it('refuses an unknown column with the known ones', async () => {
    await expect(written({ columns: ['x'] }, (output) => output.list(ROWS, VIEW))).rejects.toThrow("no column 'x'")
  })

  it('aligns wide characters', () => {
    expect(
      table(undefined, [
        ['日本', 'x'],
        ['abcd', 'y'],
      ]),
    ).toBe('日本  x\nabcd  y\n')
    expect(displayWidth('\u001b[31mé\u001b[0m')).toBe(1)
  })
})

// biome-ignore lint/suspicious/noControlCharactersInRegex: these must not come through
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/
// biome-ignore lint/suspicious/noControlCharactersInRegex: these may
const COLOUR = /\u001b\[[\d;:]*m/g

describe('what reaches a terminal', () => {
  it('never has a control byte in a table cell', async () => {
    await fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => !CONTROL.test(oneLine(text))))
  })

  it('keeps only colours of a console line', async () => {
    expect(consoleText('\u001b[31mred\u001b[0m\u001b[2J\u001b]0;title\u0007\u009b5n\rx')).toBe(
      '\u001b[31mred\u001b[0mx',
    )
    const piece = fc.constantFrom(
      '\u001b',
      '[',
      '3',
      '1',
      'm',
      'H',
      ']',
      '\u0007',
      '\u009b',
      '\\',
      'a',
      ';',
      'P',
      '\r',
      '\u001b[31m',
    )
    await fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (parts) => {
        const left = consoleText(parts.join('')).replace(COLOUR, '')
        return !CONTROL.test(left.replaceAll('\t', '')) && !plainText(parts.join('')).includes('\u001b')
      }),
    )
  })

  it('masks credentials in traces', () => {
    expect(maskedHeaders({ authorization: 'Bearer pak_01k0_AbC-_9', accept: 'x' })).toBe(
      'authorization: Bearer pak_…, accept: x',
    )
    expect(maskedHeaders({ Authorization: 'Bearer something-else' })).not.toContain('something')
  })
})

describe('small parts', () => {
  it('guards CSV against formulas and quotes', () => {
    expect(csvLine(['=1+1', '-5', '+4.5', '@x', 'a"b', 'c,d'])).toBe(`'=1+1,-5,+4.5,'@x,"a""b","c,d"\r\n`)
  })

  it('tells times and durations in their largest unit', () => {
    expect([
      relativeTime('2026-01-01T12:04:00.000Z', NOW),
      relativeTime('nonsense', NOW),
      shortDuration(3_599_999),
    ]).toEqual(['in 4m', 'nonsense', '59m'])
  })

  it('reads sizes', () => {
    expect(['512', '512M', '2G', '1.5GiB', '1t'].map((text) => mibOf(text, 'memory'))).toEqual([
      512, 512, 2048, 1536, 1_048_576,
    ])
    expect(() => mibOf('2 apples', 'memory')).toThrow('--memory')
  })

  it('warns of unknown PANEL_ names, not of those of the daemon', () => {
    expect(readEnvironment({ HOME: '/h', PANEL_URLS: 'x', PANEL_HTTP__LISTEN: 'y', PANEL_URL: 'z' }).unknown).toEqual([
      'PANEL_URLS',
    ])
    expect(readEnvironment({ HOME: '/h' }).configDir).toBe('/h/.config/panel')
    expect(readEnvironment({ HOME: '/h', XDG_CONFIG_HOME: '/x' }).configDir).toBe('/x/panel')
  })

  it('colours only a terminal, and obeys NO_COLOR and the flags', () => {
    const decide = (env: Record<string, string>, isTTY: boolean, color?: string) =>
      wantsColour(readEnvironment({ HOME: '/h', ...env }), { isTTY }, { color, noColor: false })
    expect([
      decide({}, true),
      decide({}, false),
      decide({ NO_COLOR: '1' }, true),
      decide({ TERM: 'dumb' }, true),
    ]).toEqual([true, false, false, false])
    expect([decide({ NO_COLOR: '1' }, false, 'always'), decide({ FORCE_COLOR: '1' }, false)]).toEqual([true, true])
  })
})

describe('the outcome of an order', () => {
  const before: Seen = {
    name: 'demo',
    status: 'running',
    generation: 1,
    desired: 'running',
    startedAt: null,
    lastCrashAt: null,
    reason: null,
    lastExitReason: null,
    installed: true,
    nextRestartAt: null,
  }
  const order: Order = { action: 'restart', generation: 2, commandId: 'cmd_1', start: false }
  const now = (change: Partial<Record<keyof Seen, unknown>>): Seen => ({ ...before, generation: 2, ...change }) as Seen // fields of a Seen

  it('does not take the old run for the new one', () => {
    expect(isReached(order, now({}), { before, done: undefined, moved: false })).toBe(false)
    expect(
      isReached(order, now({ startedAt: '2026-01-01T00:00:00.000Z' }), { before, done: undefined, moved: true }),
    ).toBe(true)
  })

  it('does not take the crash before a start for its outcome', () => {
    const crashed: Seen = { ...before, status: 'crashed' }
    const start: Order = { ...order, action: 'start' }
    expect(isReached(start, now({ status: 'crashed' }), { before: crashed, done: undefined, moved: false })).toBe(false)
  })

  it('does not take the stop within an earlier restart for its own', () => {
    const stop: Order = { action: 'stop', generation: 3, commandId: 'cmd_2', start: false }
    const down = now({ generation: 3, desired: 'stopped', status: 'stopped' })
    expect(isReached(stop, down, { before, done: undefined, moved: false })).toBe(false)
    const done = { commandId: 'cmd_2', op: 'stop', ok: true, noop: false, code: null, error: null }
    expect(isReached(stop, down, { before, done, moved: false })).toBe(true)
    // Without an order of its own it waits for what was under way.
    expect(isReached({ ...stop, commandId: '' }, down, { before, done: undefined, moved: false })).toBe(true)
  })

  it('ends when a later order wants the opposite', () => {
    const later = now({ generation: 3, desired: 'stopped', status: 'stopping' })
    expect(() => isReached(order, later, { before, done: undefined, moved: false })).toThrow('a later order')
  })
})
