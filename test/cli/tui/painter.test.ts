import { describe, expect, test } from 'vitest'
import { createPainter } from '../../../src/cli/tui/painter.ts'
import { clearings, leftBehind } from './modes.ts'

const SIZE = { columns: 40, rows: 10 }

const painting = () => {
  const written: string[] = []
  const painter = createPainter({ write: (text) => void written.push(text) }, SIZE)
  const paint = (log: readonly string[], more: { header?: string; cursor?: { x: number; y: number } } = {}): string => {
    written.length = 0
    painter.paint({ header: [more.header ?? 'top'], log, footer: ['below', ''], cursor: more.cursor })
    return written.join('')
  }
  return { painter, paint, written }
}

describe('the painter', () => {
  test('writes the rows that changed at their places, in one piece, and clears nothing else', () => {
    const { paint } = painting()
    const cursor = { x: 4, y: 2 }
    const first = paint(['one', 'two'], { cursor })
    for (const part of [
      '\u001B[1;1Htop',
      '\u001B[2;1Hone',
      '\u001B[3;1Htwo',
      '\u001B[4;1Hbelow',
      '\u001B[3;5H\u001B[?25h',
    ])
      expect(first).toContain(part)
    const second = paint(['one', 'two and more'], { cursor })
    expect(second).toContain('\u001B[3;1Htwo and more\u001B[0m\u001B[K')
    expect(second).not.toMatch(/top|one|below/)
    const third = paint(['one', 'two and more'], { cursor, header: 'another top' })
    expect(third).toContain('\u001B[1;1Hanother top')
    expect(third).not.toMatch(/one|two|below/)
    expect(clearings(first + second + third)).toBe(0)
    expect(leftBehind(first + second + third)).toEqual([])
  })

  test('writes nothing for the same picture, and the cursor alone when only that moved', () => {
    const { paint } = painting()
    paint(['one'], { cursor: { x: 0, y: 0 } })
    expect(paint(['one'], { cursor: { x: 0, y: 0 } })).toBe('')
    expect(paint(['one'], { cursor: { x: 2, y: 0 } })).not.toContain('one')
    expect(paint(['one'], { cursor: { x: 2, y: 0 } })).toBe('')
    expect(leftBehind(paint(['one']))).toEqual(['?25'])
  })

  test('empties rows that a shorter picture has no more, and draws all again after a restart', () => {
    const { painter, paint, written } = painting()
    paint(['one', 'two'])
    const shorter = paint(['one'])
    expect(shorter).toContain('\u001B[3;1Hbelow')
    expect(shorter).toContain('\u001B[4;1H\u001B[0m\u001B[K')
    painter.restart(SIZE)
    expect(clearings(written.join(''))).toBe(1)
    expect(paint(['one'])).toContain('\u001B[1;1Htop')
  })
})
