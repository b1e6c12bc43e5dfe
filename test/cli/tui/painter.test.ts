import { describe, expect, test } from 'vitest'
import { createPainter } from '../../../src/cli/tui/painter.ts'
import { clearings, leftBehind } from './modes.ts'

const painting = () => {
  const written: string[] = []
  const painter = createPainter({ write: (text) => void written.push(text) })
  const paint = (rows: readonly string[], cursor?: { x: number; y: number }): string => {
    written.length = 0
    painter.paint({ rows, cursor })
    return written.join('')
  }
  return { painter, paint, written }
}

describe('the painter', () => {
  test('writes the rows that changed at their places, in one piece, and clears nothing else', () => {
    const { paint } = painting()
    const first = paint(['one', 'two', 'three'], { x: 4, y: 2 })
    for (const part of ['\u001B[1;1Hone', '\u001B[2;1Htwo', '\u001B[3;1Hthree', '\u001B[3;5H\u001B[?25h'])
      expect(first).toContain(part)
    const second = paint(['one', 'two and more', 'three'], { x: 4, y: 2 })
    expect(second).toContain('\u001B[2;1Htwo and more\u001B[0m\u001B[K')
    expect(second).not.toMatch(/one|three/)
    expect(clearings(first + second)).toBe(0)
    expect(leftBehind(first + second)).toEqual([])
  })

  test('writes nothing for the same picture, and the cursor alone when only that moved', () => {
    const { paint } = painting()
    paint(['one'], { x: 0, y: 0 })
    expect(paint(['one'], { x: 0, y: 0 })).toBe('')
    expect(paint(['one'], { x: 2, y: 0 })).not.toContain('one')
    expect(paint(['one'], { x: 2, y: 0 })).toBe('')
    expect(leftBehind(paint(['one']))).toEqual(['?25'])
  })

  test('empties rows that a shorter picture has no more, and draws all again after a restart', () => {
    const { painter, paint, written } = painting()
    paint(['one', 'two'])
    expect(paint(['one'])).toContain('\u001B[2;1H\u001B[0m\u001B[K')
    painter.restart()
    expect(clearings(written.join(''))).toBe(1)
    expect(paint(['one'])).toContain('\u001B[1;1Hone')
  })
})
