import { describe, expect, test } from 'vitest'
import { createPainter } from '../../../src/cli/tui/terminal/painter.ts'
import { clearings, leftBehind } from './modes.ts'

const painting = () => {
  const painter = createPainter()
  const paint = (log: readonly string[], more: { header?: string; cursor?: { x: number; y: number } } = {}): string => {
    painter.show({ above: [more.header ?? 'top'], log, below: ['below', ''], cursor: more.cursor })
    return painter.take(Number.POSITIVE_INFINITY)
  }
  return { painter, paint }
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
    const { painter, paint } = painting()
    paint(['one', 'two'])
    const shorter = paint(['one'])
    expect(shorter).toContain('\u001B[3;1Hbelow')
    expect(shorter).toContain('\u001B[4;1H\u001B[0m\u001B[K')
    expect(clearings(painter.restart())).toBe(1)
    expect(paint(['one'])).toContain('\u001B[1;1Htop')
  })

  test('gives a slow terminal a frame in pieces: first what stands around the log, then its rows from the top', () => {
    const { painter, paint } = painting()
    paint(['', ''])
    const log = ['a long first row', 'a long second row']
    painter.show({ above: ['new top'], log, below: ['new below', ''], cursor: undefined })
    const pieces: string[] = []
    while (painter.behind) pieces.push(painter.take(1))
    const order = ['new below', 'new top', 'first row', 'second row']
    expect(pieces.map((piece) => order.findIndex((words) => piece.includes(words)))).toEqual([0, 1, 2, 3])
    expect(painter.take(Number.POSITIVE_INFINITY)).toBe('')
    expect(leftBehind(pieces.join(''))).toEqual(['?25'])
  })
})
