import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { LineIndex } from '../../../src/cli/tui/log/line-index.ts'
import { type NewEntry, Ring } from '../../../src/cli/tui/log/ring.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'

const line = (seq: number, text = `line ${seq}`): NewEntry => ({ seq, ms: 1000 + seq, kind: 'stdout', text })
const textsOf = (ring: Ring): string[] =>
  Array.from({ length: ring.length }, (_, n) => ring.get(ring.first + n)?.text ?? '?')

describe('the ring of lines', () => {
  test('keeps the newest lines with their places, and at most one chunk more', () => {
    const ring = new Ring({ lines: 1000 })
    for (let seq = 1; seq <= 5000; seq += 1) ring.append(line(seq))
    expect(ring.end).toBe(5000)
    expect(ring.length).toBeGreaterThanOrEqual(1000)
    expect(ring.length).toBeLessThanOrEqual(1256)
    expect(ring.get(4999)).toEqual({ at: 4999, ...line(5000), level: 'info' })
    expect(ring.get(ring.first)?.seq).toBe(ring.first + 1)
    expect(ring.get(ring.first - 1)).toBeUndefined()
    expect(ring.get(5000)).toBeUndefined()
  })

  test('keeps fewer lines when they are long', () => {
    const ring = new Ring({ lines: 20_000, bytes: 1024 * 1024 })
    for (let seq = 1; seq <= 1000; seq += 1) ring.append(line(seq, 'é'.repeat(16_000)))
    expect(ring.length).toBeLessThan(100)
    expect(ring.get(999)?.text).toBe('é'.repeat(16_000))
  })

  test('is what a plain list is, whatever is appended, put in front or filled in', () => {
    const step = fc.oneof(
      fc.record({ do: fc.constant('append' as const), count: fc.integer({ min: 1, max: 400 }) }),
      fc.record({ do: fc.constant('prepend' as const), count: fc.integer({ min: 1, max: 300 }) }),
      fc.record({ do: fc.constant('replace' as const), count: fc.integer({ min: 1, max: 50 }), where: fc.nat(10_000) }),
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const ring = new Ring({ lines: 100_000 })
        let list: string[] = []
        let next = 0
        const make = (count: number): NewEntry[] =>
          Array.from({ length: count }, () => {
            next += 1
            return line(next, `text ${next}`)
          })
        for (const wanted of steps) {
          const lines = make(wanted.count)
          const texts = lines.map(({ text }) => text)
          if (wanted.do === 'append') {
            for (const entry of lines) ring.append(entry)
            list = [...list, ...texts]
          } else if (wanted.do === 'prepend') {
            ring.prepend(lines)
            list = [...texts, ...list]
          } else if (list.length > 0) {
            const index = wanted.where % list.length
            const end = ring.end
            ring.replace(ring.first + index, lines)
            list = [...list.slice(0, index), ...texts, ...list.slice(index + 1)]
            expect(ring.end).toBe(end)
          }
        }
        expect(textsOf(ring)).toEqual(list)
      }),
      { numRuns: 100 },
    )
  })

  test('stays flat in memory over 1,000,000 lines', { timeout: 60_000 }, () => {
    const ring = new Ring({ lines: 20_000 })
    const fill = (from: number, to: number): void => {
      for (let seq = from; seq <= to; seq += 1)
        ring.append(line(seq, `[Server thread/INFO]: number ${seq} of a long evening`))
    }
    fill(1, 100_000)
    const before = process.memoryUsage().arrayBuffers
    fill(100_001, 1_000_000)
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(8 * 1024 * 1024)
    expect(ring.get(999_999)?.seq).toBe(1_000_000)
  })
})

describe('the index of lines that pass a test', () => {
  test('finds in slices what a filter over all lines finds, also while lines come and go', () => {
    const ring = new Ring({ lines: 2000 })
    for (let seq = 1; seq <= 3000; seq += 1) ring.append(line(seq))
    const index = new LineIndex(ring, (entry) => entry.seq % 7 === 0)
    for (let more = true; more; ) more = index.advance(0, systemClock)
    for (let seq = 3001; seq <= 5000; seq += 1) ring.append(line(seq))
    for (let more = true; more; ) more = index.advance(0, systemClock)
    const found = Array.from({ length: index.length }, (_, n) => ring.get(index.at(n) ?? -1)?.seq)
    const expected = Array.from({ length: ring.length }, (_, n) => ring.first + n + 1).filter((seq) => seq % 7 === 0)
    expect(found).toEqual(expected)
    expect(index.rank(ring.end)).toBe(expected.length)
    expect(index.rank(ring.first)).toBe(0)
  })
})
