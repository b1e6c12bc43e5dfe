import { expect, test } from 'vitest'
import { createPace } from '../../../src/cli/tui/terminal/pace.ts'

/** A terminal behind a line of `perMs` bytes a millisecond, in front of which 20 KiB are kept. */
function slowLine(perMs: number) {
  let queued = 0
  let at = 0
  return {
    now: () => at,
    queued: () => queued,
    wait: (ms: number) => {
      at += ms
      queued = Math.max(0, queued - ms * perMs)
    },
    /** Milliseconds until all bytes are in the queue. */
    write: (bytes: number): number => {
      const over = Math.max(0, queued + bytes - 20_480)
      const took = over / perMs
      at += took
      queued = Math.max(0, queued - took * perMs) + bytes
      return took
    },
  }
}

test.each([5, 20])(
  'a terminal that takes %d kB a second soon has nothing in front of it that a key waits behind',
  (perMs) => {
    const line = slowLine(perMs)
    const pace = createPace(0)
    const waits: number[] = []
    let sent = 0
    while (line.now() < 55_000) {
      const room = pace.room(line.now())
      if (room >= 1) {
        const bytes = Math.min(room, 3000)
        pace.wrote(bytes, line.write(bytes), line.now())
        sent += bytes
      }
      line.wait(20)
      if (line.now() > 15_000) waits.push(line.queued() / perMs)
    }
    const sorted = waits.sort((a, b) => a - b)
    expect(sorted[Math.floor(sorted.length * 0.9)]).toBeLessThan(250)
    // Nor does it stand still: most of what the line takes is used.
    expect(sent / (55_000 * perMs)).toBeGreaterThan(0.5)
  },
)

test('a fast terminal is given whole frames, and one that was slow for a moment gets them again', () => {
  const pace = createPace(0)
  pace.wrote(12_000, 2, 100)
  expect(pace.room(100)).toBe(Number.POSITIVE_INFINITY)
  pace.wrote(12_000, 60, 200)
  expect(pace.room(200)).toBe(Number.POSITIVE_INFINITY)
  pace.wrote(12_000, 60, 300)
  expect(pace.room(300)).toBe(0)
  expect(pace.room(20_000)).toBeLessThan(100_000)
  expect(pace.room(61_000)).toBe(Number.POSITIVE_INFINITY)
})
