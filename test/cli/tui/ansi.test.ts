import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { paint, plainText, readLine } from '../../../src/cli/tui/log/ansi.ts'
import { cutSpans, fitText, textWidth, wrapSpans } from '../../../src/cli/tui/log/cut.ts'

// biome-ignore lint/suspicious/noControlCharactersInRegex: the only control that may pass
const SGR_ONLY = /\u001B\[[\d;]+m/g
const CONTROL = /[\p{Cc}\u2028-\u202E\u2066-\u2069]/u

/** Text of the kinds that a hostile game sends: pieces of sequences, whole and broken, between ordinary characters. */
const hostile = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom(
        '\u001B',
        '\u001B[',
        '\u001B]0;',
        '\u0007',
        '\u001B\\',
        '\u009B',
        '\u009D',
        '\u0090',
        '\u009C',
        '\u001BP',
        '\u001B[2J',
      ),
      fc.constantFrom(
        '\u001B[31m',
        '\u001B[38;5;200m',
        '\u001B[0m',
        '\u001B[1;4m',
        '\u001B[?25l',
        '\u001B[200~',
        '\r',
        '\n',
        '\b',
        '日本',
        '🎉',
      ),
    ),
    { maxLength: 30 },
  )
  .map((parts) => parts.join(''))

describe('a line of the game', () => {
  test('brings no control character but SGR to the terminal, however it is cut', () => {
    fc.assert(
      fc.property(hostile, fc.integer({ min: 1, max: 60 }), fc.integer({ min: 0, max: 20 }), (raw, width, from) => {
        const spans = readLine(raw)
        const rows = [
          paint(spans),
          paint(cutSpans(spans, from, width)),
          ...wrapSpans(spans, width).map(paint),
          paint(readLine(raw, 10)),
        ]
        const shown = [...rows.map((row) => row.replace(SGR_ONLY, '')), plainText(raw)]
        expect(shown.filter((row) => CONTROL.test(row.replaceAll('\t', '')))).toEqual([])
      }),
      { numRuns: 600 },
    )
  })

  test('loses no visible character and no row is wider than the screen', () => {
    fc.assert(
      fc.property(hostile, fc.integer({ min: 2, max: 60 }), (raw, width) => {
        const spans = readLine(raw)
        expect(spans.map(({ text }) => text).join('')).toBe(plainText(raw))
        const rows = wrapSpans(spans, width).map((row) => row.map(({ text }) => text).join(''))
        expect(rows.filter((row) => textWidth(row) > width)).toEqual([])
        if (!raw.includes('\t')) expect(rows.join('')).toBe(plainText(raw))
        expect(
          textWidth(
            cutSpans(spans, 3, width)
              .map(({ text }) => text)
              .join(''),
          ),
        ).toBeLessThanOrEqual(width)
      }),
      {
        numRuns: 400,
        examples: [
          ['\t', 2],
          [' \u{E0100}', 2],
          ['🎉\u1920', 2],
        ],
      },
    )
  })

  test('keeps its colours and ends them', () => {
    expect(paint(readLine('a \u001B[1;31mred\u001B[0m b'))).toBe('a \u001B[1m\u001B[31mred\u001B[0m b')
    expect(paint(readLine('\u001B[38;2;1;2;3mx'))).toBe('\u001B[38;2;1;2;3mx\u001B[0m')
    expect(paint(readLine('\u001B[38;5;8mx'))).toBe('\u001B[38;5;8mx\u001B[0m')
    expect(paint(readLine('\u001B[32mx\u001B[39my'))).toBe('\u001B[32mx\u001B[0my')
  })

  test('cannot hide its text', () => {
    expect(paint(readLine('\u001B[8mhidden\u001B[5mblinking'))).toBe('hiddenblinking')
  })

  test('drops sequences with all they carry', () => {
    expect(plainText('a\u001B]52;c;c2VjcmV0\u0007b\u001BPdata\u001B\\c\u009D0;t\u009Cd\u001B[?1049he')).toBe('abcde')
  })

  test('is cut at wide characters without breaking them', () => {
    expect(cutSpans(readLine('日本語'), 1, 4)).toEqual([{ style: '', text: ' 本' }])
    expect(fitText('日本語', 5)).toBe('日本…')
    expect(textWidth('e\u0301')).toBe(1)
    expect(textWidth('👨‍👩‍👧')).toBe(2)
  })
})
